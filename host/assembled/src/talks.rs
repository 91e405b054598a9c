//! Channels between the threads of both kernels: callers talk to a server on each kernel, with
//! short messages, blocks and ends. Each question has a number of its own, so one that comes twice,
//! or not at all, is noticed.
//!
//! Contract: a conversation breaks only if a kernel died, a caller that has closed its ends has
//! none left, and no message or block stays in memory.

use crate::callers::{Caller, count, deaths};
use crate::report::Count;
use crate::turn::control;
use abi::soc::state;
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use contract::Contract;
use kernel_contract::exchange::{
    Arrived, Brief, BriefBlock, Called, Cargo, Known, Outgoing, Room, Windows,
};
use kernel_contract::{Block, Hash};
use kernel_msg::Level;
use kernel_node::Node;
use kernel_platform::channels::{Failure, Holder};
use kernel_platform::peers::Peers;
use kernel_services::channels::{Failed, User};
use kernel_services::kernel::{self, Kernel};
use kernel_services::session::Session;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Names of the contracts: of conversations, and of the ends that are passed.
const NAMES: [&str; 2] = ["talk.v1.toml", "hello.v1.toml"];
/// The longest block.
const LONGEST: u64 = 40_000;
/// What is in the room for a block.
const MARK: u8 = 0xa5;
/// Blocks up to this length go to another kernel in their messages: three of those may be unread.
const SHORT: usize = 1376 - 8 * WORDS - 32;
/// Process tree of the servers; callers have the numbers after it.
const TREE: u32 = 100;
/// The most words of fields.
const WORDS: usize = 14;

/// Tags, in the order of the contract.
pub mod tag {
    pub const ASK: u16 = 0;
    pub const PART: u16 = 1;
    pub const ANSWER: u16 = 2;
    pub const GIVE: u16 = 3;
    pub const GOT: u16 = 4;
    pub const OFFER: u16 = 5;
    pub const TAKEN: u16 = 6;
    pub const BYE: u16 = 7;
    pub const SHARE: u16 = 8;
    pub const SEEN: u16 = 9;
    pub const CHANGED: u16 = 10;
    pub const KEPT: u16 = 11;
    // Of the ends that are passed.
    pub const WAIT: u16 = 0;
    pub const HELLO: u16 = 1;
}

/// The contracts in binary form. They outlive every kernel.
static BINARY: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
/// The same as this kernel knows them.
static KNOWN: OnceLock<[Known; 2]> = OnceLock::new();

/// Free cells of this kernel before the first message.
static CELLS: AtomicUsize = AtomicUsize::new(0);

/// Reads the contracts. To be called before any kernel starts.
pub fn prepare() -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("contracts");
    let read = |name: &str| Contract::read(&folder.join(name)).map_err(|why| why.to_string());
    let [talk, hello] = NAMES.map(read);
    let _ = BINARY.set([talk?.bytes, hello?.bytes]);
    Ok(())
}

/// Gives this kernel the contracts. To be called before its threads run: allocating may be a step,
/// and a thread that finds another one in here would wait for ever.
pub fn start(kernel: &Kernel) {
    let binary = BINARY.get().expect("the contracts were read");
    let parsed = |bytes: &Vec<u8>| Known::parse(bytes.clone().into()).expect("it is valid");
    let _ = KNOWN.set(binary.each_ref().map(parsed));
    CELLS.store(kernel.channels.totals().free_cells, Relaxed);
}

fn known() -> &'static [Known; 2] {
    KNOWN.get().expect("the kernel has the contracts")
}

fn find(hash: &Hash) -> Option<&'static Known> {
    known().iter().find(|contract| contract.hash() == *hash)
}

/// A message as it came.
pub struct Message {
    pub tag: u16,
    pub words: [u64; 2],
    arrived: Arrived,
}

/// One end, and the thread that uses it.
#[derive(Clone, Copy)]
pub struct Talk<'a> {
    session: &'a Session,
    tree: u32,
    end: u64,
    /// Deaths of kernels when it began.
    pub before: u64,
    /// Whether the other side may end it.
    may_end: bool,
}

/// The conversation is over, because a kernel died or the other side left.
pub struct Over;

impl<'a> Talk<'a> {
    fn new(session: &'a Session, tree: u32, end: u64) -> Talk<'a> {
        Talk { session, tree, end, before: deaths(session.kernel), may_end: false }
    }

    pub fn kernel(&self) -> &'static Kernel {
        self.session.kernel
    }

    pub fn user(&self) -> User<'_, impl Fn() -> bool> {
        User { session: self.session, tree: self.tree, is_stopped: || false }
    }

    pub fn around(&self) -> (&Node, &Peers) {
        (self.session.kernel, &self.session.kernel.peers)
    }

    /// Judges a failure.
    pub fn over(&self, why: Failed) -> Over {
        let has_died = deaths(self.session.kernel) != self.before;
        match why {
            Failed::Channel(Failure::Closed) if has_died || self.may_end => Over,
            Failed::Channel(Failure::Broken) if has_died => Over,
            why => panic!("a conversation failed by {why:?}, deaths: {has_died}"),
        }
    }

    /// Sends a message with an end or a block.
    fn send(
        &self,
        tag: u16,
        words: &[u64],
        (end, block): (Option<u64>, &mut Option<Block>),
    ) -> Result<(), Over> {
        let bytes = fields_of(words);
        let message = Outgoing { tag, bytes: &bytes, block, ends: [end, None] };
        let sent = self.user().send(self.end, message, &find);
        sent.map_err(|why| self.over(Failed::Channel(why)))
    }

    /// Sends a message, if there is one, and receives the next one.
    pub fn exchange(
        &self,
        sent: Option<(u16, &[u64], &mut Option<Block>)>,
    ) -> Result<Message, Over> {
        let bytes = sent.as_ref().map_or(Vec::new(), |sent| fields_of(sent.1));
        let mut fields = [0; 8 * WORDS];
        // Some windows are received as blocks.
        let takes = self.may_end && !control().random().is_multiple_of(4);
        let windows = if takes { Windows::Prepared } else { Windows::AsBlocks };
        let has_place = self.may_end && !takes;
        // Servers let blocks be copied to where they are wanted.
        let mut place = if self.may_end { vec![MARK; LONGEST as usize] } else { Vec::new() };
        let mut message =
            sent.map(|(tag, _, block)| Outgoing { tag, bytes: &bytes, block, ends: [None; 2] });
        loop {
            let room = &mut Room {
                bytes: &mut fields,
                block: LONGEST as usize,
                has_memory: true,
                place: has_place.then_some(&mut place),
                ends: 2,
                windows,
            };
            let received = self.user().exchange(self.end, (message.take(), room), (&find, true));
            let block = received.as_ref().ok().and_then(|arrived| arrived.block.as_ref());
            let own = block.filter(|block| block.is_placed()).map_or(0, Block::len);
            let mut rest = place.iter().skip(own);
            assert!(rest.all(|byte| [0, MARK].contains(byte)), "a block of others is in the room");
            match received {
                Ok(mut arrived) => {
                    arrived.block = arrived.block.and_then(|block| gathered(block, &place));
                    let words = [0, 1].map(|at| word(&fields, at));
                    let mut more = 2..arrived.length / 8;
                    assert!(more.all(|at| word(&fields, at) == words[0]), "fields differ");
                    return Ok(Message { tag: arrived.tag, words, arrived });
                }
                // Its block did not come in time.
                Err(Failed::Silent) => {}
                Err(why) => return Err(self.over(why)),
            }
        }
    }

    /// Sends a message, and receives one, in the shortest way. Sometimes there is no room for a
    /// block.
    fn call(&self, tag: u16, words: &[u64], block: &mut Option<Block>) -> Result<Message, Over> {
        let (bytes, mut fields) = (fields_of(words), [0; 8 * WORDS]);
        let is_paged = block.is_some() || control().random().is_multiple_of(2);
        let blocks = is_paged.then_some(BriefBlock { block: &mut *block, room: LONGEST as usize });
        let mut call = Brief { tag, fields: &bytes, into: &mut fields, block: blocks };
        let called = self.user().call_plain(self.end, &mut call, find);
        match called.map_err(|why| self.over(why))? {
            Called::Refused => self.exchange(Some((tag, words, block))),
            Called::Sent => self.exchange(None),
            Called::Arrived { tag, length } => {
                let block = block.take();
                count(if block.is_some() { Count::BlocksAtSeats } else { Count::ShortWays });
                let words = [0, 1].map(|at| word(&fields, at));
                let (length, ends) = (length.into(), [Cargo::Nothing; 2]);
                let arrived = Arrived { tag, length, block, window: None, ends };
                Ok(Message { tag, words, arrived })
            }
        }
    }

    /// Makes a block that follows from a number.
    fn block(&self, number: u64, length: usize) -> Block {
        let bytes: Vec<u8> = bytes_of(number).take(length).collect();
        let block = self.session.kernel.channels.block(self.end, &bytes);
        block.expect("a caller's kernel has memory for a block")
    }

    /// Checks a block. It may be lost with its kernel.
    fn check(&self, block: Option<Block>, number: u64) -> Result<usize, Over> {
        let Some(block) = block else {
            assert!(deaths(self.session.kernel) != self.before, "a block was lost");
            return Err(Over);
        };
        let found = block.pieces().flat_map(|(_, piece)| piece).copied();
        assert!(found.eq(bytes_of(number).take(block.len())), "block {number} differs");
        // That of a near end never is.
        let is_near = self.session.kernel.channels.is_near(self.end);
        let is_short = !is_near && (1..=SHORT).contains(&block.len());
        count(if is_short { Count::BlocksInMessages } else { Count::BlocksPassed });
        Ok(block.len())
    }

    fn close(&self) {
        let channels = &self.session.kernel.channels;
        let holder = Holder { pid: self.tree, name: b"talk" };
        channels.close(self.around(), self.end, holder).expect("it is there");
    }
}

/// Returns a block with its bytes, which may be in `place`.
fn gathered(block: Block, place: &[u8]) -> Option<Block> {
    if block.is_placed() { Block::of(&place[..block.len()]) } else { Some(block) }
}

/// Returns the bytes of the block with this number, without end.
pub fn bytes_of(number: u64) -> impl Iterator<Item = u8> {
    let mut random = Prng::new(number);
    std::iter::repeat_with(move || random.next() as u8)
}

/// Returns the fields of a message: these words.
fn fields_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Undoes that for one word.
fn word(fields: &[u8], at: usize) -> u64 {
    fields[8 * at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// The body of a server's thread.
pub fn serve(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    let session = Session::at(kernel, Level(0));
    let opened = kernel.channels.open_door(TREE, control().random());
    let (end, number) = opened.expect("there is room for a door");
    let door = Talk::new(&session, TREE, end);
    let place = &control().doors[kernel.me.index()];
    place.number.store(number, Relaxed);
    place.epoch.store(kernel.epoch.0.into(), Relaxed);
    while let Ok(message) = door.exchange(None) {
        if let [Cargo::End(end), _] = message.arrived.ends {
            // Its client may have died while it was on its way.
            let talk = Talk { before: 0, may_end: true, ..Talk::new(&session, TREE, end) };
            // Either side may have ended it.
            let _ = talk.answer_all();
            talk.close();
        }
    }
    panic!("the door was closed");
}

impl Talk<'_> {
    /// What a server does.
    fn answer_all(&self) -> Result<(), Over> {
        let mut message = self.exchange(None)?;
        let mut last = 0;
        loop {
            let Message { tag, words: [number, parts], arrived } = message;
            assert!(tag == tag::BYE || number > last, "message {number} came after {last}");
            last = number;
            message = match tag {
                tag::ASK => {
                    for part in 1..=parts {
                        self.send(tag::PART, &[number, part], (None, &mut None))?;
                    }
                    self.call(tag::ANSWER, &[number, parts], &mut None)?
                }
                tag::GIVE => {
                    let length = self.check(arrived.block, number)?;
                    let mut block = Some(self.block(number + 1, length));
                    self.call(tag::GOT, &[number], &mut block)?
                }
                tag::OFFER => {
                    self.greet(arrived.ends[0], number)?;
                    self.exchange(Some((tag::TAKEN, &[number], &mut None)))?
                }
                tag::SHARE => {
                    self.read_window((arrived.block, arrived.window), number)?;
                    self.exchange(Some((tag::KEPT, &[number], &mut None)))?
                }
                tag::BYE => return Ok(()),
                _ => panic!("message {tag} is not in the contract"),
            };
        }
    }

    /// Greets at an end that has come.
    fn greet(&self, end: Cargo, number: u64) -> Result<(), Over> {
        let Cargo::End(end) = end else {
            assert!(deaths(self.session.kernel) != self.before, "an end was lost");
            return Ok(());
        };
        let hello = Talk { end, ..*self };
        let greeted = hello.exchange(None).and_then(|waiting| {
            assert_eq!((waiting.tag, waiting.words[0]), (tag::WAIT, number));
            let length = hello.check(waiting.arrived.block, number)?;
            let mut block = Some(hello.block(number + 1, length));
            hello.send(tag::HELLO, &[number], (None, &mut block))
        });
        hello.close();
        greeted
    }

    /// A question. Its answer may come in parts.
    fn ask(&self, number: u64, parts: u64) -> Result<(), Over> {
        let mut message = self.call(tag::ASK, &[number, parts], &mut None)?;
        for part in 1..=parts {
            assert_eq!((message.tag, message.words), (tag::PART, [number, part]));
            message = self.exchange(None)?;
        }
        assert_eq!((message.tag, message.words), (tag::ANSWER, [number, parts]));
        count(Count::Answers);
        Ok(())
    }

    fn give(&self, number: u64, length: usize) -> Result<(), Over> {
        let mut block = Some(self.block(number, length));
        let message = self.call(tag::GIVE, &[number; WORDS], &mut block)?;
        assert_eq!((message.tag, message.words[0]), (tag::GOT, number));
        let found = self.check(message.arrived.block, number + 1)?;
        assert_eq!(found, length, "a block has another length");
        Ok(())
    }

    fn offer(&self, number: u64, length: usize, secret: u64) -> Result<(), Over> {
        let channels = &self.session.kernel.channels;
        let made = channels.create(&known()[1], self.tree, secret);
        let [mine, theirs] =
            made.expect("there is room for two ends").map(|end| Talk { end, ..*self });
        let mut block = Some(mine.block(number, length));
        let sent = mine.send(tag::WAIT, &[number], (None, &mut block));
        let sent =
            sent.and_then(|()| self.send(tag::OFFER, &[number], (Some(theirs.end), &mut None)));
        if sent.is_err() {
            theirs.close();
        }
        let done = sent.and_then(|()| {
            let greeting = mine.exchange(None)?;
            assert_eq!((greeting.tag, greeting.words[0]), (tag::HELLO, number));
            let found = mine.check(greeting.arrived.block, number + 1)?;
            assert_eq!(found, length, "a block has another length");
            count(Count::EndsPassed);
            let taken = self.exchange(None)?;
            assert_eq!((taken.tag, taken.words[0]), (tag::TAKEN, number));
            Ok(())
        });
        mine.close();
        done
    }
}

impl Caller {
    fn tree(&self) -> u32 {
        TREE + 1 + self.index
    }

    /// Talks to the server of some kernel.
    pub fn talk(&mut self) {
        let kernel = self.kernel();
        let to = self.some_kernel().index();
        let Some((epoch, number)) = control().doors[to].get() else { return };
        let before = deaths(kernel);
        let session = self.session;
        let secret = self.random.next();
        let around: (&Node, &Peers) = (kernel, &kernel.peers);
        let door = (DomainId(to as u8), Epoch(epoch), number);
        let made = kernel.channels.connect(around, &known()[0], (self.tree(), secret), door);
        let end = match made {
            Ok(end) => end,
            Err(Failure::NoRoom) => {
                let (now, state) = kernel.soc.state(DomainId(to as u8));
                let is_there = now == u64::from(epoch) && state == state::RUNNING;
                let is_known = self.talked[to] == Some(epoch);
                assert!(!is_there || !is_known || deaths(kernel) != before, "no room at a door");
                return;
            }
            Err(why) => panic!("no channel: {why:?}"),
        };
        let talk = Talk { before, ..Talk::new(&session, self.tree(), end) };
        if self.say(&talk).is_ok() {
            self.talked[to] = Some(epoch);
            count(Count::Talks);
        }
        talk.close();
    }

    fn say(&mut self, talk: &Talk<'_>) -> Result<(), Over> {
        // No other conversation has these.
        let first = (self.random.next() >> 8).max(1);
        if self.workload.is_some() {
            talk.ask(first, 1)?;
            return talk.give(first + 1, 3000);
        }
        for number in first..=first + self.random.below(6) {
            match self.random.below(8) {
                6..=7 => talk.share(number, 1 + self.random.below(3) as usize)?,
                0..=2 => talk.ask(number, self.random.below(3))?,
                3..=4 => talk.give(number, self.length())?,
                _ => talk.offer(number, self.length(), self.random.next())?,
            }
        }
        if self.random.below(2) == 0 { talk.send(tag::BYE, &[], (None, &mut None)) } else { Ok(()) }
    }

    /// Returns the length of a block. Most are short, and some are empty.
    fn length(&mut self) -> usize {
        let most = [1, 3000, 3000, LONGEST][self.random.below(4) as usize];
        self.random.below(most) as usize
    }

    /// All its conversations are over: its ends are gone, and nothing is unread or kept for a
    /// moment. Another kernel may have to start first.
    pub fn has_no_ends(&self) {
        let channels = &self.kernel().channels;
        let left = || channels.list().find(|listed| listed.tree == self.tree());
        let is_done = || {
            let totals = channels.totals();
            let is_empty = totals.blocks.0 == 0 && totals.free_cells == CELLS.load(Relaxed);
            left().is_none() && is_empty
        };
        if !self.wait_until(is_done) {
            let (left, totals) = (left(), channels.totals());
            panic!("an end was closed and is still there, or memory: {left:?}, {totals:?}");
        }
    }
}

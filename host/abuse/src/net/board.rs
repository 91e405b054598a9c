//! The network service of a board in its arena, its device, the host at the other end of the cable,
//! and the callers that wait.
//!
//! Contract: each step is checked: no more memory, handles, sockets and waits than there may be.
//! Every frame that the chip sends must be one that a network accepts. A caller that is woken asks
//! again at once, and its reply is in [`Board::finished`].

use super::cable::frames::sum;
use super::cable::hosts::{OURS, V6};
use super::cable::lent::{Apart, Lent};
use super::cable::world::{Peer, Wire, config};
use super::packets::told_mac;
use crate::ext2::{Own, Thread};
use abi::net::{Errno, HANDLES, Op, Reply, Request, WAITS, flag};
use base::id::{DomainId, Epoch};
use base::port::Words;
use base::prng::Prng;
use net::Net;
use net::budget::{OUTSIDE, SOCKETS};
use net::nic::MEMORY;
use share::{Answer, Device, Effects, Event, Instance, Outbox, Service, Token};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use virtio::fake::{Fake, View};

/// Size of the service's arena on a board.
const ARENA: usize = match abi::service::NET.arena {
    abi::service::Arena::Bytes(bytes) => bytes as usize / 4096 * 4096,
    _ => 0,
};
/// Time that a step takes, in ns.
const STEP: u64 = 2_000;
/// Steps after each action until nothing is left to do at this time: a frame causes an answer,
/// which causes another.
const MOST: usize = 400;

/// Frames and socket calls so far, of all inputs.
static EVENTS: AtomicU64 = AtomicU64::new(0);

/// Returns how many frames from outside and socket calls there were so far, in all inputs.
pub fn events() -> u64 {
    EVENTS.load(Ordering::Relaxed)
}

thread_local! {
    static KERNEL: Rc<Instance<Watched, Own, Thread>> = Rc::new(Instance::new(Own::new(ARENA)));
    static CENSUS: Cell<[usize; 4]> = const { Cell::new([0; 4]) };
}

/// The service, which tells after each step what it holds.
struct Watched(Net);

impl Service for Watched {
    type Request = Request;
    type Reply = Reply;

    const NAME: &'static str = Net::NAME;

    fn start(lives: u32) -> Watched {
        Watched(Net::start(lives))
    }

    fn sent(request: &Request, bulk: usize) -> usize {
        Net::sent(request, bulk)
    }

    fn filled(reply: &Reply) -> usize {
        Net::filled(reply)
    }

    fn step(
        &mut self,
        now: u64,
        event: Event<'_, Request>,
        effects: &mut dyn Effects,
    ) -> Answer<Reply> {
        let answer = self.0.step(now, event, effects);
        CENSUS.set(self.0.census());
        answer
    }
}

/// A caller with its request.
#[derive(Clone, Debug)]
pub struct Caller {
    pub token: Token,
    pub request: Request,
    pub bulk: Vec<u8>,
}

/// What the cable does to frames in either direction, each with a probability in 256.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cable {
    pub loses: u64,
    pub forges: u64,
}

pub struct Board<'a> {
    kernel: Rc<Instance<Watched, Own, Thread>>,
    pub fake: &'a Fake<Wire>,
    view: View<'a, Wire>,
    pub now: u64,
    timer: u64,
    random: Prng,
    pub peer: Peer,
    pub cable: Cable,
    /// Callers that wait.
    pub waiting: Vec<Caller>,
    /// Those that were woken.
    news: Vec<Token>,
    /// Calls that have an answer.
    pub finished: Vec<(Caller, Reply)>,
    /// The last frames of the peer, and those that the chip has sent.
    pub told: Vec<Vec<u8>>,
    pub heard: Vec<Vec<u8>>,
    /// Whether hosts that do not exist answer questions about their hardware addresses.
    pub strangers_answer: bool,
    /// Frames of ARP, ICMP, TCP and UDP that the chip has sent.
    pub sent: [u64; 4],
    /// Timer events so far, and callers that were woken.
    pub timers: u64,
    pub woken: u64,
    /// A mistake of the chip that a test plants: it spoils the frames that it sends.
    pub spoils: bool,
    /// Another one: it wakes no caller.
    pub is_deaf: bool,
}

impl<'a> Board<'a> {
    /// Starts the service; its device is open.
    pub fn new(fake: &'a Fake<Wire>, seed: u64) -> Board<'a> {
        let kernel = KERNEL.with(Rc::clone);
        kernel.start().expect("the service starts");
        fake.eager.set(false);
        let mut board = Board {
            kernel,
            fake,
            view: View::new(fake),
            now: 1_000_000,
            timer: u64::MAX,
            random: Prng::new(seed),
            peer: Peer::new(seed + 1),
            cable: Cable::default(),
            waiting: Vec::new(),
            news: Vec::new(),
            finished: Vec::new(),
            told: Vec::new(),
            heard: Vec::new(),
            strangers_answer: false,
            sent: [0; 4],
            timers: 0,
            woken: 0,
            spoils: false,
            is_deaf: false,
        };
        board.step(Event::Device);
        assert!(board.used() > 0, "the allocator of this program is not `abuse::Allocator`");
        (0..20).for_each(|_| board.pass(1_000_000));
        board
    }

    /// Returns the numbers of handles, sockets, closed sockets that have not ended, and waits.
    pub fn census(&self) -> [usize; 4] {
        CENSUS.get()
    }

    /// Returns the bytes of the arena that are in use.
    pub fn used(&self) -> u64 {
        self.kernel.usage().used
    }

    fn step(&mut self, event: Event<'_, Request>) -> Answer<Reply> {
        self.now += STEP;
        let seed = self.random.next();
        let (words, view) = (Apart::<Thread>::new(&self.view), &self.view);
        let device = Device { words: &words, ..view.device(MEMORY, &|_| {}) };
        let mut lent = Lent { outbox: Outbox::new(), device, seed };
        let answer = self.kernel.step(self.now, event, &mut lent).expect("the state is whole");
        self.view.barrier();
        let used = self.kernel.usage().used;
        assert!(used < ARENA as u64 * 9 / 10, "{used} bytes of {ARENA}");
        let [handles, sockets, ending, waits] = CENSUS.get();
        assert!(handles <= HANDLES as usize && sockets <= SOCKETS && ending <= sockets);
        assert!(waits <= WAITS, "{waits} waits");
        assert!(ending <= SOCKETS.max(OUTSIDE), "{ending} sockets that end");
        let outbox = lent.outbox;
        self.timer = self.timer.min(outbox.timer().unwrap_or(u64::MAX));
        if !self.is_deaf {
            // Also of the caller of this step, which is not in the list yet.
            self.news.extend(outbox.wakes());
            let all = self.waiting.iter().filter(|_| outbox.wakes_all());
            self.news.extend(all.map(|it| it.token));
        }
        answer
    }

    /// Lets the callers ask again that steps have woken.
    fn wake(&mut self) {
        let news = std::mem::take(&mut self.news);
        self.woken += news.len() as u64;
        for token in news {
            self.again(token);
        }
    }

    /// A caller that waits asks again. Returns whether it still waits.
    pub fn again(&mut self, token: Token) -> bool {
        let Some(at) = self.waiting.iter().position(|it| it.token == token) else { return false };
        let mut caller = self.waiting.remove(at);
        let event = Event::Again { token, request: &caller.request, bulk: &mut caller.bulk };
        match self.step(event) {
            Answer::Done(reply) => {
                self.answered(caller, reply);
                false
            }
            Answer::Parked => {
                self.waiting.push(caller);
                true
            }
            Answer::NoReply => panic!("a request without an answer: {caller:?}"),
        }
    }

    /// A thread makes a request. If it waits, nothing is finished.
    pub fn call(&mut self, token: Token, request: Request, bulk: Vec<u8>) {
        EVENTS.fetch_add(1, Ordering::Relaxed);
        let mut caller = Caller { token, request, bulk };
        let event = Event::Request { token, request: &request, bulk: &mut caller.bulk };
        match self.step(event) {
            Answer::Done(reply) => self.answered(caller, reply),
            Answer::Parked => self.waiting.push(caller),
            Answer::NoReply => panic!("a request without an answer: {caller:?}"),
        }
        self.settle();
    }

    /// Checks a reply against its request.
    fn answered(&mut self, caller: Caller, reply: Reply) {
        let (request, room) = (caller.request, caller.bulk.len());
        assert!(reply.filled as usize <= room, "{reply:?} for {room} bytes");
        assert!(Errno::from_code(reply.error).is_some(), "no such error: {reply:?}");
        let makes = reply.error == 0 && request.creates();
        assert_eq!(makes, reply.handle != 0, "{request:?}: {reply:?}");
        let is_stream = reply.filled != 0 || request.op == Op::Send as u16;
        if is_stream && request.op != Op::Receive as u16 && request.op != Op::List as u16 {
            assert!(reply.value <= u64::from(request.length.max(1)), "{request:?}: {reply:?}");
        }
        self.finished.push((caller, reply));
    }

    /// Makes a request that does not wait, for those whose calls always have an answer.
    pub fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Result<Reply, Errno> {
        let waits = [Op::Accept, Op::Connect, Op::Send, Op::Receive].map(|op| op as u16);
        let flags = if waits.contains(&request.op) { flag::NONBLOCK } else { 0 };
        let request = Request { flags: request.flags | flags, ..request };
        let token = Token::new(DomainId(0), Epoch(1), 99, 1);
        let reply = match self.step(Event::Request { token, request: &request, bulk }) {
            Answer::Done(reply) => reply,
            other => panic!("{request:?}: {other:?}"),
        };
        if reply.error == 0 { Ok(reply) } else { Err(reply.errno()) }
    }

    /// A caller gives up.
    pub fn cancel(&mut self, token: Token) {
        self.waiting.retain(|it| it.token != token);
        self.step(Event::Cancel(token));
        self.settle();
    }

    /// A kernel dies, with all callers there.
    pub fn gone(&mut self, kernel: u8, epoch: u16) {
        self.waiting.retain(|it| (it.token.kernel, it.token.epoch) != (kernel, epoch));
        self.step(Event::Gone(DomainId(kernel), Epoch(epoch)));
        self.settle();
    }

    /// A frame arrives from outside.
    pub fn frame(&mut self, frame: Vec<u8>) {
        EVENTS.fetch_add(1, Ordering::Relaxed);
        self.fake.model.borrow_mut().to_chip.push_back(frame);
        self.settle();
    }

    /// Lets the device, the chip and the peer act until nothing is left to do at this time.
    pub fn settle(&mut self) {
        for _ in 0..MOST {
            self.wake();
            self.fake.turn();
            let sent = std::mem::take(&mut self.fake.model.borrow_mut().from_chip);
            sent.into_iter().for_each(|frame| self.carry(frame));
            let told = self.peer.poll(self.now);
            let is_idle = told.is_empty() && !self.fake.news.get();
            told.into_iter().for_each(|frame| self.tell(frame));
            if self.timer <= self.now {
                self.tick();
            } else if self.fake.news.take() {
                self.step(Event::Device);
            } else if is_idle && self.news.is_empty() {
                return;
            }
        }
        panic!("the chip and its peer never come to rest");
    }

    fn tick(&mut self) {
        self.timers += 1;
        self.timer = u64::MAX;
        self.step(Event::Timer);
    }

    /// The peer sends a frame.
    fn tell(&mut self, mut frame: Vec<u8>) {
        keep(&mut self.told, &frame);
        if self.random.chance(self.cable.loses, 256) {
            return;
        }
        if self.random.chance(self.cable.forges, 256) {
            super::cable::frames::forge(&mut frame, &mut self.random);
        }
        EVENTS.fetch_add(1, Ordering::Relaxed);
        self.fake.model.borrow_mut().to_chip.push_back(frame);
    }

    /// The chip has sent a frame.
    fn carry(&mut self, mut frame: Vec<u8>) {
        if self.spoils {
            let last = frame.len() - 1;
            frame[last] ^= 1;
        }
        self.sent[checked(&frame)] += 1;
        keep(&mut self.heard, &frame);
        if self.strangers_answer && frame[12..14] == [8, 6] && frame[21] == 1 {
            self.fake.model.borrow_mut().to_chip.push_back(told_mac(&frame));
        }
        if !self.random.chance(self.cable.loses, 256) {
            self.peer.hear(frame);
        }
    }

    /// Lets so much time pass, in ns. What is due meanwhile happens at its time.
    pub fn pass(&mut self, time: u64) {
        let end = self.now + time;
        self.settle();
        for _ in 0..MOST {
            let next = self.timer.min(self.peer.due(self.now));
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            self.settle();
        }
        self.now = self.now.max(end);
        self.settle();
    }

    /// Lets time pass until no timer is set, with a peer that is silent from now on. Returns how
    /// often the timer fired.
    pub fn rest(&mut self) -> u64 {
        self.peer = Peer::new(0);
        self.peer.sockets = smoltcp::iface::SocketSet::new(Vec::new());
        self.cable = Cable { loses: 256, forges: 0 };
        self.strangers_answer = false;
        let before = self.timers;
        while self.timer != u64::MAX && self.timers < before + 100_000 {
            self.now = self.now.max(self.timer);
            self.settle();
        }
        self.timers - before
    }
}

/// Keeps the last frames.
fn keep(list: &mut Vec<Vec<u8>>, frame: &[u8]) {
    if list.len() >= 24 {
        list.remove(0);
    }
    list.push(frame.to_vec());
}

/// The same of a packet of IPv6.
fn checked_v6(frame: &[u8]) -> usize {
    assert!(frame.len() >= 54 + 8 && frame[14] >> 4 == 6, "a short packet");
    let length = usize::from(frame[18]) << 8 | usize::from(frame[19]);
    assert_eq!(length, frame.len() - 54, "the length of the packet");
    assert_eq!(frame[22..38], V6.ours, "a packet in another name: {frame:?}");
    let is_discovery = frame[20] == 58 && matches!(frame[54], 135 | 136);
    let (to, is_group) = (&frame[38..54], frame[38] == 0xff);
    assert!(to != V6.ours && to[..8] != [0; 8] && is_discovery | !is_group, "no host: {to:?}");
    let kind = match frame[20] {
        58 if is_discovery => 0,
        58 => 1,
        6 => 2,
        17 => 3,
        other => panic!("protocol {other}"),
    };
    let pseudo = u32::from(frame[20]) + length as u32;
    assert_eq!(sum(&frame[22..], pseudo), 0, "the checksum");
    kind
}

/// Checks a frame of the chip as a network would. Returns what it is: discovery of neighbours,
/// ICMP, TCP or UDP.
fn checked(frame: &[u8]) -> usize {
    assert!((42..=1514).contains(&frame.len()), "a frame of {} bytes", frame.len());
    assert_eq!(frame[6..12], config().mac, "another source");
    if frame[12..14] == [8, 6] {
        assert_eq!(frame[28..32], OURS, "ARP in another name");
        return 0;
    }
    if frame[12..14] == [0x86, 0xdd] {
        return checked_v6(frame);
    }
    assert_eq!(frame[12..15], [8, 0, 0x45], "neither ARP nor IP");
    let length = usize::from(frame[16]) << 8 | usize::from(frame[17]);
    assert_eq!(length, frame.len() - 14, "the length of the packet");
    assert_eq!(frame[26..30], OURS, "a packet in another name: {frame:?}");
    assert!(
        !matches!(frame[30], 0 | 127 | 224..) && frame[30..34] != OURS,
        "no host outside: {:?}",
        &frame[23..38]
    );
    assert_eq!(sum(&frame[14..34], 0), 0, "the header's checksum");
    let (kind, protocol) = match frame[23] {
        1 => (1, 0),
        6 => (2, 6),
        17 => (3, 17),
        other => panic!("protocol {other}"),
    };
    let pairs = frame[26..34].chunks(2).map(|it| u32::from(it[0]) << 8 | u32::from(it[1]));
    let pseudo = pairs.sum::<u32>() + protocol + length as u32 - 20;
    let pseudo = if kind == 1 { 0 } else { pseudo };
    assert_eq!(sum(&frame[34..], pseudo), 0, "the checksum of protocol {}", frame[23]);
    kind
}

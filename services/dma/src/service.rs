//! The shared state: which kernel holds which channels, and which callers wait for one.
//!
//! ```text
//!            submit to an idle channel: becomes its holder, next session
//!   no holder ----------------------------------------> held by a kernel --+ submit, while there
//!      ^                                                   |    ^          | is room
//!      |  its kernel died (Gone)                           |    +----------+
//!      +---------------------------------------------------+    idle: submit of another kernel
//! ```
//! A channel works for one kernel at a time. So when a kernel dies its channels can be fenced
//! without ending transfers of another kernel. A channel is *idle* when all its outcomes were read;
//! only then may it change hands. A kernel uses, in this order: a channel that it holds with
//! nothing in progress, an idle one assigned to it, one that it holds with room, an idle one of
//! another kernel. A channel assigned to a kernel with waiting callers gets no more work from
//! others, so it becomes idle.
//!
//! The state records which kernel holds which channel, and is written once in a step. Which
//! transfers have ended and which outcomes were read is in the engine's words, so it needs no step.
//! After a loss of the state it is read back from those words, and transfers in progress continue.

use crate::port::Port;
use crate::request::{Reply, Request, kind, told};
use crate::transfer::{BATCH, Transfer};
use abi::boot::MAX_DOMAINS;
use abi::dma::{MAX_CHANNELS, Position, RING};
use base::id::{DomainId, Epoch};
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use share::{Answer, Effects, Event, Service, Token};
use zerocopy::FromBytes;

/// Maximum number of recorded waiting callers; if there are more, all callers are woken.
const PLACES: usize = 64;

/// A kernel in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    kernel: DomainId,
    epoch: Epoch,
}

impl Holder {
    fn of(token: Token) -> Holder {
        Holder { kernel: token.kernel(), epoch: token.epoch() }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    /// Whether this instance may use it.
    ours: bool,
    /// Domain that it is assigned to.
    dealt: u8,
    holder: Option<Holder>,
    /// The current session, and the index of its next descriptor.
    session: Position,
    /// The engine's `completed` word before this session.
    before: Position,
}

/// How suitable a channel is for a caller; the maximum is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Idle, and assigned to another kernel.
    Borrowed,
    /// Held by the caller, with this many free descriptors.
    Room(usize),
    /// Idle, and assigned to the caller.
    Dealt,
    /// Held by the caller, with nothing in progress.
    Quiet,
}

/// The state, within one page. A step first stores to it, so that the page is fetched from another
/// kernel only once, for writing. A submission does not touch the state after it has announced its
/// descriptors. So a step that is aborted because the page was lost has announced nothing.
#[repr(align(2048))]
pub struct Dma {
    /// Soc time of the latest step.
    stepped: AtomicU64,
    /// Whether the engine's words were read in this life.
    learnt: bool,
    channels: [Channel; MAX_CHANNELS],
    parked: [Token; PLACES],
    waiting: u32,
    /// Whether more callers wait than `parked` can hold.
    crowded: bool,
    /// Domains whose `wants` word is set.
    wants: [bool; MAX_DOMAINS],
    /// Number of sessions reopened because they were broken.
    broken: u32,
}

const _: () = assert!(size_of::<Dma>() == 2048);

impl Dma {
    /// Returns the number of sessions reopened because they were broken.
    pub fn broken(&self) -> u32 {
        self.broken
    }

    /// Reads the state of the channels from their words, once in each life of the state.
    fn learn(&mut self, port: &Port<'_>) {
        if core::mem::replace(&mut self.learnt, true) {
            return;
        }
        for index in port.ours() {
            let (announced, before) = (port.submitted(index), port.completed(index));
            // 0: never used, or its holder was fenced. An idle channel may have been about to
            // change hands, so its next user starts another session anyway.
            let idle = before == announced && port.taken(index) == announced;
            let held = announced.pack() != 0 && !idle;
            let (kernel, epoch) = (DomainId(port.holder(index) as u8), Epoch(announced.epoch));
            self.channels[index] = Channel {
                ours: true,
                dealt: port.owner(index) as u8,
                holder: held.then_some(Holder { kernel, epoch }),
                session: if announced.pack() != 0 { announced } else { before.at(0) },
                before,
            };
        }
        (0..MAX_DOMAINS).for_each(|domain| self.wants[domain] = port.wants(domain));
    }

    /// Returns the number of recorded waiters. Bounded, because memory restored after a crash may
    /// hold any value.
    fn waiting(&self) -> usize {
        (self.waiting as usize).min(PLACES)
    }

    fn parked(&self) -> &[Token] {
        &self.parked[..self.waiting()]
    }

    fn park(&mut self, token: Token) {
        if self.parked().contains(&token) {
            return;
        }
        match self.parked.get_mut(self.waiting as usize) {
            Some(place) => {
                *place = token;
                self.waiting += 1;
            }
            None => self.crowded = true,
        }
    }

    fn forget(&mut self, gone: impl Fn(&Token) -> bool) {
        let mut at = 0;
        while at < self.waiting() {
            if gone(&self.parked[at]) {
                // Keeps the order, so that the first to come is woken first.
                let waiting = self.waiting();
                self.parked.copy_within(at + 1..waiting, at);
                self.waiting = waiting as u32 - 1;
            } else {
                at += 1;
            }
        }
    }

    /// Returns whether the channel is assigned to another kernel that has waiting callers.
    fn is_reserved(&self, channel: &Channel, caller: Holder) -> bool {
        let waits = |token: &Token| token.kernel == channel.dealt;
        channel.dealt != caller.kernel.0 && self.parked().iter().any(waits)
    }

    fn rank(&self, port: &Port<'_>, index: usize, caller: Holder, count: usize) -> Option<Rank> {
        let channel = &self.channels[index];
        if !channel.ours || self.is_reserved(channel, caller) {
            return None;
        }
        let session = channel.session;
        let taken = port.taken(index);
        let read = if taken.same_session(session) { taken.index } else { 0 };
        let used = session.index.wrapping_sub(read) as usize;
        if channel.holder == Some(caller) {
            let room = RING.checked_sub(used)?;
            return match used {
                0 => Some(Rank::Quiet),
                _ => (room >= count).then_some(Rank::Room(room)),
            };
        }
        let idle = channel.holder.is_none() || used == 0 && port.completed(index) == session;
        let own = channel.dealt == caller.kernel.0;
        idle.then_some(if own { Rank::Dealt } else { Rank::Borrowed })
    }

    /// Returns the best channel for `count` transfers.
    fn find(&self, port: &Port<'_>, caller: Holder, count: usize) -> Option<usize> {
        let held = |index: &usize| self.channels[*index].holder == Some(caller);
        let quiet = |index: &usize| self.rank(port, *index, caller, count) == Some(Rank::Quiet);
        port.ours().filter(held).find(quiet).or_else(|| {
            let ranked = port.ours().filter_map(|i| Some((self.rank(port, i, caller, count)?, i)));
            ranked.max_by_key(|&(rank, index)| (rank, core::cmp::Reverse(index))).map(|best| best.1)
        })
    }

    /// Makes `caller` the holder of the channel.
    fn hold(&mut self, port: &Port<'_>, index: usize, caller: Holder) {
        if self.channels[index].holder != Some(caller) {
            self.channels[index].holder = Some(caller);
            self.renew(port, index);
            port.hold(index, caller.kernel);
        }
    }

    /// Starts the next session, without announcing it.
    fn renew(&mut self, port: &Port<'_>, index: usize) {
        let before = port.completed(index);
        let channel = &mut self.channels[index];
        let epoch = channel.holder.map_or(channel.session.epoch, |holder| holder.epoch.0);
        let generation = channel.session.generation.wrapping_add(1);
        channel.session = Position { epoch, generation, index: 0 };
        channel.before = before;
    }

    fn reopen(&mut self, port: &Port<'_>, index: usize) {
        self.renew(port, index);
        port.announce(index, self.channels[index].session);
        self.broken = self.broken.saturating_add(1);
    }

    /// Returns a channel for `count` transfers; without one, the caller is recorded as waiting.
    fn place(&mut self, port: &Port<'_>, token: Token, count: usize) -> Option<usize> {
        let (caller, domain) = (Holder::of(token), usize::from(token.kernel));
        self.bury(|holder| holder.kernel == caller.kernel && holder.epoch != caller.epoch);
        let mut found = self.find(port, caller, count);
        if found.is_none() {
            self.park(token);
            self.wants[domain] = true;
            port.want(domain, true);
            port.barrier(); // a kernel that reads outcomes sees `wants`, or we see what it took
            found = self.find(port, caller, count);
        }
        if found.is_some() {
            self.forget(|other| *other == token);
            if self.wants[domain] && !self.parked().iter().any(|t| t.kernel == token.kernel) {
                self.wants[domain] = self.crowded;
                port.want(domain, self.crowded);
            }
        }
        found
    }

    fn submit(&mut self, port: &Port<'_>, token: Token, bulk: &[u8]) -> Answer<Reply> {
        let count = bulk.len() / size_of::<Transfer>();
        let Some(index) = self.place(port, token, count) else { return Answer::Parked };
        self.hold(port, index, Holder::of(token));
        let Channel { session, before, .. } = self.channels[index];
        let next = session.at(session.index.wrapping_add(count as u32));
        self.channels[index].session = next;
        for (offset, bytes) in bulk.chunks_exact(size_of::<Transfer>()).enumerate() {
            if let Ok(transfer) = Transfer::read_from_bytes(bytes) {
                port.describe(
                    index,
                    session.at(session.index.wrapping_add(offset as u32)),
                    &transfer,
                );
            }
        }
        port.announce(index, next);
        ticket(index, count, session, before)
    }

    fn damage(&mut self, port: &Port<'_>, token: Token, count: u32) -> Answer<Reply> {
        let Some(index) = self.place(port, token, 1) else { return Answer::Parked };
        self.hold(port, index, Holder::of(token));
        let Channel { session, before, .. } = self.channels[index];
        port.announce(index, session.at(session.index.wrapping_add(count)));
        ticket(index, count.min(BATCH as u32) as usize, session, before)
    }

    fn asked(
        &mut self,
        (token, request): (Token, &Request),
        bulk: &[u8],
        effects: &mut dyn Effects,
    ) -> Answer<Reply> {
        let Some(port) = effects.device().map(Port) else {
            return Answer::Done(Reply::of(told::REFUSED));
        };
        if usize::from(token.kernel) >= MAX_DOMAINS {
            return Answer::Done(Reply::of(told::REFUSED));
        }
        self.learn(&port);
        match request.kind {
            kind::SUBMIT => match batch(request, bulk) {
                Some(batch) => self.submit(&port, token, batch),
                None => Answer::Done(Reply::of(told::COUNT)),
            },
            kind::DAMAGE if request.count > 0 => self.damage(&port, token, request.count),
            kind::REOPEN | kind::ABANDON => {
                self.break_off(&port, token, request);
                self.find_room(effects);
                Answer::Done(Reply::of(told::DONE))
            }
            kind::ROOM => {
                self.find_room(effects);
                Answer::Done(Reply::of(told::DONE))
            }
            _ => Answer::Done(Reply::of(told::REFUSED)),
        }
    }

    /// Ends the session in the request, or all sessions of the caller's kernel.
    fn break_off(&mut self, port: &Port<'_>, token: Token, request: &Request) {
        for index in port.ours() {
            let channel = &self.channels[index];
            let named = request.channel == index as u64
                && channel.session.same_session(Position::unpack(request.session));
            let meant = named || request.kind == kind::ABANDON;
            if meant && channel.holder == Some(Holder::of(token)) {
                self.reopen(port, index);
            }
        }
    }

    /// Wakes the callers that would find room for at least one transfer now. They stay recorded
    /// until they have repeated their requests.
    fn find_room(&mut self, effects: &mut dyn Effects) {
        let mut ready = [Token::default(); PLACES];
        let mut count = 0;
        if let Some(port) = effects.device().map(Port) {
            for &token in self.parked() {
                if self.find(&port, Holder::of(token), 1).is_some() {
                    ready[count] = token;
                    count += 1;
                }
            }
        }
        ready[..count].iter().for_each(|&token| effects.wake(token));
        if core::mem::take(&mut self.crowded) {
            effects.wake_all();
        }
    }

    /// Takes the channels from dead holders. The soc has fenced them.
    fn bury(&mut self, dead: impl Fn(Holder) -> bool) {
        for channel in &mut self.channels {
            channel.holder = channel.holder.filter(|&holder| !dead(holder));
        }
    }

    fn gone(&mut self, kernel: DomainId, epoch: Epoch, effects: &mut dyn Effects) {
        self.bury(|holder| holder == Holder { kernel, epoch });
        self.forget(|token| token.kernel() == kernel && token.epoch() == epoch);
        self.find_room(effects);
    }
}

fn ticket(channel: usize, count: usize, first: Position, before: Position) -> Answer<Reply> {
    Answer::Done(Reply {
        kind: told::STARTED,
        count: count as u32,
        channel: channel as u64,
        first: first.pack(),
        before: before.pack(),
    })
}

/// Returns the transfers of a request, as bytes.
fn batch<'a>(request: &Request, bulk: &'a [u8]) -> Option<&'a [u8]> {
    let count = request.count as usize;
    let all = (1..=BATCH).contains(&count).then_some(count * size_of::<Transfer>())?;
    bulk.get(..all)
}

impl Service for Dma {
    type Request = Request;
    type Reply = Reply;
    const NAME: &'static str = abi::service::DMA.name;

    fn start(_: u32) -> Dma {
        Dma {
            stepped: AtomicU64::new(0),
            learnt: false,
            channels: [Channel::default(); MAX_CHANNELS],
            parked: [Token::default(); PLACES],
            waiting: 0,
            crowded: false,
            wants: [false; MAX_DOMAINS],
            broken: 0,
        }
    }

    fn sent(request: &Request, bulk: usize) -> usize {
        let all = request.count as usize * size_of::<Transfer>();
        if request.kind == kind::SUBMIT { all.min(bulk) } else { 0 }
    }

    fn filled(_: &Reply) -> usize {
        0
    }

    fn step(
        &mut self,
        now: u64,
        event: Event<'_, Request>,
        effects: &mut dyn Effects,
    ) -> Answer<Reply> {
        // A store first: a page that is read and then written would be fetched twice.
        self.stepped.store(now, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        match event {
            Event::Request { token, request, bulk } | Event::Again { token, request, bulk } => {
                return self.asked((token, request), bulk, effects);
            }
            Event::Cancel(token) => self.forget(|other| *other == token),
            Event::Gone(kernel, epoch) => self.gone(kernel, epoch, effects),
            Event::Timer | Event::Device => {}
        }
        Answer::NoReply
    }
}

//! Who has which channels, and who waits for one.
//!
//! ```text
//!            submit, idle: named as holder, next session
//!   nobody's ------------------------------------------> held by a kernel --+ submit, room
//!      ^                                                    |    ^          |
//!      |  its kernel died (Gone)                            |    +----------+
//!      +----------------------------------------------------+    idle: another kernel's submit
//! ```
//! A channel works for one kernel at a time, so it is fenced with that kernel and nothing of
//! another's ends with it. It is *idle* when its outcomes were read; only then it changes hands.
//! A kernel uses what it holds, then what was dealt to it, then what is idle of others; a channel
//! of somebody who waits is not used by others any more, so it becomes idle.
//!
//! The state says who holds what, and is written once a step; what has ended and what was read is
//! in the engine's words, so no step is needed for that. After a loss of the state the words say
//! who holds what, and transfers that are under way go on.

use crate::port::Port;
use crate::request::{Reply, Request, kind, told};
use crate::transfer::{BATCH, Transfer};
use abi::boot::MAX_DOMAINS;
use abi::dma::{MAX_CHANNELS, Position, RING};
use base::id::{DomainId, Epoch};
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use share::{Answer, Effects, Event, Service, Token};
use zerocopy::FromBytes;

/// Most tokens that wait for room one by one; who comes then is woken with all.
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
    /// One of the instance's parts.
    ours: bool,
    /// Domain that it was dealt to.
    dealt: u8,
    holder: Option<Holder>,
    /// The session; its index is that of the next descriptor.
    session: Position,
    /// What the engine said before this session.
    before: Position,
}

/// How good a channel is for somebody; the best is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Idle, and another's by right.
    Borrowed,
    /// Held, with so much room.
    Room(usize),
    /// Idle, and dealt to who asks.
    Dealt,
    /// Held, and nothing under way.
    Quiet,
}

/// The state: a part of one page. Its first access is a store, so that a step of another kernel
/// costs one page. Behind an announcement a submission does not touch it, so that one that is given
/// up because the page is lost has announced nothing.
#[repr(align(2048))]
pub struct Dma {
    /// soc time of the latest step.
    stepped: AtomicU64,
    /// The engine's words were read in this life.
    learnt: bool,
    channels: [Channel; MAX_CHANNELS],
    parked: [Token; PLACES],
    waiting: u32,
    /// More wait than `parked` has places for.
    crowded: bool,
    /// Domains whose `wants` we have set.
    wants: [bool; MAX_DOMAINS],
    /// Sessions that ended because they were broken.
    broken: u32,
}

const _: () = assert!(size_of::<Dma>() == 2048);

impl Dma {
    /// Sessions that ended because they were broken.
    pub fn broken(&self) -> u32 {
        self.broken
    }

    /// Once a life: what the words of the channels say, whoever wrote them.
    fn learn(&mut self, port: &Port<'_>) {
        if core::mem::replace(&mut self.learnt, true) {
            return;
        }
        for index in port.ours() {
            let (announced, before) = (port.submitted(index), port.completed(index));
            // 0: nobody has used it, or its holder was fenced. One that is idle may have been about
            // to change hands: whoever uses it next begins another session.
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

    /// How many wait; memory that came back torn may say anything.
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
                // In order: who came first is asked first.
                let waiting = self.waiting();
                self.parked.copy_within(at + 1..waiting, at);
                self.waiting = waiting as u32 - 1;
            } else {
                at += 1;
            }
        }
    }

    /// Is the channel another's by right, who waits?
    fn is_reserved(&self, channel: &Channel, who: Holder) -> bool {
        let waits = |token: &Token| token.kernel == channel.dealt;
        channel.dealt != who.kernel.0 && self.parked().iter().any(waits)
    }

    fn rank(&self, port: &Port<'_>, index: usize, who: Holder, count: usize) -> Option<Rank> {
        let channel = &self.channels[index];
        if !channel.ours || self.is_reserved(channel, who) {
            return None;
        }
        let session = channel.session;
        let taken = port.taken(index);
        let read = if taken.same_session(session) { taken.index } else { 0 };
        let used = session.index.wrapping_sub(read) as usize;
        if channel.holder == Some(who) {
            let room = RING.checked_sub(used)?;
            return match used {
                0 => Some(Rank::Quiet),
                _ => (room >= count).then_some(Rank::Room(room)),
            };
        }
        let idle = channel.holder.is_none() || used == 0 && port.completed(index) == session;
        let own = channel.dealt == who.kernel.0;
        idle.then_some(if own { Rank::Dealt } else { Rank::Borrowed })
    }

    /// The best channel for `count` transfers.
    fn find(&self, port: &Port<'_>, who: Holder, count: usize) -> Option<usize> {
        let held = |index: &usize| self.channels[*index].holder == Some(who);
        let quiet = |index: &usize| self.rank(port, *index, who, count) == Some(Rank::Quiet);
        port.ours().filter(held).find(quiet).or_else(|| {
            let ranked = port.ours().filter_map(|i| Some((self.rank(port, i, who, count)?, i)));
            ranked.max_by_key(|&(rank, index)| (rank, core::cmp::Reverse(index))).map(|best| best.1)
        })
    }

    /// The channel is `who`'s from here on.
    fn hold(&mut self, port: &Port<'_>, index: usize, who: Holder) {
        if self.channels[index].holder != Some(who) {
            self.channels[index].holder = Some(who);
            self.renew(port, index);
            port.hold(index, who.kernel);
        }
    }

    /// The next session, which nobody has announced yet.
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

    /// A channel for `count` transfers of `token`, or a place among those who wait for one.
    fn place(&mut self, port: &Port<'_>, token: Token, count: usize) -> Option<usize> {
        let (who, domain) = (Holder::of(token), usize::from(token.kernel));
        self.bury(|holder| holder.kernel == who.kernel && holder.epoch != who.epoch);
        let mut found = self.find(port, who, count);
        if found.is_none() {
            self.park(token);
            self.wants[domain] = true;
            port.want(domain, true);
            port.barrier(); // who reads outcomes and does not see it, is seen to have read them
            found = self.find(port, who, count);
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
        (token, request): (Token, Request),
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
            kind::SUBMIT => match batch(&request, bulk) {
                Some(batch) => self.submit(&port, token, batch),
                None => Answer::Done(Reply::of(told::COUNT)),
            },
            kind::DAMAGE if request.count > 0 => self.damage(&port, token, request.count),
            kind::REOPEN | kind::ABANDON => {
                self.break_off(&port, token, &request);
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

    /// Ends the session that `request` is about, or all of the asker's kernel.
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

    /// Wakes who would find room now. They stay parked until they have asked again.
    fn find_room(&mut self, effects: &mut dyn Effects) {
        let mut lucky = [Token::default(); PLACES];
        let mut count = 0;
        if let Some(port) = effects.device().map(Port) {
            for &token in self.parked() {
                if self.find(&port, Holder::of(token), 1).is_some() {
                    lucky[count] = token;
                    count += 1;
                }
            }
        }
        lucky[..count].iter().for_each(|&token| effects.wake(token));
        if core::mem::take(&mut self.crowded) {
            effects.wake_all();
        }
    }

    /// Channels of holders that are no more become nobody's; the soc has fenced them.
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

/// The transfers of a request, as bytes.
fn batch<'a>(request: &Request, bulk: &'a [u8]) -> Option<&'a [u8]> {
    let count = request.count as usize;
    let all = (1..=BATCH).contains(&count).then_some(count * size_of::<Transfer>())?;
    bulk.get(..all)
}

impl Service for Dma {
    type Request = Request;
    type Reply = Reply;
    const NAME: &'static str = "dma";

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
        // A page that is read first and written then is fetched twice.
        self.stepped.store(now, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        match event {
            Event::Request { token, request, bulk } | Event::Again { token, request, bulk } => {
                return self.asked((token, request), bulk, effects);
            }
            Event::Cancel(token) => self.forget(|other| *other == token),
            Event::Gone(kernel, epoch) => self.gone(kernel, epoch, effects),
            Event::Timer => {}
        }
        Answer::NoReply
    }
}

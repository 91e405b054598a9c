//! The state machine of the process table.
//!
//! Contract: that of `share::Service`. Every request with any bulk gets an answer, an error if it
//! is malformed, and a failed request changes nothing. Kernels are trusted, except that only the
//! kernel that runs a process may report on it.
//!
//! ```text
//!   request --> answered
//!          \-> parked under a key (Next, Wait, Move) -- key woken --> repeated
//!          \-> parked under its token (Spawn, Depart) -- started or failed --> repeated: gets the
//!                                                                            outcome
//! ```
//! A kernel that is parked in Next comes back only when it is woken. A wake can be lost if the
//! kernel that was to deliver it dies. So a step that has woken a kernel sets the timer, and
//! `remind` repeats the wake every [`PATIENCE`] until the kernel has fetched its tasks.
//!
//! If a caller repeats a request that was not parked in this life of the table, it gets
//! [`Errno::Restarted`]. So does each kernel's first `Next` in a life after the first: a kernel
//! that was not parked in `Next` when the state was lost must report what it runs, too.

use crate::record::{Life, Record, Records};
use abi::boot::MAX_DOMAINS;
use abi::process::{Errno, Op, PROCESSES, Reply, Request, State};
use abi::program::BEGIN_BYTES;
use alloc::collections::BTreeMap;
use base::id::{DomainId, Epoch};
use share::{Answer, Effects, Event, Parked, Service, Shareable, Token};

/// Maximum number of parked callers, not counting callers of Spawn.
pub const WAITS: usize = 1024;
/// Maximum number of callers of Spawn and Depart that wait for the start or have not yet fetched
/// the outcome.
pub const SPAWNS: usize = 2 * PROCESSES;
/// Maximum bytes of start data that no kernel has fetched.
pub const BEGINNINGS: usize = 3 * BEGIN_BYTES;
/// The same of processes that other processes requested, and of those of one tree.
pub const REQUESTED_BEGINNINGS: usize = 2 * BEGIN_BYTES;
pub const TREE_BEGINNINGS: usize = BEGIN_BYTES + BEGIN_BYTES / 2;
/// Size of the arena, which holds the table with every limit reached.
pub const ARENA: usize = match abi::service::PROCESSES.arena {
    abi::service::Arena::Bytes(bytes) => bytes as usize,
    abi::service::Arena::Rest => 0,
};

/// Time after which the wake of a kernel that has not fetched its tasks is repeated, in ns.
pub const PATIENCE: u64 = 500_000_000;

/// How long a process waits for the next life of a kernel that died, in ns.
pub const GRACE: u64 = 5_000_000_000;

/// What a caller can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A task for this kernel.
    Next(u8),
    /// A change of a child of this process.
    Child(u32),
    /// A change of this process, whose parent is the system.
    Watched(u32),
    /// This process has moved, or will not.
    Moved(u32),
}

/// Why an operation returns no reply, or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    Failed(Errno),
    Park(Key),
    /// The caller is already recorded; it stays parked.
    Wait,
}

impl From<Errno> for Halt {
    fn from(error: Errno) -> Halt {
        Halt::Failed(error)
    }
}

pub(crate) type Result<T> = core::result::Result<T, Halt>;

/// A pending Spawn or Depart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spawning {
    pub pid: u32,
    /// Set when the process has started or has failed to start.
    pub outcome: Option<core::result::Result<(), Errno>>,
}

/// A request being handled.
pub(crate) struct Call<'a> {
    pub now: u64,
    pub token: Token,
    pub request: &'a Request,
    pub bulk: &'a mut [u8],
    pub effects: &'a mut dyn Effects,
}

impl Call<'_> {
    /// Returns the request's flags. Fails if any flag outside `known` is set.
    pub fn flags(&self, known: u16) -> Result<u16> {
        let flags = self.request.flags;
        if flags & !known == 0 { Ok(flags) } else { Err(Errno::Inval.into()) }
    }

    /// Returns the request's `pid`, which must be positive.
    pub fn pid(&self) -> Result<u32> {
        match u32::try_from(self.request.pid) {
            Ok(pid) if pid > 0 => Ok(pid),
            _ => Err(Errno::Inval.into()),
        }
    }

    /// Returns the start data or the name that the request carries.
    pub fn sent(&self) -> Result<&[u8]> {
        let length = usize::try_from(self.request.length).unwrap_or(usize::MAX);
        let sent = if length <= BEGIN_BYTES { self.bulk.get(..length) } else { None };
        sent.ok_or(Halt::Failed(Errno::Toobig))
    }
}

/// The process table.
#[derive(Debug)]
pub struct Processes {
    pub(crate) records: Records,
    pub(crate) parked: Parked<Key>,
    /// Callers parked under a key that have not been answered, woken or not.
    pub(crate) asked: BTreeMap<Token, Key>,
    pub(crate) spawns: BTreeMap<Token, Spawning>,
    /// The newest life of each kernel that has sent a request; 0 if it has sent none.
    pub(crate) newest: [u16; MAX_DOMAINS],
    /// Kernels whose newest life has ended. Processes wait for them at most [`GRACE`].
    pub(crate) away: [bool; MAX_DOMAINS],
    /// The newest life of each kernel that is known to be over; 0 if none is.
    over: [u16; MAX_DOMAINS],
    /// Kernels that know of this life of the table.
    told: [bool; MAX_DOMAINS],
    /// This step has woken a kernel for a task.
    called: bool,
}

const _: () = {
    const fn may_lie_in_an_arena<S: Shareable>() {}
    may_lie_in_an_arena::<Processes>();
};

impl Processes {
    /// Returns the number of processes and the number of parked callers.
    pub fn census(&self) -> (usize, usize) {
        (self.records.count(), self.asked.len() + self.spawns.len())
    }

    /// Notes which life of the caller's kernel sent a request. A new life removes what is left of
    /// the previous one; a request from an earlier life fails.
    fn note_life(&mut self, token: Token, effects: &mut dyn Effects) -> Result<()> {
        let at = usize::from(token.kernel);
        let newest = self.newest.get_mut(at).ok_or(Errno::Inval)?;
        let before = *newest;
        let ahead = token.epoch.wrapping_sub(before) as i16;
        if before != 0 && ahead < 0 {
            return Err(Errno::Hostunreach.into());
        }
        *newest = token.epoch;
        if (before == 0 || ahead > 0)
            && let Some(away) = self.away.get_mut(at)
        {
            *away = false;
        }
        if before != 0 && ahead > 0 {
            self.bury(Life { kernel: token.kernel, epoch: before }, effects);
        }
        Ok(())
    }

    /// Returns whether this life of a kernel is known to be over.
    pub(crate) fn is_over(&self, life: Life) -> bool {
        let at = usize::from(life.kernel);
        let (over, newest) = (self.over.get(at).copied(), self.newest.get(at).copied());
        let reaches =
            |epoch: u16, least: u16| epoch != 0 && (epoch.wrapping_sub(least) as i16) >= 0;
        over.is_some_and(|over| reaches(over, life.epoch))
            || newest.is_some_and(|newest| reaches(newest, life.epoch.wrapping_add(1)))
    }

    /// Fails with `Restarted` unless the caller was parked in this life of the table.
    fn resume(&mut self, token: Token) -> Result<()> {
        self.parked.forget(token);
        if self.asked.remove(&token).is_some() { Ok(()) } else { Err(Errno::Restarted.into()) }
    }

    /// Notes that the caller's kernel knows of this life of the table. Returns whether it did
    /// before.
    fn tell(&mut self, token: Token) -> bool {
        let told = self.told.get_mut(usize::from(token.kernel));
        told.is_none_or(|told| core::mem::replace(told, true))
    }

    fn perform(&mut self, call: &mut Call<'_>, again: bool) -> Result<Reply> {
        let op = Op::from_code(call.request.op).ok_or(Errno::Nosys)?;
        if call.request.reserved != 0 {
            return Err(Errno::Inval.into());
        }
        self.note_life(call.token, call.effects)?;
        match (op, again) {
            (Op::Spawn | Op::Depart, true) => return self.spawned(call.token),
            (Op::Next, false) if !self.tell(call.token) => return Err(Errno::Restarted.into()),
            (Op::Wait | Op::Move, true) => self.resume(call.token)?,
            (Op::Next, true) => {
                self.tell(call.token);
                self.resume(call.token)?;
            }
            _ => {}
        }
        match op {
            Op::Spawn => self.do_spawn(call),
            Op::Next => self.do_next(call),
            Op::Begun => self.do_begun(call),
            Op::Ended => self.do_ended(call),
            Op::Account => self.do_account(call),
            Op::Wait => self.do_wait(call),
            Op::Kill => self.do_kill(call),
            Op::Group => self.do_group(call),
            Op::About => self.do_about(call),
            Op::List => self.do_list(call),
            Op::Leave => self.do_leave(call),
            Op::Adopt => self.do_adopt(call),
            Op::Load => self.do_load(call),
            Op::Move => self.do_move(call, again),
            Op::Depart => self.do_depart(call),
            Op::Stay => self.do_stay(call),
        }
    }

    fn answer(&mut self, mut call: Call<'_>, again: bool) -> Answer<Reply> {
        match self.perform(&mut call, again) {
            Ok(reply) => Answer::Done(reply),
            Err(Halt::Failed(error)) => Answer::Done(Reply::error(error)),
            Err(Halt::Wait) => Answer::Parked,
            Err(Halt::Park(key)) => match self.park(call.token, key) {
                Some(()) => Answer::Parked,
                None => Answer::Done(Reply::error(Errno::Again)),
            },
        }
    }

    fn park(&mut self, token: Token, key: Key) -> Option<()> {
        if self.asked.len() >= WAITS {
            return None;
        }
        self.parked.park(token, key)?;
        self.asked.insert(token, key);
        Some(())
    }

    /// Removes a caller that no longer waits. A process that it was spawning is killed. Returns
    /// whether it had a request.
    fn cancel(&mut self, token: Token, effects: &mut dyn Effects) -> bool {
        self.parked.forget(token);
        let asked = self.asked.remove(&token);
        if let Some(Key::Moved(pid)) = asked {
            self.give_up_move(pid);
        }
        let spawning = self.spawns.remove(&token);
        if let Some(Spawning { pid, .. }) = spawning {
            if let Some(record) = self.records.get_mut(pid) {
                record.asker = None;
            }
            self.abandon(pid, effects);
        }
        asked.is_some() || spawning.is_some()
    }

    /// The same for a caller that may not have the reply. If that was to start a process in its own
    /// kernel, it does not.
    fn cancel_answered(&mut self, token: Token, effects: &mut dyn Effects) {
        if self.cancel(token, effects) {
            return;
        }
        let is_its = |record: &Record| record.asker == Some(token) && record.is_of(Life::of(token));
        for pid in self.records.find(is_its) {
            self.remove(pid, effects);
        }
    }
}

impl Service for Processes {
    type Request = Request;
    type Reply = Reply;

    const NAME: &'static str = abi::service::PROCESSES.name;

    fn start(lives: u32) -> Processes {
        Processes {
            records: Records::new(lives),
            parked: Parked::new(WAITS),
            asked: BTreeMap::new(),
            spawns: BTreeMap::new(),
            newest: [0; MAX_DOMAINS],
            away: [false; MAX_DOMAINS],
            over: [0; MAX_DOMAINS],
            told: [lives <= 1; MAX_DOMAINS],
            called: false,
        }
    }

    fn sent(request: &Request, bulk: usize) -> usize {
        request.sent(bulk)
    }

    fn filled(reply: &Reply) -> usize {
        reply.filled as usize
    }

    fn step(
        &mut self,
        now: u64,
        event: Event<'_, Request>,
        effects: &mut dyn Effects,
    ) -> Answer<Reply> {
        let answer = self.handle_event(now, event, effects);
        if core::mem::take(&mut self.called) {
            effects.timer(now.saturating_add(PATIENCE));
        }
        answer
    }
}

impl Processes {
    fn handle_event(
        &mut self,
        now: u64,
        event: Event<'_, Request>,
        effects: &mut dyn Effects,
    ) -> Answer<Reply> {
        match event {
            Event::Request { token, request, bulk } => {
                self.cancel(token, effects);
                return self.answer(Call { now, token, request, bulk, effects }, false);
            }
            Event::Again { token, request, bulk } => {
                return self.answer(Call { now, token, request, bulk, effects }, true);
            }
            Event::Cancel(token) => self.cancel_answered(token, effects),
            Event::Gone(kernel, epoch) => self.gone(now, kernel, epoch, effects),
            Event::Timer => self.remind(now, effects),
            Event::Device => {}
        }
        Answer::NoReply
    }

    /// Wakes a kernel because it has a task.
    pub(crate) fn call(&mut self, kernel: u8, effects: &mut dyn Effects) {
        self.parked.wake(Key::Next(kernel), effects);
        self.called = true;
    }

    /// Repeats the wake of every kernel that is parked in Next and has a task. Fails the processes
    /// that have waited [`GRACE`] for the next life of their kernel.
    pub(crate) fn remind(&mut self, now: u64, effects: &mut dyn Effects) {
        let away = self.away;
        let waits = |record: &Record| {
            let is_away = away.get(usize::from(record.kernel)) == Some(&true);
            record.state == State::Waiting && is_away
        };
        for pid in self.records.find(waits) {
            let began = self.records.get(pid).map_or(0, |record| record.began);
            if now >= began.saturating_add(GRACE) {
                self.fail(pid, Errno::Hostunreach, effects);
            } else {
                self.called = true;
            }
        }
        let listens = |(&token, &key): (&Token, &Key)| matches!(key, Key::Next(_)).then_some(token);
        for token in self.asked.iter().filter_map(listens) {
            let life = Life::of(token);
            if self.records.iter().any(|(_, record)| record.news(life).is_some()) {
                effects.wake(token);
                self.called = true;
            }
        }
    }

    /// A life of a kernel has ended. The processes that wait for that kernel fail, unless a newer
    /// life of it has already sent a request. After a restart the table does not know the kernels'
    /// lives, and the death may be an old one: then they wait for the next life.
    fn gone(&mut self, now: u64, kernel: DomainId, epoch: Epoch, effects: &mut dyn Effects) {
        let newest = self.newest.get(kernel.index()).copied().unwrap_or(0);
        let is_back = newest != 0 && (newest.wrapping_sub(epoch.0) as i16) > 0;
        let life = Life { kernel: kernel.0, epoch: epoch.0 };
        if !self.is_over(life)
            && let Some(over) = self.over.get_mut(kernel.index())
        {
            *over = epoch.0;
        }
        self.asked.retain(|&token, _| Life::of(token) != life);
        // The dead kernel may have been the one that was to deliver a wake.
        self.remind(now, effects);
        self.bury(life, effects);
        if !is_back {
            if let Some(away) = self.away.get_mut(kernel.index()) {
                *away = true;
            }
            match newest {
                0 => self.called = true,
                _ => self.give_up(kernel.0, effects),
            }
        }
    }
}

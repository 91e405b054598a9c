//! The threads of one kernel and their state transitions. Pure: no clock, no context, no lock.
//!
//! ```text
//!            create            pick                     block, no permit
//!   Free ------------> Ready -------> Running -------------------------> Blocked
//!    ^                   ^               |  |                               |
//!    |                   +---------------+  |        wake, deadline         |
//!    |                   | preempt, yield   |                               |
//!    |                   +------------------|-------------------------------+
//!    +--------------------------------------+
//!                      exit
//! ```
//! A thread that blocks may hand its core to a blocked one, which is Running at once ([`handoff`]),
//! or to one that was woken meanwhile and is in no queue ([`next`]).
//! A wake of a thread that is not blocked leaves a permit, and the next block consumes it instead
//! of blocking. Thread number `core` is that core's idle thread: it always exists and is never in a
//! run queue.
//!
//! A transition that makes a thread ready on another core records that core. The lock holder
//! fetches the recorded cores with [`Table::take_kicks`] and interrupts them.
//!
//! **Full**: with [`MAX_THREADS`] threads, `create` returns `None`.

mod handoff;
mod next;
mod quiet;
mod residency;
mod timer;
mod turns;

use crate::kicks::Kicks;
use crate::runqueue::{Index, Level, NONE, RunQueue};
use crate::sleepers::{Deadline, Sleepers};
use crate::wait::{append, unlink};
use crate::{MAX_THREADS, PRIORITIES, PerThread, per_thread};
use alloc::vec::Vec;
use quiet::Upkeep;
pub use timer::Event;
use timer::Timer;
use turns::Turns;

/// Identifies a thread. After the thread has ended, the id is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId {
    index: Index,
    generation: u32,
}

impl ThreadId {
    /// Returns the id as plain data, for a parked request.
    pub const fn token(self) -> u64 {
        (self.generation as u64) << 16 | self.index as u64
    }
    /// Undoes [`ThreadId::token`]. A number from elsewhere matches no thread.
    pub const fn from_token(token: u64) -> ThreadId {
        ThreadId { index: token as Index, generation: (token >> 16) as u32 }
    }
    /// Position in the table, below `MAX_THREADS`. Reused by later threads.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

impl core::fmt::Display for ThreadId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad_integral(true, "", itoa(self.token(), &mut [0; 20]))
    }
}

/// Decimal digits, so that [`ThreadId`] respects the width of a format string.
fn itoa(mut number: u64, digits: &mut [u8; 20]) -> &str {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return core::str::from_utf8(&digits[at..]).unwrap_or("?");
        }
    }
}

/// State of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The entry is unused.
    Free,
    /// In a run queue, or next on its core, or the idle thread of a busy core.
    Ready,
    Running,
    /// Waiting to be woken.
    Blocked,
}

/// A thread.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub phase: Phase,
    pub name: &'static str,
    /// Higher ones run first.
    pub priority: u8,
    /// The only core that it may run on.
    pub affinity: Option<u8>,
    /// The core that it runs on, or ran on last.
    pub core: u8,
    /// Entry function and argument.
    pub start: (fn(usize), usize),
    /// Top of its stack; 0 for idle threads, which run on their core's boot stack.
    pub stack: usize,
    /// Ticks that it has run.
    pub ran: u64,
    /// Number of times that it was switched to.
    pub switches: u64,
    /// What is added to `ran` for its virtual time.
    base: i64,
    /// How long its next turn is, or what it is owed.
    left: u64,
    generation: u32,
    permit: bool,
    waiting: bool,
    /// It may have a deadline.
    sleeps: bool,
    /// The core whose sleepers have its deadline. It may have moved to another one since.
    sleeps_on: u8,
    /// That deadline is [`Deadline::Deferrable`].
    is_deferrable: bool,
    upkeep: Upkeep,
}

pub(super) fn nothing(_: usize) {}

const FREE: Entry = Entry {
    phase: Phase::Free,
    name: "",
    priority: 0,
    affinity: None,
    core: 0,
    start: (nothing, 0),
    stack: 0,
    ran: 0,
    switches: 0,
    base: 0,
    left: 0,
    generation: 0,
    permit: false,
    waiting: false,
    sleeps: false,
    sleeps_on: 0,
    is_deferrable: false,
    upkeep: Upkeep::No,
};

/// Parameters of a new thread.
#[derive(Clone, Copy, Debug)]
pub struct NewThread {
    pub name: &'static str,
    /// 1 to 31; higher ones run first.
    pub priority: u8,
    /// The only core that it may run on.
    pub affinity: Option<u8>,
    /// Entry function and argument.
    pub start: (fn(usize), usize),
    /// Top of its stack.
    pub stack: usize,
}

pub struct Table {
    /// Length of a turn in ticks.
    slice: u64,
    /// The least lag of a thread that is owed time.
    owed_from: u64,
    entries: PerThread<Entry>,
    links: PerThread<Index>,
    /// Links of wait queues.
    waits: PerThread<Index>,
    free: Vec<Index>,
    cores: Vec<Core>,
    /// Cores that must check their run queue and have not been interrupted yet.
    kicks: Kicks,
    /// An idle core leaves deadlines that can be deferred until it has something else to do.
    pub defers: bool,
    /// Stacks of ended threads, for reuse.
    pub spare_stacks: Vec<usize>,
}

struct Core {
    queue: RunQueue,
    /// A ready thread beside the queue, which is empty then ([`next`]).
    next: Option<(Index, Level)>,
    sleepers: Sleepers,
    /// Those with deadlines that can be deferred.
    deferrable: Sleepers,
    /// Tick at which a thread that does work last stopped running here ([`Table::quiet`]).
    worked_until: u64,
    /// Ticks that threads other than the idle thread have run here, without the current one's.
    worked: u64,
    current: Index,
    online: bool,
    /// Tick at which the current thread was switched to.
    since: u64,
    turns: Turns,
    timer: Timer,
}

impl Table {
    /// Makes the idle threads of `cores` cores. A slice has that many ticks.
    pub fn new(cores: usize, slice: u64) -> Self {
        let mut entries = per_thread(|| FREE);
        for (core, entry) in entries[..cores].iter_mut().enumerate() {
            *entry = Entry {
                phase: Phase::Running,
                name: "idle",
                core: core as u8,
                affinity: Some(core as u8),
                ..FREE
            };
        }
        let core = |index| Core {
            queue: RunQueue::default(),
            next: None,
            sleepers: Sleepers::new(MAX_THREADS),
            deferrable: Sleepers::new(MAX_THREADS),
            worked_until: 0,
            worked: 0,
            current: index as Index,
            online: false,
            since: 0,
            turns: Turns::default(),
            timer: Timer::default(),
        };
        Table {
            slice,
            owed_from: slice / turns::OWED_FROM,
            entries,
            links: per_thread(|| NONE),
            waits: per_thread(|| NONE),
            free: (cores as Index..MAX_THREADS as Index).rev().collect(),
            cores: (0..cores).map(core).collect(),
            kicks: Kicks::default(),
            defers: false,
            spare_stacks: Vec::with_capacity(MAX_THREADS),
        }
    }

    /// `core` takes part in scheduling from now on.
    pub fn online(&mut self, core: usize, now: u64) {
        self.cores[core].online = true;
        self.cores[core].since = now;
    }

    fn id(&self, index: Index) -> ThreadId {
        ThreadId { index, generation: self.entries[index as usize].generation }
    }

    /// Returns a live thread.
    pub fn get(&self, id: ThreadId) -> Option<&Entry> {
        let entry = self.entries.get(id.index())?;
        (entry.generation == id.generation && entry.phase != Phase::Free).then_some(entry)
    }

    /// Returns the live thread at `index`, for listing.
    pub fn at(&self, index: usize) -> Option<(ThreadId, &Entry)> {
        let entry = self.entries.get(index).filter(|entry| entry.phase != Phase::Free)?;
        Some((self.id(index as Index), entry))
    }

    /// Returns the thread that runs on `core`.
    pub fn current(&self, core: usize) -> ThreadId {
        self.id(self.cores[core].current)
    }

    /// Returns whether a thread is ready on `core`.
    pub fn has_ready(&self, core: usize) -> bool {
        self.cores[core].has_ready()
    }

    /// Returns and clears the set of other cores that must check their run queue.
    pub fn take_kicks(&mut self) -> Kicks {
        core::mem::take(&mut self.kicks)
    }

    /// Creates a thread, which is ready. `None`: the table is full.
    pub fn create(&mut self, new: NewThread, here: usize, now: u64) -> Option<ThreadId> {
        let index = self.free.pop()?;
        let NewThread { name, priority, affinity, start, stack } = new;
        let affinity = affinity.filter(|&core| (core as usize) < self.cores.len());
        let priority = priority.clamp(1, PRIORITIES as u8 - 1);
        let generation = self.entries[index as usize].generation.wrapping_add(1);
        let (core, base) = (here as u8, self.virtual_time(here, priority, now));
        self.entries[index as usize] = Entry {
            name,
            priority,
            affinity,
            core,
            start,
            stack,
            base,
            generation,
            phase: Phase::Blocked,
            ..FREE
        };
        self.make_ready(index, here, now);
        Some(self.id(index))
    }

    /// Wakes a thread or, if it is not blocked, leaves it a permit.
    pub fn wake(&mut self, id: ThreadId, here: usize, now: u64) {
        if self.get(id).is_none() {
            return;
        }
        let entry = &mut self.entries[id.index()];
        if entry.phase != Phase::Blocked {
            entry.permit = true;
            entry.upkeep.woken();
            return;
        }
        self.make_ready(id.index, here, now);
    }

    fn is_idle(&self, core: usize) -> bool {
        self.cores[core].current as usize == core
    }

    /// Blocks the running thread. If it has a permit, consumes that instead and returns false.
    pub fn block_current(&mut self, core: usize) -> bool {
        let entry = &mut self.entries[self.cores[core].current as usize];
        if core::mem::take(&mut entry.permit) {
            return false;
        }
        entry.phase = Phase::Blocked;
        true
    }

    /// Ends the running thread. Its stack can be reused once the lock is released.
    pub fn exit_current(&mut self, core: usize) {
        let index = self.cores[core].current;
        let entry = &mut self.entries[index as usize];
        self.spare_stacks.push(entry.stack);
        entry.phase = Phase::Free;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
    }

    /// Adds the running thread, which is about to block, to the list that starts at `head`. It will
    /// be woken at `deadline` at the latest. Clears its permit.
    #[inline]
    pub fn prepare_wait(&mut self, core: usize, head: &mut Index, deadline: Option<Deadline>) {
        let index = self.cores[core].current;
        let entry = &mut self.entries[index as usize];
        entry.permit = false;
        entry.waiting = true;
        self.waits[index as usize] = NONE;
        append(&mut self.waits, head, index);
        if let Some(deadline) = deadline {
            self.sleep(core, deadline);
        }
    }

    /// Adds the running thread to the sleepers of its core.
    fn sleep(&mut self, core: usize, deadline: Deadline) {
        let index = self.cores[core].current;
        self.cancel_sleep(index);
        let entry = &mut self.entries[index as usize];
        (entry.sleeps, entry.sleeps_on) = (true, core as u8);
        entry.is_deferrable = matches!(deadline, Deadline::Deferrable(_));
        self.sleepers_with(index).insert(index, deadline.at());
    }

    #[inline]
    fn cancel_sleep(&mut self, index: Index) {
        if self.entries[index as usize].sleeps {
            self.remove_deadline(index);
        }
    }

    #[inline(never)]
    fn remove_deadline(&mut self, index: Index) {
        self.sleepers_with(index).remove(index);
        self.entries[index as usize].sleeps = false;
    }

    /// Returns the sleepers that have the deadline of the thread at `index`, if it has one.
    #[inline]
    fn sleepers_with(&mut self, index: Index) -> &mut Sleepers {
        let entry = &self.entries[index as usize];
        let core = &mut self.cores[entry.sleeps_on as usize];
        if entry.is_deferrable { &mut core.deferrable } else { &mut core.sleepers }
    }

    /// Removes the running thread from the list that starts at `head`, whether it was woken or not.
    /// Clears its permit.
    #[inline]
    pub fn cancel_wait(&mut self, core: usize, head: &mut Index) {
        let index = self.cores[core].current;
        let entry = &mut self.entries[index as usize];
        entry.permit = false;
        if core::mem::take(&mut entry.waiting) {
            unlink(&mut self.waits, head, index);
        }
        self.cancel_sleep(index);
    }

    /// Wakes the first thread in the list that starts at `head`; returns false if there is none.
    pub fn wake_first(&mut self, head: &mut Index, here: usize, now: u64) -> bool {
        let index = core::mem::replace(head, NONE);
        if index == NONE {
            return false;
        }
        *head = self.waits[index as usize];
        self.entries[index as usize].waiting = false;
        self.wake(self.id(index), here, now);
        true
    }

    /// Does the same as [`Table::block_current`], until `deadline` at the latest.
    pub fn sleep_current(&mut self, core: usize, deadline: Deadline) -> bool {
        let blocked = self.block_current(core);
        if blocked {
            self.sleep(core, deadline);
        }
        blocked
    }

    /// Sets the affinity of the running thread; returns the previous one.
    pub fn set_affinity(&mut self, core: usize, affinity: Option<u8>) -> Option<u8> {
        let index = self.cores[core].current;
        core::mem::replace(&mut self.entries[index as usize].affinity, affinity)
    }
}

#[cfg(test)]
mod tests;

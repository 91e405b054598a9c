//! The threads of one kernel and every change of their state. Pure: no clock, no context, no lock.
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
//! A wake that finds its thread not Blocked leaves a permit, and the next block takes it instead of
//! blocking. Thread `core` is that core's idle thread: always there, never in a run queue.
//!
//! Every change that makes a thread ready for another core notes that core; whoever holds the lock
//! fetches them with [`Table::take_kicks`] and tells them all.
//!
//! **Full**: with [`MAX_THREADS`] threads, `create` answers `None`.

mod timer;

use crate::kicks::Kicks;
use crate::runqueue::{Index, NONE, RunQueue};
use crate::sleepers::Sleepers;
use crate::wait::{append, unlink};
use crate::{MAX_THREADS, PRIORITIES};
use alloc::vec;
use alloc::vec::Vec;
pub use timer::Event;
use timer::Timer;

/// Names a thread; once it has ended, it names nobody for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId {
    index: Index,
    generation: u32,
}

impl ThreadId {
    /// As plain data, for a parked request.
    pub const fn token(self) -> u64 {
        (self.generation as u64) << 16 | self.index as u64
    }
    /// From [`ThreadId::token`]; a token of another origin names nobody.
    pub const fn from_token(token: u64) -> ThreadId {
        ThreadId { index: token as Index, generation: (token >> 16) as u32 }
    }
    /// Its place in the table, below `MAX_THREADS`; another thread has it later.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

impl core::fmt::Display for ThreadId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad_integral(true, "", itoa(self.token(), &mut [0; 20]))
    }
}

/// Decimal digits, so that [`ThreadId`] respects the width it is asked for.
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

/// Where a thread is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No thread.
    Free,
    /// In a run queue, or the idle thread of a busy core.
    Ready,
    /// On its core.
    Running,
    /// Until somebody wakes it.
    Blocked,
}

/// What a thread is.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Phase.
    pub phase: Phase,
    /// For people.
    pub name: &'static str,
    /// Higher runs first.
    pub priority: u8,
    /// May only run there.
    pub affinity: Option<u8>,
    /// Where it runs, or ran last.
    pub core: u8,
    /// What it runs.
    pub start: (fn(usize), usize),
    /// Top of its stack; 0 for idle threads, which run on their core's boot stack.
    pub stack: usize,
    /// Ticks it has run.
    pub ran: u64,
    /// Times it came onto a core.
    pub switches: u64,
    generation: u32,
    permit: bool,
    waiting: bool,
}

fn nothing(_: usize) {}

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
    generation: 0,
    permit: false,
    waiting: false,
};

/// What a new thread is to be.
#[derive(Clone, Copy, Debug)]
pub struct New {
    /// For people.
    pub name: &'static str,
    /// Higher runs first; 1 to 31.
    pub priority: u8,
    /// May only run there.
    pub affinity: Option<u8>,
    /// What it runs.
    pub start: (fn(usize), usize),
    /// Top of its stack.
    pub stack: usize,
}

/// All threads.
pub struct Table {
    entries: Vec<Entry>,
    links: Vec<Index>,
    /// Links of wait queues.
    waits: Vec<Index>,
    free: Vec<Index>,
    cores: Vec<Core>,
    /// Cores that have not been told yet what became ready for them.
    kicks: Kicks,
    /// Stacks of ended threads, for the next ones.
    pub spare_stacks: Vec<usize>,
}

struct Core {
    queue: RunQueue,
    sleepers: Sleepers,
    current: Index,
    online: bool,
    /// When the current thread came, and when its slice ends.
    since: u64,
    slice_end: u64,
    timer: Timer,
}

impl Table {
    /// Idle threads for `cores` cores, nothing else.
    pub fn new(cores: usize) -> Self {
        let mut entries = vec![FREE; MAX_THREADS];
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
            sleepers: Sleepers::new(MAX_THREADS),
            current: index as Index,
            online: false,
            since: 0,
            slice_end: 0,
            timer: Timer::default(),
        };
        Table {
            entries,
            links: vec![NONE; MAX_THREADS],
            waits: vec![NONE; MAX_THREADS],
            free: (cores as Index..MAX_THREADS as Index).rev().collect(),
            cores: (0..cores).map(core).collect(),
            kicks: Kicks::default(),
            spare_stacks: Vec::with_capacity(MAX_THREADS),
        }
    }

    /// The core takes part from now on.
    pub fn online(&mut self, core: usize, now: u64) {
        self.cores[core].online = true;
        self.cores[core].since = now;
    }

    fn id(&self, index: Index) -> ThreadId {
        ThreadId { index, generation: self.entries[index as usize].generation }
    }

    /// The thread, if it lives.
    pub fn get(&self, id: ThreadId) -> Option<&Entry> {
        let entry = self.entries.get(id.index())?;
        (entry.generation == id.generation && entry.phase != Phase::Free).then_some(entry)
    }

    /// The living thread at `index`, for lists of them.
    pub fn at(&self, index: usize) -> Option<(ThreadId, &Entry)> {
        let entry = self.entries.get(index).filter(|entry| entry.phase != Phase::Free)?;
        Some((self.id(index as Index), entry))
    }

    /// Who runs on `core`.
    pub fn current(&self, core: usize) -> ThreadId {
        self.id(self.cores[core].current)
    }

    /// Is anybody ready there?
    pub fn has_ready(&self, core: usize) -> bool {
        !self.cores[core].queue.is_empty()
    }

    /// The cores other than the ones that made the changes that must look at their queue now.
    pub fn take_kicks(&mut self) -> Kicks {
        core::mem::take(&mut self.kicks)
    }

    /// A new thread, ready. `None`: table full.
    pub fn create(&mut self, new: New, here: usize) -> Option<ThreadId> {
        let index = self.free.pop()?;
        let New { name, priority, affinity, start, stack } = new;
        let affinity = affinity.filter(|&core| (core as usize) < self.cores.len());
        let priority = priority.clamp(1, PRIORITIES as u8 - 1);
        let generation = self.entries[index as usize].generation.wrapping_add(1);
        let core = here as u8;
        self.entries[index as usize] = Entry {
            name,
            priority,
            affinity,
            core,
            start,
            stack,
            generation,
            phase: Phase::Blocked,
            ..FREE
        };
        self.make_ready(index, here);
        Some(self.id(index))
    }

    /// Wakes a thread, or leaves it a permit.
    pub fn wake(&mut self, id: ThreadId, here: usize) {
        if self.get(id).is_none() {
            return;
        }
        let entry = &mut self.entries[id.index()];
        if entry.phase != Phase::Blocked {
            entry.permit = true;
            return;
        }
        self.make_ready(id.index, here);
    }

    fn make_ready(&mut self, index: Index, here: usize) {
        let entry = &self.entries[index as usize];
        self.cores[entry.core as usize].sleepers.remove(index);
        let core = self.place(entry);
        let entry = &mut self.entries[index as usize];
        entry.phase = Phase::Ready;
        entry.core = core as u8;
        let priority = entry.priority;
        self.cores[core].queue.push(&mut self.links, index, priority);
        let running = self.entries[self.cores[core].current as usize].priority;
        // An equal one has to know as well: its slice ends from now on.
        if core != here && running <= priority {
            self.kicks.insert(core);
        }
    }

    /// Where a thread that becomes ready should go: where it must, else where it was if it can run
    /// there at once, else to an idle core, else where it was.
    fn place(&self, entry: &Entry) -> usize {
        if let Some(core) = entry.affinity {
            return core as usize;
        }
        let runs_now = |core: usize| {
            let there = &self.cores[core];
            there.online
                && there.queue.is_empty()
                && self.entries[there.current as usize].priority < entry.priority
        };
        let last = entry.core as usize;
        let idle = |&core: &usize| runs_now(core) && self.is_idle(core);
        if self.cores.len() == 1 || runs_now(last) {
            return last;
        }
        (0..self.cores.len()).find(idle).unwrap_or(last)
    }

    fn is_idle(&self, core: usize) -> bool {
        self.cores[core].current as usize == core
    }

    /// Puts the running thread back: others of its priority come first.
    pub fn requeue_current(&mut self, core: usize) {
        let index = self.cores[core].current;
        let entry = &mut self.entries[index as usize];
        entry.phase = Phase::Ready;
        if index as usize != core {
            self.cores[core].queue.push(&mut self.links, index, entry.priority);
        }
    }

    /// Takes the running thread off its core until it is woken; false when it has a permit, which
    /// is gone now.
    pub fn block_current(&mut self, core: usize) -> bool {
        let entry = &mut self.entries[self.cores[core].current as usize];
        if core::mem::take(&mut entry.permit) {
            return false;
        }
        entry.phase = Phase::Blocked;
        true
    }

    /// Ends the running thread; its stack is spare as soon as the lock is released.
    pub fn exit_current(&mut self, core: usize) {
        let index = self.cores[core].current;
        let entry = &mut self.entries[index as usize];
        self.spare_stacks.push(entry.stack);
        entry.phase = Phase::Free;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
    }

    /// Who runs next on `core`, which it does from now on: the highest here, else one that may
    /// come from another core's queue, else the idle thread.
    pub fn pick(&mut self, core: usize, now: u64, slice: u64) -> usize {
        let next = self.cores[core].queue.pop(&mut self.links);
        let next = next.or_else(|| self.steal(core)).unwrap_or(core as Index);
        let here = &mut self.cores[core];
        let before = &mut self.entries[here.current as usize];
        before.ran += now.saturating_sub(here.since);
        here.since = now;
        here.slice_end = now + slice;
        let entry = &mut self.entries[next as usize];
        entry.switches += u64::from(here.current != next);
        entry.phase = Phase::Running;
        entry.core = core as u8;
        here.current = next;
        next as usize
    }

    fn steal(&mut self, core: usize) -> Option<Index> {
        let longest = |&other: &usize| self.cores[other].queue.len();
        let from = (0..self.cores.len()).filter(|&other| other != core).max_by_key(longest)?;
        let entries = &self.entries;
        let movable = |index: Index| entries[index as usize].affinity.is_none();
        self.cores[from].queue.take(&mut self.links, movable)
    }

    /// Must the running thread make room: for a higher priority, or for an equal at its slice's
    /// end?
    pub fn should_preempt(&self, core: usize, now: u64) -> bool {
        let here = &self.cores[core];
        let running = self.entries[here.current as usize].priority;
        here.queue.highest().is_some_and(|highest| {
            highest > running || (highest == running && now >= here.slice_end)
        })
    }

    /// The running thread is about to block, until chip time `deadline` at the latest: into the
    /// list that `head` begins, and no permit.
    pub fn prepare_wait(&mut self, core: usize, head: &mut Index, deadline: Option<u64>) {
        let index = self.cores[core].current;
        let entry = &mut self.entries[index as usize];
        entry.permit = false;
        entry.waiting = true;
        self.waits[index as usize] = NONE;
        append(&mut self.waits, head, index);
        if let Some(deadline) = deadline {
            self.cores[core].sleepers.insert(index, deadline);
        }
    }

    /// The running thread waits no longer, whether it was woken or not.
    pub fn cancel_wait(&mut self, core: usize, head: &mut Index) {
        let index = self.cores[core].current;
        let entry = &mut self.entries[index as usize];
        entry.permit = false;
        if core::mem::take(&mut entry.waiting) {
            unlink(&mut self.waits, head, index);
        }
        let slept_on = entry.core as usize;
        self.cores[slept_on].sleepers.remove(index);
    }

    /// Wakes the first of the list that `head` begins; false when nobody waits.
    pub fn wake_first(&mut self, head: &mut Index, here: usize) -> bool {
        let index = core::mem::replace(head, NONE);
        if index == NONE {
            return false;
        }
        *head = self.waits[index as usize];
        self.entries[index as usize].waiting = false;
        self.wake(self.id(index), here);
        true
    }

    /// [`Table::block_current`] until chip time `deadline` at the latest.
    pub fn sleep_current(&mut self, core: usize, deadline: u64) -> bool {
        let blocked = self.block_current(core);
        if blocked {
            let index = self.cores[core].current;
            self.cores[core].sleepers.insert(index, deadline);
        }
        blocked
    }

    /// Where the running thread may run from now on, in place of what it was told before.
    pub fn set_affinity(&mut self, core: usize, affinity: Option<u8>) -> Option<u8> {
        let index = self.cores[core].current;
        core::mem::replace(&mut self.entries[index as usize].affinity, affinity)
    }

    /// Ticks that a thread has run; 0 for one that has ended.
    pub fn ran(&self, id: ThreadId, now: u64) -> u64 {
        let Some(entry) = self.get(id) else { return 0 };
        let runs = |core: &&Core| entry.phase == Phase::Running && core.current == id.index;
        let since = self.cores.iter().find(runs).map_or(0, |core| now.saturating_sub(core.since));
        entry.ran + since
    }

    /// The sum of what idles and what runs, for a core: (switches, idle ns, name of the running).
    pub fn core_info(&self, core: usize, now: u64) -> (u64, u64, &'static str) {
        let on_core = |entry: &&Entry| entry.core as usize == core;
        let switches = self.entries.iter().filter(on_core).map(|entry| entry.switches).sum();
        let running = self.entries[self.cores[core].current as usize].name;
        let since = if self.is_idle(core) { now.saturating_sub(self.cores[core].since) } else { 0 };
        (switches, self.entries[core].ran + since, running)
    }
}

#[cfg(test)]
mod tests;

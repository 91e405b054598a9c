//! The scheduler: the thread table in its lock, and everything that touches the machine.
//!
//! Slices and run times are ticks of the local clock. Deadlines are soc time until a timer is set,
//! so that an adjustment of the soc clock invalidates only the timers. A timer is set only for a
//! sleeper or for a thread that waits for the running one to be preempted.
//!
//! A context switch happens with the lock held, and the thread that continues releases it: each
//! thread with the guard in its own frame, a new thread in its first step.

mod cores;
mod handoff;
mod waiting;
mod waking;

use crate::MAX_THREADS;
use crate::raw::{Contexts, FirstStep};
use crate::sleepers::Deadline;
use crate::table::{NewThread, Phase, Table, ThreadId};
use crate::wait::WaitQueue;
use alloc::boxed::Box;
use arch::lock::{Guard, Lock, Rank};
use arch::types::Interrupt;
use arch::{cache, cpu, hold, time, timer};
use base::id::CoreId;
use base::port::Stacks;
use core::sync::atomic::{AtomicU64, Ordering};
pub use cores::CoreInfo;
pub use handoff::Handoff;

/// Above the rank of every lock whose holder may wake a thread.
pub const RANK: Rank = Rank::leaf(200, "scheduler");
/// Kind of the core-to-core interrupt that means "check your run queue".
const RESCHEDULE: u8 = 0;
/// Number of spare stacks kept for new threads.
const KEEP_STACKS: usize = 8;

/// Reason why a thread was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnError {
    /// No memory for its stack.
    NoMemory,
    /// There are already [`MAX_THREADS`] threads.
    TooMany,
}

/// Called by an idle core before it sleeps, with interrupts masked. Returns false if there is work
/// after all. Any interrupt ends the sleep.
pub type BeforeSleep = fn() -> bool;

/// A live thread, for listing.
#[derive(Clone, Copy, Debug)]
pub struct ThreadInfo {
    pub id: ThreadId,
    pub name: &'static str,
    pub state: Phase,
    /// The core that it runs on, or ran on last.
    pub core: u8,
    pub priority: u8,
    /// Time that it had run, in ns, when it was last switched from.
    pub cpu_ns: u64,
    /// Number of times that it was switched to.
    pub switches: u64,
}

pub struct Scheduler {
    table: Lock<Table>,
    /// Token of the running thread, by core: written by that core, with the lock held.
    running: Box<[AtomicU64]>,
    contexts: Contexts,
    joins: Box<[WaitQueue]>,
    stacks: &'static (dyn Stacks + Sync),
    before_sleep: BeforeSleep,
}

fn to_ns(ticks: u64) -> u64 {
    (u128::from(ticks) * 1_000_000_000 / u128::from(cpu::clock_hz())) as u64
}

fn here() -> usize {
    cpu::core().index()
}

impl Scheduler {
    /// Makes a scheduler for `cores` cores, each of which joins with [`Scheduler::run`].
    pub fn new(cores: usize, stacks: &'static (dyn Stacks + Sync), before: BeforeSleep) -> Self {
        let slice = cpu::clock_hz() / (1_000_000_000 / crate::SLICE_NS);
        let table = Table::new(cores, slice);
        let running = (0..cores).map(|core| AtomicU64::new(table.current(core).token()));
        Scheduler {
            running: running.collect(),
            table: Lock::new(RANK, table),
            contexts: Contexts::new(),
            joins: (0..MAX_THREADS).map(|_| WaitQueue::new()).collect(),
            stacks,
            before_sleep: before,
        }
    }

    /// Turns the caller into this core's idle thread, forever.
    pub fn run(&self) -> ! {
        self.table.lock().online(here(), cpu::clock());
        loop {
            self.idle_once();
        }
    }

    fn idle_once(&self) {
        cpu::irqs_off();
        let mut table = self.table.lock();
        if table.has_ready(here()) {
            table.yield_current(here());
            drop(self.switch_away(table));
        } else {
            drop(table);
            if (self.before_sleep)() {
                cpu::wait();
            }
        }
        cpu::irqs_restore(true); // takes pending interrupts, and may switch threads
    }

    /// Reports that this core was powered off and on again, and its timer with it.
    pub fn core_powered_on(&self) {
        self.table.lock().timer_fired(here());
    }

    /// Creates a thread, which is ready to run.
    pub fn spawn(
        &'static self,
        name: &'static str,
        priority: u8,
        affinity: Option<CoreId>,
        entry: fn(usize),
        argument: usize,
    ) -> Result<ThreadId, SpawnError> {
        let spare = self.table.lock().spare_stacks.pop();
        let stack = spare.or_else(|| self.stacks.allocate()).ok_or(SpawnError::NoMemory)?;
        let affinity = affinity.map(|core| core.0);
        let new = NewThread { name, priority, affinity, start: (entry, argument), stack };
        let mut table = self.table.lock();
        let Some(id) = table.create(new, here(), cpu::clock()) else {
            drop(table);
            self.stacks.release(stack);
            return Err(SpawnError::TooMany);
        };
        self.contexts.prepare(id.index(), stack, self);
        self.announce(&mut table);
        Ok(id)
    }

    /// Waits until a thread has ended.
    pub fn join(&self, id: ThreadId) {
        self.wait(&self.joins[id.index()], || !self.is_alive(id));
        self.trim();
    }

    /// Frees stacks of ended threads beyond those kept for new threads. Waits for other cores, so
    /// it must not be called by a thread that is ending or idle.
    pub fn trim(&self) {
        while let Some(stack) = self.surplus() {
            self.stacks.release(stack);
        }
    }

    fn surplus(&self) -> Option<usize> {
        let mut table = self.table.lock();
        if table.spare_stacks.len() > KEEP_STACKS { table.spare_stacks.pop() } else { None }
    }

    /// Returns the number of stacks of ended threads that are kept.
    pub fn spare_stacks(&self) -> usize {
        self.table.lock().spare_stacks.len()
    }

    /// Returns whether a thread is live.
    pub fn is_alive(&self, id: ThreadId) -> bool {
        self.table.lock().get(id).is_some()
    }

    /// Returns the calling thread.
    #[inline]
    pub fn current(&self) -> ThreadId {
        let on = cpu::irqs_off();
        let token = self.running[here()].load(Ordering::Relaxed);
        cpu::irqs_restore(on);
        ThreadId::from_token(token)
    }

    /// Runs `work` with the caller bound to the core that it is on.
    pub fn pinned<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = {
            let mut table = self.table.lock();
            table.set_affinity(here(), Some(here() as u8))
        };
        let result = work();
        let mut table = self.table.lock();
        table.set_affinity(here(), before);
        drop(table);
        result
    }

    /// Runs `work` without preemption: interrupts are handled, but no other thread runs on this
    /// core. `work` must not block. May be called in any context.
    pub fn unpreempted<R>(&self, work: impl FnOnce() -> R) -> R {
        hold::begin();
        let result = work();
        if hold::end() {
            self.run_postponed();
        }
        result
    }

    /// Performs the postponed preemption: here, or as soon as interrupts are unmasked.
    fn run_postponed(&self) {
        if !cpu::irqs_on() {
            return timer::set(cpu::clock());
        }
        let mut table = self.table.lock();
        let now = cpu::clock();
        if table.should_preempt(here(), now) {
            table.requeue_current(here(), now);
            drop(self.switch_away(table));
        } else {
            self.announce(&mut table);
        }
    }

    /// Lets other threads of the same priority run.
    pub fn yield_now(&self) {
        let mut table = self.table.lock();
        if table.has_ready(here()) {
            table.yield_current(here());
            drop(self.switch_away(table));
        }
    }

    /// Sleeps until soc time `deadline`.
    pub fn sleep_until(&self, deadline: u64) {
        self.sleep(Deadline::Firm(deadline));
    }

    /// Sleeps until `deadline`.
    pub fn sleep(&self, deadline: Deadline) {
        while time::soc_time() < deadline.at() {
            let mut table = self.table.lock();
            debug_assert_eq!(arch::lock::held(), 1, "a thread blocks without locks");
            if table.sleep_current(here(), deadline) {
                drop(self.switch_away(table));
            }
        }
    }

    /// Wakes a thread or, if it is not blocked, leaves it a permit. May be called in any context.
    pub fn wake(&self, id: ThreadId) {
        let mut table = self.table.lock();
        table.wake(id, here(), cpu::clock());
        self.announce(&mut table);
    }

    /// See [`Table::defers`].
    pub fn defer(&self) {
        self.table.lock().defers = true;
    }

    /// See [`Table::mark_upkeep`].
    pub fn mark_upkeep(&self) {
        self.table.lock().mark_upkeep(here());
    }

    /// Returns whether another thread is ready to run on this core.
    pub fn has_ready(&self) -> bool {
        self.table.lock().has_ready(here())
    }

    /// Looks at the threads.
    pub fn look<R>(&self, look: impl FnOnce(&Table) -> R) -> R {
        look(&self.table.lock())
    }

    /// Reports that the soc clock was adjusted: every core sets its timer again.
    pub fn clock_changed(&self) {
        let mut table = self.table.lock();
        table.clock_changed(here());
        self.announce(&mut table);
    }

    /// Must follow every transition: interrupts other cores that must reschedule, and sets this
    /// core's timer.
    fn announce(&self, table: &mut Table) {
        kick(table);
        match table.rearm(here(), time::soc_to_ticks) {
            Some(u64::MAX) => timer::stop(),
            Some(ticks) => timer::set(ticks),
            None => {}
        }
    }

    /// To be called after any interrupt, with interrupts masked: wakes sleepers and preempts the
    /// interrupted thread if necessary. Returns when that thread runs again.
    pub fn on_interrupt(&self, interrupt: Interrupt) {
        let mut table = self.table.lock();
        let (core, now) = (here(), cpu::clock());
        if interrupt == Interrupt::Timer {
            table.timer_fired(core);
            table.expire(core, time::soc_time(), now);
        }
        if table.should_preempt(core, now) {
            if hold::postpone() {
                kick(&mut table);
                return table.postponed(core, now, cpu::clock_hz(), timer::set);
            }
            // Another core that continues the thread could not.
            cache::complete();
            table.requeue_current(core, now);
            drop(self.switch_away(table));
        } else if matches!(interrupt, Interrupt::Timer | Interrupt::Core(RESCHEDULE)) {
            self.announce(&mut table);
        }
    }

    /// Switches away from the running thread, whose phase is already set. Returns when it runs
    /// again, perhaps on another core, with the lock that the thread that switched here was
    /// holding.
    fn switch_away<'a>(&self, mut table: Guard<'a, Table>) -> Guard<'a, Table> {
        debug_assert!(!hold::is_held(), "unpreempted work does not block");
        let core = here();
        let from = table.current(core).index();
        let to = table.pick(core, cpu::clock());
        self.set_running(core, table.current(core));
        self.announce(&mut table);
        if from != to {
            self.contexts.switch(from, to);
        }
        table
    }

    #[inline]
    fn set_running(&self, core: usize, thread: ThreadId) {
        self.running[core].store(thread.token(), Ordering::Relaxed);
    }

    /// Ends the calling thread.
    pub fn exit(&self) -> ! {
        loop {
            cpu::irqs_off();
            let index = self.current().index();
            let mut table = self.table.lock();
            let (core, now) = (here(), cpu::clock());
            table.exit_current(core);
            self.joins[index].with_head(|head| while table.wake_first(head, core, now) {});
            drop(self.switch_away(table));
        }
    }

    /// Visits all live threads, without holding the lock during `visit`.
    pub fn for_each(&self, visit: &mut dyn FnMut(ThreadInfo)) {
        for index in 0..MAX_THREADS {
            let found = self.table.lock().at(index).map(|(id, entry)| (id, *entry));
            if let Some((id, entry)) = found {
                visit(ThreadInfo {
                    id,
                    name: entry.name,
                    state: entry.phase,
                    core: entry.core,
                    priority: entry.priority,
                    cpu_ns: to_ns(entry.ran),
                    switches: entry.switches,
                });
            }
        }
    }

    /// Returns the time in ns that a thread has run; 0 if it has ended.
    pub fn ran(&self, id: ThreadId) -> u64 {
        to_ns(self.table.lock().ran(id, cpu::clock()))
    }

    /// Returns the thread that runs on a core.
    pub fn running_on(&self, core: usize) -> ThreadId {
        self.table.lock().current(core)
    }

    /// Returns the top of a thread's stack; 0 if it has ended.
    pub fn stack_of(&self, id: ThreadId) -> usize {
        self.table.lock().get(id).map_or(0, |entry| entry.stack)
    }
}

impl FirstStep for Scheduler {
    type Threads = Table;

    fn lock(&self) -> &Lock<Table> {
        &self.table
    }

    fn run_current(&self) -> ! {
        let (entry, argument) = {
            let table = self.table.lock();
            let id = table.current(here());
            table.get(id).map_or((finished as fn(usize), 0), |entry| entry.start)
        };
        cpu::irqs_restore(true);
        entry(argument);
        self.exit()
    }
}

fn finished(_: usize) {}

/// Interrupts other cores that must reschedule.
fn kick(table: &mut Table) {
    let kicks = table.take_kicks();
    kicks.into_iter().for_each(|core| arch::irq::send_core(CoreId(core as u8), RESCHEDULE));
}

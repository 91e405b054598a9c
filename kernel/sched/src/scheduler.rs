//! The scheduler: the thread table behind its one lock, and what touches the machine.
//!
//! Slices and run times are ticks of the local clock, deadlines are chip time until the moment a
//! timer is armed: when the chip-wide clock is set, nothing but the timers is wrong. A timer is
//! armed only for a sleeper or for a thread that waits for the running one to make room. A switch
//! happens with the lock held; whoever comes releases it, each thread with the guard in its own
//! frame, a new one in its first step.

use crate::MAX_THREADS;
use crate::raw::Contexts;
use crate::table::{New, Phase, Table, ThreadId};
use crate::wait::WaitQueue;
use alloc::boxed::Box;
use arch::lock::{Guard, Lock, Rank};
use arch::types::Interrupt;
use arch::{cpu, hold, time, timer};
use base::id::CoreId;
use base::port::Stacks;
use core::sync::atomic::{AtomicU64, Ordering};

/// Behind everything that may wake a thread.
pub const RANK: Rank = Rank::leaf(200, "scheduler");
/// Kind of core-to-core interrupt that means "look at your run queue".
const RESCHEDULE: u8 = 0;
/// Spare stacks kept for the next threads.
const KEEP_STACKS: usize = 8;

/// Why a thread was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnError {
    /// No memory for its stack.
    NoMemory,
    /// [`MAX_THREADS`] threads live.
    TooMany,
}

/// What an idle core does before its sleep, interrupts masked: false when there is something to do
/// after all. An interrupt ends the sleep, and is what comes next.
pub type BeforeSleep = fn() -> bool;

/// A living thread, for lists.
#[derive(Clone, Copy, Debug)]
pub struct ThreadInfo {
    /// Id.
    pub id: ThreadId,
    /// Name.
    pub name: &'static str,
    /// Phase.
    pub state: Phase,
    /// Core it runs on, or ran on last.
    pub core: u8,
    /// Priority.
    pub priority: u8,
    /// Nanoseconds it has run, as of its last switch.
    pub cpu_ns: u64,
    /// Times it came onto a core.
    pub switches: u64,
}

/// A core, for lists.
#[derive(Clone, Copy, Debug)]
pub struct CoreInfo {
    /// Switches of the threads that ran there last.
    pub switches: u64,
    /// Nanoseconds its idle thread has run.
    pub idle_ns: u64,
    /// Who runs.
    pub running: &'static str,
}

/// The scheduler of one kernel.
pub struct Scheduler {
    pub(crate) table: Lock<Table>,
    /// Of each core, the token of who runs there: written there, with the lock held.
    running: Box<[AtomicU64]>,
    contexts: Contexts,
    joins: Box<[WaitQueue]>,
    stacks: &'static (dyn Stacks + Sync),
    before_sleep: BeforeSleep,
    slice: u64,
}

fn to_ns(ticks: u64) -> u64 {
    (u128::from(ticks) * 1_000_000_000 / u128::from(cpu::clock_hz())) as u64
}

fn here() -> usize {
    cpu::core().index()
}

impl Scheduler {
    /// For `cores` cores; each joins with [`Scheduler::run`].
    pub fn new(cores: usize, stacks: &'static (dyn Stacks + Sync), before: BeforeSleep) -> Self {
        let table = Table::new(cores);
        let running = (0..cores).map(|core| AtomicU64::new(table.current(core).token()));
        Scheduler {
            running: running.collect(),
            table: Lock::new(RANK, table),
            contexts: Contexts::new(),
            joins: (0..MAX_THREADS).map(|_| WaitQueue::new()).collect(),
            stacks,
            before_sleep: before,
            slice: cpu::clock_hz() / (1_000_000_000 / crate::SLICE_NS),
        }
    }

    /// Makes the caller's flow this core's idle thread, for ever.
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
            table.requeue_current(here());
            drop(self.switch_away(table));
        } else {
            drop(table);
            if (self.before_sleep)() {
                cpu::wait();
            }
        }
        cpu::irqs_restore(true); // what pends is taken here, and may switch away
    }

    /// This core was off, and its timer with it.
    pub fn core_came_back(&self) {
        self.table.lock().timer_came(here());
    }

    /// A new thread, ready to run.
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
        let new = New { name, priority, affinity, start: (entry, argument), stack };
        let mut table = self.table.lock();
        let Some(id) = table.create(new, here()) else {
            drop(table);
            self.stacks.release(stack);
            return Err(SpawnError::TooMany);
        };
        self.contexts.prepare(id.index(), stack, self);
        self.settle(&mut table);
        Ok(id)
    }

    /// Waits until the thread has ended.
    pub fn join(&self, id: ThreadId) {
        self.wait(&self.joins[id.index()], || !self.is_alive(id));
        self.trim();
    }

    /// Gives back the stacks of ended threads that are more than the next ones need. Not for who
    /// ends or idles: it waits for other cores.
    pub fn trim(&self) {
        while let Some(stack) = self.surplus() {
            self.stacks.release(stack);
        }
    }

    fn surplus(&self) -> Option<usize> {
        let mut table = self.table.lock();
        if table.spare_stacks.len() > KEEP_STACKS { table.spare_stacks.pop() } else { None }
    }

    /// Stacks of ended threads that are kept for the next ones.
    pub fn spare_stacks(&self) -> usize {
        self.table.lock().spare_stacks.len()
    }

    /// Does it live?
    pub fn is_alive(&self, id: ThreadId) -> bool {
        self.table.lock().get(id).is_some()
    }

    /// The caller.
    pub fn current(&self) -> ThreadId {
        let on = cpu::irqs_off();
        let token = self.running[here()].load(Ordering::Relaxed);
        cpu::irqs_restore(on);
        ThreadId::from_token(token)
    }

    /// Keeps the caller on the core it is on while it does `work`.
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

    /// Does `work` without giving its core to another thread: it may be interrupted, and must not
    /// block. Any context.
    pub fn unpreempted<R>(&self, work: impl FnOnce() -> R) -> R {
        hold::begin();
        let result = work();
        if hold::end() {
            self.make_room();
        }
        result
    }

    /// Gives the core to whoever was put off, here or as soon as interrupts are unmasked.
    fn make_room(&self) {
        if !cpu::irqs_on() {
            return timer::set(cpu::clock());
        }
        let mut table = self.table.lock();
        if table.should_preempt(here(), cpu::clock()) {
            table.requeue_current(here());
            drop(self.switch_away(table));
        } else {
            self.settle(&mut table);
        }
    }

    /// Lets others of the same priority run.
    pub fn yield_now(&self) {
        let mut table = self.table.lock();
        if table.has_ready(here()) {
            table.requeue_current(here());
            drop(self.switch_away(table));
        }
    }

    /// Blocks until woken; returns at once when it was woken since it last blocked.
    pub fn park(&self) {
        let mut table = self.table.lock();
        debug_assert_eq!(arch::lock::held(), 1, "a thread blocks without locks");
        if table.block_current(here()) {
            drop(self.switch_away(table));
        }
    }

    /// Sleeps until `deadline` on the chip-wide clock.
    pub fn sleep_until(&self, deadline: u64) {
        while time::soc_time() < deadline {
            let mut table = self.table.lock();
            debug_assert_eq!(arch::lock::held(), 1, "a thread blocks without locks");
            if table.sleep_current(here(), deadline) {
                drop(self.switch_away(table));
            }
        }
    }

    /// Waits in `queue` until `done`. Whoever makes it true wakes the queue afterwards.
    pub fn wait(&self, queue: &WaitQueue, done: impl FnMut() -> bool) {
        self.wait_until(queue, None, done);
    }

    /// [`Scheduler::wait`], until `deadline` on the chip-wide clock at most; was it done?
    pub fn wait_until(
        &self,
        queue: &WaitQueue,
        deadline: Option<u64>,
        mut done: impl FnMut() -> bool,
    ) -> bool {
        loop {
            if done() {
                return true;
            }
            if deadline.is_some_and(|deadline| time::soc_time() >= deadline) {
                return false;
            }
            self.enqueue(queue, deadline);
            let now_done = done();
            self.block_in(queue, !now_done);
            if now_done {
                return true;
            }
        }
    }

    /// The caller is in `queue` from here on, and says in [`Scheduler::block_in`] whether it waits:
    /// whoever wakes the queue behind this wakes it. Under the lock of what it waits for nothing
    /// can change between its look and this.
    pub fn enqueue(&self, queue: &WaitQueue, deadline: Option<u64>) {
        let mut table = self.table.lock();
        queue.with_head(|head| table.prepare_wait(here(), head, deadline));
    }

    /// Waits in the queue, if it `sleeps`, until woken or until the deadline at most; then it is in
    /// the queue no more.
    pub fn block_in(&self, queue: &WaitQueue, sleeps: bool) {
        let mut table = self.table.lock();
        debug_assert_eq!(arch::lock::held(), 1, "a thread blocks without locks");
        if sleeps && table.block_current(here()) {
            table = self.switch_away(table);
        }
        queue.with_head(|head| table.cancel_wait(here(), head));
    }

    /// Wakes a thread, or leaves it a permit. Any context.
    pub fn wake(&self, id: ThreadId) {
        let mut table = self.table.lock();
        table.wake(id, here());
        self.settle(&mut table);
    }

    pub(crate) fn wake_first(&self, queue: &WaitQueue) -> bool {
        let mut table = self.table.lock();
        let somebody = queue.with_head(|head| table.wake_first(head, here()));
        self.settle(&mut table);
        somebody
    }

    /// The chip-wide clock was set: every core arms its timer again.
    pub fn clock_changed(&self) {
        let mut table = self.table.lock();
        table.clock_changed(here());
        self.settle(&mut table);
    }

    /// After every change: tells the other cores that must look, and this one by its timer.
    fn settle(&self, table: &mut Table) {
        for core in table.take_kicks() {
            arch::irq::send_core(CoreId(core as u8), RESCHEDULE);
        }
        match table.rearm(here(), time::soc_to_ticks) {
            Some(u64::MAX) => timer::stop(),
            Some(ticks) => timer::set(ticks),
            None => {}
        }
    }

    /// After any interrupt, interrupts masked: wakes sleepers, and gives the core to whoever should
    /// have it now. Returns when the interrupted thread has it again.
    pub fn on_interrupt(&self, interrupt: Interrupt) {
        let mut table = self.table.lock();
        let core = here();
        if interrupt == Interrupt::Timer {
            table.timer_came(core);
            table.expire(core, time::soc_time());
        }
        if table.should_preempt(core, cpu::clock()) {
            if !hold::postpone() {
                table.requeue_current(core);
                drop(self.switch_away(table));
            }
        } else if matches!(interrupt, Interrupt::Timer | Interrupt::Core(RESCHEDULE)) {
            self.settle(&mut table);
        }
    }

    /// Leaves the running thread, whose phase says how; returns when it runs again, perhaps on
    /// another core, with the lock that whoever switched here has held.
    fn switch_away<'a>(&self, mut table: Guard<'a, Table>) -> Guard<'a, Table> {
        debug_assert!(!hold::is_held(), "unpreempted work does not block");
        let core = here();
        let from = table.current(core).index();
        let to = table.pick(core, cpu::clock(), self.slice);
        self.running[core].store(table.current(core).token(), Ordering::Relaxed);
        self.settle(&mut table);
        if from != to {
            self.contexts.switch(from, to);
        }
        table
    }

    /// What a new thread runs. The lock was released and interrupts are masked.
    pub(crate) fn run_current(&self) -> ! {
        let (entry, argument) = {
            let table = self.table.lock();
            let id = table.current(here());
            table.get(id).map_or((finished as fn(usize), 0), |entry| entry.start)
        };
        cpu::irqs_restore(true);
        entry(argument);
        self.exit()
    }

    /// Ends the caller.
    pub fn exit(&self) -> ! {
        loop {
            cpu::irqs_off();
            let index = self.current().index();
            let mut table = self.table.lock();
            table.exit_current(here());
            while self.joins[index].with_head(|head| table.wake_first(head, here())) {}
            drop(self.switch_away(table));
        }
    }

    /// Visits all living threads, without holding the lock meanwhile.
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

    /// Nanoseconds that a thread has run so far; 0 for one that has ended.
    pub fn ran(&self, id: ThreadId) -> u64 {
        to_ns(self.table.lock().ran(id, cpu::clock()))
    }

    /// Who runs on a core.
    pub fn running_on(&self, core: usize) -> ThreadId {
        self.table.lock().current(core)
    }

    /// The top of a thread's stack; 0 for one that has ended.
    pub fn stack_of(&self, id: ThreadId) -> usize {
        self.table.lock().get(id).map_or(0, |entry| entry.stack)
    }

    /// What a core does.
    pub fn core_info(&self, core: usize) -> CoreInfo {
        let (switches, idle, running) = self.table.lock().core_info(core, cpu::clock());
        CoreInfo { switches, idle_ns: to_ns(idle), running }
    }
}

fn finished(_: usize) {}

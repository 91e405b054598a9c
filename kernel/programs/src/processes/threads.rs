//! The threads of a process.
//!
//! ```text
//!   main thread: begin --> `Threads::with` ... end of the program --> `await_end` --> Ended
//!   thread-spawn: `spawn` --> stack, record --> `lives::enter`: the engine runs it --> removed
//!                                                      \--> exit, trap, signal: `end_with`
//! ```
//! Contract: the process ends as its first thread does that ends it: by `proc_exit`, by a trap, or
//! the main thread by returning. Then all others are stopped as by a signal, wherever they are: in
//! a call, waiting for each other, or computing. The main thread outlives them, and only then
//! closes the files of the process and reports its end. A kernel has room for [`MOST`] threads
//! besides the main ones, and one tree gets at most half of them.

use super::{LocalProcess, Processes};
use crate::programs::has_room_to_begin;
use crate::programs::stack::Stack;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::lock::{Lock, Once};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use kernel_engine::{End, Start, Waited};
use kernel_light::Place;
use kernel_node::ranks;
use kernel_process::Interrupted;
use kernel_sched::{PRIORITY_PROGRAM, Scheduler, ThreadId, WaitQueue};
use kernel_services::kernel::Kernel;

/// Most threads of a kernel's programs, besides the main threads.
const MOST: usize = 128;
/// Most threads of a process, besides its main thread.
const MOST_OF_PROCESS: usize = 63;
/// Most descriptors that the threads of a tree may wait for, besides its main threads, whose polls
/// are bounded by the handles of the tree. The file service then has places left for other trees.
const MOST_POLLED: u32 = 2048;
/// The highest number of a thread, as wasi-threads has it.
pub const LAST: u32 = 0x1fff_ffff;

/// A thread of a process.
pub struct Thread {
    /// Its number in the process; 0: the main thread.
    pub number: u32,
    /// The scheduler's token; 0 until it runs.
    token: AtomicU64,
    /// The stack frames of its program are below this address.
    base: AtomicU64,
    /// It, while it waits for a time, or at an address.
    asleep: WaitQueue,
    /// Its wait at an address has been notified.
    is_notified: AtomicBool,
    /// Its place in the process ([`Place`]).
    place: AtomicU8,
    /// It has entered the process's turn ([`super::turns`]).
    pub(super) is_inside: AtomicBool,
}

impl Thread {
    pub fn new(number: u32) -> Arc<Thread> {
        Arc::new(Thread {
            number,
            token: AtomicU64::new(0),
            base: AtomicU64::new(0),
            asleep: WaitQueue::new(),
            is_notified: AtomicBool::new(false),
            place: AtomicU8::new(0),
            is_inside: AtomicBool::new(false),
        })
    }

    /// Returns its place in the process.
    pub fn place(&self) -> Place {
        Place(self.place.load(Ordering::Relaxed))
    }

    /// Records that the calling thread is this one.
    pub fn is_me(&self, scheduler: &Scheduler) {
        self.token.store(scheduler.current().token(), Ordering::Release);
    }

    /// Records that the frames of its program are below this address.
    pub fn set_base(&self, base: u64) {
        self.base.store(base, Ordering::Relaxed);
    }

    pub fn base(&self) -> u64 {
        self.base.load(Ordering::Relaxed)
    }

    /// Sleeps until `deadline`, or until `is_over`.
    pub fn sleep(&self, scheduler: &Scheduler, deadline: u64, is_over: impl FnMut() -> bool) {
        scheduler.wait_until(&self.asleep, Some(deadline), is_over);
    }

    /// Returns its core time in ns.
    pub fn ran(&self, scheduler: &Scheduler) -> u64 {
        match self.token.load(Ordering::Acquire) {
            0 => 0,
            token => scheduler.ran(ThreadId::from_token(token)),
        }
    }

    fn wake(&self, scheduler: &Scheduler) {
        match self.token.load(Ordering::Acquire) {
            0 => {}
            token => scheduler.wake(ThreadId::from_token(token)),
        }
    }
}

/// A thread that waits at an address.
struct Waiter {
    address: u64,
    thread: Arc<Thread>,
}

/// The threads of one process.
pub struct Threads {
    /// Those that exist; the main thread first, if it is one of them.
    all: Lock<Vec<Arc<Thread>>>,
    has_main: bool,
    /// Those that wait at an address, in the order in which they came.
    waiting: Lock<Vec<Waiter>>,
    /// The number of the last one that was started, without a turn.
    last: AtomicU32,
    /// Descriptors that those besides the main thread wait for.
    polled: AtomicU32,
    /// Core time in ns of those that have ended.
    past: AtomicU64,
    /// Where the main thread waits for the end of all others.
    left: WaitQueue,
    /// How the program ends.
    end: Once<End>,
}

impl Threads {
    /// The threads of a process that begins with its main thread.
    pub fn with(main: Arc<Thread>) -> Threads {
        Threads::of(Vec::from([main]), true)
    }

    /// The light threads of a process whose main thread is on another kernel.
    pub fn without_main() -> Threads {
        Threads::of(Vec::new(), false)
    }

    fn of(all: Vec<Arc<Thread>>, has_main: bool) -> Threads {
        Threads {
            all: Lock::new(ranks::THREADS, all),
            has_main,
            waiting: Lock::new(ranks::WAITERS, Vec::new()),
            last: AtomicU32::new(0),
            polled: AtomicU32::new(0),
            past: AtomicU64::new(0),
            left: WaitQueue::new(),
            end: Once::new(),
        }
    }

    /// Returns the thread with this token, if it is one of them. From any context that holds no
    /// lock.
    pub fn find(&self, token: u64) -> Option<Arc<Thread>> {
        let all = self.all.lock();
        all.iter().find(|thread| thread.token.load(Ordering::Relaxed) == token).cloned()
    }

    pub fn main(&self) -> Option<Arc<Thread>> {
        self.all.lock().first().cloned()
    }

    /// Returns whether the main thread is one of them.
    pub fn have_main(&self) -> bool {
        self.has_main
    }

    /// Returns how many there are besides the main thread.
    fn others(&self) -> usize {
        self.all.lock().len().saturating_sub(self.has_main.into())
    }

    /// Returns whether the program has ended.
    pub fn have_end(&self) -> bool {
        self.end.get().is_some()
    }

    /// Records how the program ends, unless it has ended before. Returns whether other threads must
    /// be stopped now.
    pub fn set_end(&self, end: End) -> bool {
        self.end.set(end).is_ok() && self.others() > 0
    }

    /// Waits until the main thread, the caller, is the only one. Returns how the program has ended.
    pub fn await_end(&self, scheduler: &Scheduler) -> End {
        scheduler.wait(&self.left, || self.others() == 0);
        self.end.get().cloned().unwrap_or(End::Return)
    }

    /// Wakes all, to notice that they must end.
    pub fn wake(&self, scheduler: &Scheduler) {
        self.all.lock().iter().for_each(|thread| thread.wake(scheduler));
    }

    /// Returns the core time of all in ns.
    pub fn ran(&self, scheduler: &Scheduler) -> u64 {
        let all = self.all.lock();
        let now: u64 = all.iter().map(|thread| thread.ran(scheduler)).sum();
        now.saturating_add(self.past.load(Ordering::Relaxed))
    }

    fn add(&self, thread: &Arc<Thread>) -> bool {
        let mut all = self.all.lock();
        let has_room = all.len() <= MOST_OF_PROCESS && all.try_reserve(1).is_ok();
        if has_room {
            let is_free = |place: &u8| all.iter().all(|other| other.place().0 != *place);
            thread.place.store((0..=u8::MAX).find(is_free).unwrap_or(0), Ordering::Relaxed);
            all.push(thread.clone());
        }
        has_room
    }

    /// Adds core time in ns that the process had on another kernel.
    pub fn have_run(&self, ns: u64) {
        self.past.fetch_add(ns, Ordering::Relaxed);
    }

    /// Removes a thread that has ended.
    pub fn remove(&self, scheduler: &Scheduler, thread: &Arc<Thread>) {
        let mut all = self.all.lock();
        self.past.fetch_add(thread.ran(scheduler), Ordering::Relaxed);
        all.retain(|other| !Arc::ptr_eq(other, thread));
        drop(all);
        self.left.wake_all(scheduler);
    }

    /// Waits at an address until notified, `is_over`, or a time.
    pub fn wait_at(
        &self,
        scheduler: &Scheduler,
        me: &Arc<Thread>,
        (address, is_expected): (u64, &dyn Fn() -> bool),
        deadline: Option<u64>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Waited, Interrupted> {
        me.is_notified.store(false, Ordering::Relaxed);
        let mut waiting = self.waiting.lock();
        // A thread that changes the value notifies afterwards, which takes this lock. Without
        // memory for the list, the program looks again.
        if !is_expected() || waiting.try_reserve(1).is_err() {
            return Ok(Waited::Unexpected);
        }
        waiting.push(Waiter { address, thread: me.clone() });
        drop(waiting);
        let is_notified = || me.is_notified.load(Ordering::Acquire);
        scheduler.wait_until(&me.asleep, deadline, || is_notified() || is_over());
        let mut waiting = self.waiting.lock();
        waiting.retain(|waiter| !Arc::ptr_eq(&waiter.thread, me));
        match (is_notified(), is_over()) {
            (_, true) => Err(Interrupted),
            (true, _) => Ok(Waited::Notified),
            _ => Ok(Waited::TimedOut),
        }
    }

    /// Wakes up to `count` threads that wait at an address. Returns how many.
    pub fn notify(&self, scheduler: &Scheduler, address: u64, count: u32) -> u32 {
        let mut woken = 0;
        self.waiting.lock().retain(|waiter| {
            let is_next = waiter.address == address && woken < count;
            if is_next {
                woken += 1;
                waiter.thread.is_notified.store(true, Ordering::Release);
                waiter.thread.asleep.wake_all(scheduler);
            }
            !is_next
        });
        woken
    }
}

/// A thread that is about to begin.
pub struct Beginning {
    pub life: Arc<LocalProcess>,
    pub thread: Arc<Thread>,
    pub start: Start,
    pub number: u32,
    /// Its stack, until it is on it.
    pub stack: Option<Stack>,
}

/// Starts a thread of process `life`, with this number or the next one. Returns its number, or
/// `None` if there cannot be another one.
pub fn spawn(
    kernel: &'static Kernel,
    processes: &'static Processes,
    life: &Arc<LocalProcess>,
    start: Start,
    number: Option<u32>,
) -> Option<u32> {
    if !has_room_to_begin() {
        return None;
    }
    let stack = Stack::get().ok()?;
    let number = number.or_else(|| next_number(life))?;
    let thread = Thread::new(number);
    if !life.threads.add(&thread) {
        return None;
    }
    let light = life.turn.get().filter(|_| life.is_satellite());
    if let Some(turn) = light {
        turn.thread_begins();
    }
    let give_up = || {
        life.threads.remove(&kernel.scheduler, &thread);
        if let Some(turn) = light {
            turn.thread_ended(kernel);
        }
    };
    // Of several that begin at once, some may see all others and fail needlessly.
    if !is_allowed(processes, life) {
        give_up();
        return None;
    }
    let place = processes.started.fetch_add(1, Ordering::Relaxed) as usize;
    let (me, stack) = (thread.clone(), Some(stack));
    let beginning = Beginning { life: life.clone(), thread: me, start, number, stack };
    put(processes, place, beginning);
    if kernel.scheduler.spawn("program", PRIORITY_PROGRAM, None, processes.enter, place).is_err() {
        drop(take(processes, place));
        give_up();
        return None;
    }
    Some(number)
}

fn next_number(life: &LocalProcess) -> Option<u32> {
    if let Some(turn) = life.turn.get() {
        return turn.next_thread(LAST);
    }
    let next = |last| if last < LAST { Some(last + 1) } else { None };
    let last = life.threads.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
    Some(last + 1)
}

fn put(processes: &Processes, place: usize, beginning: Beginning) {
    let before = processes.beginning.lock().insert(place, beginning);
    drop(before);
}

/// Removes a beginning.
pub fn take(processes: &Processes, place: usize) -> Option<Beginning> {
    processes.beginning.lock().remove(&place)
}

/// Counts a poll of a thread besides the main one, as long as it exists.
pub struct Polled {
    life: Arc<LocalProcess>,
    count: u32,
}

impl Drop for Polled {
    fn drop(&mut self) {
        self.life.threads.polled.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// Returns what counts a poll by thread `me` of process `life`, or `None` if the tree waits for too
/// many descriptors.
pub fn poll(
    processes: &Processes,
    life: &Arc<LocalProcess>,
    me: &Arc<Thread>,
    polls: usize,
) -> Option<Polled> {
    let is_main = life.threads.main().is_some_and(|main| Arc::ptr_eq(&main, me));
    let count = if is_main { 0 } else { polls as u32 };
    life.threads.polled.fetch_add(count, Ordering::Relaxed);
    let polled = Polled { life: life.clone(), count };
    let of_tree = |other: &LocalProcess| other.threads.polled.load(Ordering::Relaxed);
    (count == 0 || sum_of_tree(processes, life, of_tree) <= MOST_POLLED).then_some(polled)
}

/// Returns a sum over all processes of the tree of `life` that this kernel runs.
fn sum_of_tree(
    processes: &Processes,
    life: &LocalProcess,
    count: impl Fn(&LocalProcess) -> u32,
) -> u32 {
    let tree = life.quota().tree.owner;
    let living = processes.living.lock();
    living.values().filter(|other| other.quota().tree.owner == tree).map(|other| count(other)).sum()
}

/// Returns whether the kernel, and the tree of the process, may have the threads that they have.
fn is_allowed(processes: &Processes, life: &LocalProcess) -> bool {
    let all: usize = processes.living.lock().values().map(|other| other.threads.others()).sum();
    let own = sum_of_tree(processes, life, |other| other.threads.others() as u32);
    all <= MOST && own as usize <= MOST / 2
}

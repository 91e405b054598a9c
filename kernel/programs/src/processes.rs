//! The processes that run in this kernel. The table of all processes is a service
//! (`services/processes`, docs/design/processes.md); a thread of this kernel takes work from it:
//!
//! ```text
//!   listen: Next --> Begin: start it --> its thread --> Begun ... Ended
//!                \-> Stop: deliver the signal to the process's thread
//!                \-> Group: record the group, for a table that restarts
//!                \-> Move: the process leaves for another kernel as soon as it can
//!                \-> Restarted: report all processes of this kernel to the table
//! ```
//! A signal ends a process. If it waits in a call, the call is interrupted. If it computes, it is
//! **diverted** after the next interrupt of its core: it continues in the program's *way out*, a
//! function that traps, either at once or on return from the function that its code has called
//! (docs/design/programs.md, "Stopping a program"). An interrupt may come where neither is
//! possible, so `listen` interrupts the cores repeatedly until the process has ended.
//!
//! - [`start`]: how one starts, also without the table's Next; [`begin`]: its life, to its end
//! - `moves`: to and from other kernels; `passage`: what passes
//! - [`guest`]: what programs can call; its parts are [`pipes`], [`sockets`] and [`channels`]
//! - [`threads`]: the threads of a process; [`lives`]: what they do
//! - [`tasks`], [`descriptors`]: lists of all threads, and of what processes have open
//! - [`light`]: threads on the weak kernel; [`turns`]: whose turn it is; [`forget`]: after a death
//! - [`launch`]: processes that the system starts; `place`: which kernel runs a new process;
//!   `explain`: what the table's errors mean; `full`: what those of sockets mean
//! - `faults`: what follows if a page of a process is not there
//! - [`children`]: the children that a process has started; `ends`: how one has ended, as numbers
//! - [`accounts`], [`reports`]: to the table what processes use, and to a new one which there are

mod accounts;
mod begin;
mod channels;
mod children;
pub mod descriptors;
mod ends;
mod explain;
mod faults;
pub mod forget;
mod full;
mod guest;
pub mod launch;
pub mod light;
mod lives;
mod moves;
mod passage;
pub mod pipes;
mod place;
mod reports;
mod sockets;
mod start;
pub mod tasks;
mod threads;
pub mod turns;

use crate::lights::turn::Turn;
use crate::programs::{Loaded, Programs};
use ::processes::client::{Client, News};
use ::processes::name;
use abi::moves::Image;
use abi::process::{End, Errno, NAME, Reply, Request, signal};
use abi::program::BEGIN_BYTES;
use abi::quota::Quota;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use arch::lock::{Lock, Once};
use arch::trap::TrapFrame;
use children::Children;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub use explain::{explain, explain_move};
pub use faults::{lent_is_gone, ran_short};
use guest::Guest;
use kernel_engine::Limits;
use kernel_msg::Level;
use kernel_node::shootdown;
use kernel_process::Process;
use kernel_sched::{PRIORITY_SERVE, ThreadId, WaitQueue};
use kernel_services::kernel::Kernel;
use kernel_services::services::{Patience, ServiceFailure};
use kernel_services::session::Session;
use moves::Journey;
pub use moves::move_to;
use pipes::{Census, Pipes};
pub use place::{describe, lacking};
use start::Startup;
use threads::{Beginning, Thread, Threads};

/// A program that this kernel has loaded.
type Program = Arc<Loaded<Guest>>;

/// What the threads of a process run.
pub struct Running {
    pub loaded: Program,
    pub process: Arc<Process>,
    pub limits: Limits,
}

impl Running {
    /// What the engine needs of it for each thread.
    fn given(&self) -> (Arc<Process>, Limits) {
        (self.process.clone(), self.limits)
    }
}

/// A process of this kernel. It exists as long as the process's main thread.
pub struct LocalProcess {
    pub pid: u32,
    pub parent: u32,
    /// The group that the table last reported.
    group: AtomicU32,
    /// Its name in the table.
    name: [u8; NAME],
    startup: Startup,
    /// The signal that ends it; 0 if there is none.
    stop: AtomicU32,
    threads: Threads,
    /// Faults on pages that there was no memory for. If there are any, the process ends for that
    /// reason.
    short: AtomicU32,
    /// What it runs; unset until that is loaded.
    running: Once<Running>,
    /// Number of requests to services.
    messages: AtomicU64,
    /// Peak memory in bytes.
    memory: AtomicU64,
    /// The words of its [`Quota`].
    quota: [AtomicU64; 2],
    /// The life that watches it (`abi::process::pack_life`); 0: none does.
    watcher: u32,
    /// Its children, as far as it has not waited for them.
    children: Children,
    /// How it has ended. Set before it leaves [`Processes::living`].
    ended: Once<(End, u32)>,
    /// Its turn, if its program may start light threads.
    turn: Once<Arc<Turn>>,
    /// Open files with its program for other kernels, if it has light threads or can move.
    images: Once<Vec<Image>>,
    journey: Journey,
    explained: full::Explained,
}

/// A process that starts here, its parent and group, and the life that watches it.
#[derive(Clone, Copy)]
pub struct Ids {
    pub pid: u32,
    pub parent: u32,
    pub group: u32,
    pub watcher: u32,
}

impl LocalProcess {
    /// Makes a process that runs nothing yet.
    fn new(
        ids: Ids,
        name: [u8; NAME],
        threads: Threads,
        quota: Quota,
        startup: Startup,
    ) -> LocalProcess {
        LocalProcess {
            pid: ids.pid,
            parent: ids.parent,
            group: AtomicU32::new(ids.group),
            name,
            startup,
            stop: AtomicU32::new(0),
            threads,
            short: AtomicU32::new(0),
            running: Once::new(),
            messages: AtomicU64::new(0),
            memory: AtomicU64::new(0),
            quota: quota.words().map(AtomicU64::new),
            watcher: ids.watcher,
            children: Children::new(),
            ended: Once::new(),
            turn: Once::new(),
            images: Once::new(),
            journey: Journey::default(),
            explained: full::Explained::default(),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &[u8] {
        name::text(&self.name)
    }

    /// Returns whether it is this kernel's part of another kernel's process, with its light
    /// threads. The process table does not know of it.
    fn is_satellite(&self) -> bool {
        !self.threads.have_main()
    }

    /// Returns the quota that its handles and processes are charged to.
    fn quota(&self) -> Quota {
        Quota::of_words(self.quota.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    /// Sets the quota.
    fn set_quota(&self, quota: Quota) {
        let pairs = self.quota.iter().zip(quota.words());
        pairs.for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    /// Returns the open file with its program for an ISA.
    fn image(&self, isa: u32) -> Option<u64> {
        self.images.get()?.iter().find(|image| image.isa == isa).map(|image| image.handle)
    }

    fn stop_signal(&self) -> Option<u16> {
        let signal = self.stop.load(Ordering::Acquire) as u16;
        (signal != 0).then_some(signal)
    }

    /// Records the signal that ends the process. KILL stays.
    fn set_stop(&self, signal: u16) {
        let kept = |old| (old != u32::from(signal::KILL)).then_some(signal.into());
        let order = (Ordering::AcqRel, Ordering::Acquire);
        if self.stop.fetch_update(order.0, order.1, kept) == Ok(0) {
            STOPPING.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Drop for LocalProcess {
    fn drop(&mut self) {
        if *self.stop.get_mut() != 0 {
            STOPPING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Number of processes of this kernel that must end and have not ended yet.
static STOPPING: AtomicU32 = AtomicU32::new(0);

/// Returns whether a process of this kernel must end. May be called in any context.
#[inline]
pub fn any_must_end() -> bool {
    STOPPING.load(Ordering::Relaxed) != 0
}

/// The processes of this kernel.
pub struct Processes {
    /// The engine and its loaded programs.
    programs: Once<Programs<Guest>>,
    /// By process number.
    living: Lock<BTreeMap<u32, Arc<LocalProcess>>>,
    /// Those that have begun here, and that the table does not know.
    unnamed: Lock<Vec<Arc<LocalProcess>>>,
    /// Number of processes started so far.
    count: AtomicU32,
    /// Threads that wait for a change of `count`.
    some: WaitQueue,
    /// Threads that are about to begin, by the number of the start.
    beginning: Lock<BTreeMap<usize, Beginning>>,
    /// Number of threads started so far.
    started: AtomicU32,
    /// Where the scheduler's threads begin: the main one of a process, and others.
    main: fn(usize),
    enter: fn(usize),
    /// The scheduler's token of the thread that takes work from the table.
    listener: AtomicU64,
    /// Private pipes.
    pipes: Pipes,
    /// When this kernel last learnt that the table has restarted, in chip time; 0: never.
    restarted: AtomicU64,
}

static PROCESSES: Once<Box<Processes>> = Once::new();

/// Returns the processes of this kernel, or `None` before [`start`].
pub fn get() -> Option<&'static Processes> {
    PROCESSES.get().map(Box::as_ref)
}

/// Called at the end of an interrupt of a program, or of a function that it has called. If the
/// process must end, diverts it: sets the address to which the interrupt, or that function,
/// returns.
#[cold]
#[inline(never)]
pub fn divert(kernel: &Kernel, frame: &mut TrapFrame) {
    if let Some(processes) = get() {
        processes.divert(kernel, frame);
    }
}

impl Default for Processes {
    fn default() -> Self {
        Processes::new()
    }
}

impl Processes {
    /// Creates an empty set of processes. [`start`] starts the threads.
    pub fn new() -> Processes {
        let living = Lock::new(kernel_node::ranks::PROCESSES, BTreeMap::new());
        Processes {
            programs: Once::new(),
            living,
            unnamed: Lock::new(kernel_node::ranks::PROCESSES, Vec::new()),
            count: AtomicU32::new(0),
            some: WaitQueue::new(),
            beginning: Lock::new(kernel_node::ranks::PROCESSES, BTreeMap::new()),
            started: AtomicU32::new(0),
            main: begin::thread,
            enter: lives::enter,
            listener: AtomicU64::new(0),
            pipes: Pipes::new(),
            restarted: AtomicU64::new(0),
        }
    }

    /// Returns the engine, which the first call creates. Logs why it cannot be created.
    fn programs(&self, kernel: &'static Kernel) -> Option<&Programs<Guest>> {
        if let Some(programs) = self.programs.get() {
            return Some(programs);
        }
        match Programs::new(kernel) {
            // If two threads do this at once, the first engine is used.
            Ok(programs) => drop(self.programs.set(programs)),
            Err(why) => kernel_node::log!("no engine for programs: {}", why.0),
        }
        self.programs.get()
    }

    /// Returns what there is of private pipes.
    pub fn pipes(&self) -> Census {
        self.pipes.census()
    }

    fn life(&self, pid: u32) -> Option<Arc<LocalProcess>> {
        self.living.lock().get(&pid).cloned()
    }

    /// Returns the processes that this kernel runs, without its parts of those of other kernels.
    fn own(&self) -> impl Iterator<Item = Arc<LocalProcess>> + use<> {
        let living = self.living.lock();
        let here = living.iter().filter(|(key, _)| !moves::is_departing(**key));
        let all: Vec<_> = here.map(|(_, life)| life.clone()).collect();
        drop(living);
        all.into_iter().filter(|life| !life.is_satellite() && !life.journey.is_coming())
    }

    /// Delivers a signal to a process of this kernel: all its threads end.
    fn stop(&self, kernel: &Kernel, life: &LocalProcess, signal: u16) {
        life.set_stop(signal);
        life.threads.wake(&kernel.scheduler);
        shootdown::interrupt_cores();
        // It interrupts them again, until the process has ended.
        self.wake_listener(kernel);
    }

    /// Wakes the thread that takes work from the table.
    fn wake_listener(&self, kernel: &Kernel) {
        kernel.scheduler.wake(ThreadId::from_token(self.listener.load(Ordering::Acquire)));
    }

    fn has_unnamed(&self) -> bool {
        !self.unnamed.lock().is_empty()
    }

    /// Returns the calling thread and its process. From any context that holds no lock.
    fn mine(&self, kernel: &Kernel) -> Option<(Arc<LocalProcess>, Arc<Thread>)> {
        self.of_token(kernel.scheduler.current().token())
    }

    /// Records the group of a process of this kernel.
    fn regroup(&self, pid: u32, group: u32) {
        if let Some(life) = self.life(pid) {
            life.group.store(group, Ordering::Relaxed);
        }
    }

    fn divert(&self, kernel: &Kernel, frame: &mut TrapFrame) {
        let stopped = self.mine(kernel).filter(|(life, _)| life.stop_signal().is_some());
        let Some((life, thread)) = stopped else { return };
        let Some(Running { loaded: program, .. }) = life.running.get() else { return };
        match program.way_out(frame.pc()) {
            Some(way_out) => frame.set_pc(way_out),
            None => {
                let from = (frame.pc(), frame.fp());
                let stack = frame.sp()..thread.base();
                let of_programs = |pc| program.holds(pc);
                arch::backtrace::redirect(from, stack, &of_programs, &mut |pc| program.way_out(pc));
            }
        }
    }
}

/// Makes a request to the process table. A table that has restarted answers [`Errno::Restarted`].
pub fn ask(
    session: &Session,
    request: Request,
    bulk: &mut [u8],
    patience: &Patience<'_>,
) -> Result<Option<Reply>, ServiceFailure> {
    let table = &session.kernel.services.processes;
    match table.request_until(session, &request, bulk, patience) {
        Err(ServiceFailure::Restarted) => Ok(Some(Reply::error(Errno::Restarted))),
        other => other,
    }
}

/// Runs `work` with a client of the process table. Failures of the service become errors:
/// `Hostunreach` if the table's home does not answer, `Intr` when patience ends, else `Io`.
pub fn with_table<R>(
    session: &Session,
    patience: &Patience<'_>,
    work: impl FnOnce(&mut Client<'_>) -> Result<R, Errno>,
) -> Result<R, Errno> {
    work(&mut Client(&mut |request, bulk| match ask(session, request, bulk, patience) {
        Ok(Some(reply)) => reply,
        Ok(None) => Reply::error(Errno::Intr),
        Err(ServiceFailure::Home(_)) => Reply::error(Errno::Hostunreach),
        Err(_) => Reply::error(Errno::Io),
    }))
}

/// Thread: takes work from the process table. Does not return.
pub fn listen(_: usize) {
    let (Some(kernel), Some(processes)) = (kernel_services::kernel::get(), get()) else { return };
    let session = Session::at(kernel, Level(0));
    processes.listener.store(kernel.scheduler.current().token(), Ordering::Release);
    let mut room = vec![0; BEGIN_BYTES];
    let mut due = 0;
    loop {
        start::report_unnamed(&session, processes);
        let knows = any_must_end();
        let is_news = || any_must_end() && !knows || processes.has_unnamed();
        let mut patience = Patience::unless(&is_news).idle();
        if knows {
            let now = arch::time::soc_time();
            if now >= due {
                shootdown::interrupt_cores();
                due = now + STOP_NS;
            }
            patience = patience.until(due);
        }
        let news = with_table(&session, &patience, |table| table.next(&mut room));
        match news {
            Ok(News::Begin { pid, parent, group, quota, watcher, bytes }) => {
                let ids = Ids { pid, parent, group, watcher };
                start::requested(&session, processes, ids, quota, &room[..bytes]);
            }
            Ok(News::Stop { pid, signal }) => {
                if let Some(life) = moves::find(processes, pid) {
                    processes.stop(kernel, &life, signal);
                }
            }
            Ok(News::Group { pid, group }) => processes.regroup(pid, group),
            Ok(News::Move { pid, kernel: to }) => moves::call_away(&session, processes, pid, to),
            Err(Errno::Intr) if processes.has_unnamed() => {}
            // The processes that must end run at a lower priority than this thread. Sleeping leaves
            // them the core, even where a request to the table takes longer than STOP_NS.
            Err(Errno::Intr) => kernel.scheduler.sleep_until(arch::time::soc_time() + STOP_NS),
            Err(Errno::Restarted) => reports::name_all(&session, processes),
            Err(_) => {
                let pause = if any_must_end() { STOP_NS } else { AWAY_NS };
                kernel.scheduler.sleep_until(arch::time::soc_time() + pause);
            }
        }
    }
}

/// Interval at which cores are interrupted while a process must end.
const STOP_NS: u64 = 10_000_000;
/// Backoff when the table does not answer.
const AWAY_NS: u64 = 1_000_000_000;

/// Starts the threads that take work from the table and report to it.
pub fn start(kernel: &'static Kernel) {
    // Succeeds: only boot calls this.
    let _ = PROCESSES.set(Box::default());
    if kernel.spawn("processes", None, listen, 0).is_err() {
        kernel_node::log!("no memory for the thread that starts processes: no program can run");
    }
    let tends = || kernel.scheduler.spawn("turns", PRIORITY_SERVE, None, light::keep, 0);
    if kernel.peers.exist() && tends().is_err() {
        kernel_node::log!("no memory for the thread that tends light threads");
    }
    if kernel.peers.exist() && kernel.spawn("pipes", None, pipes::keep, 0).is_err() {
        kernel_node::log!("no memory for the thread that tends pipes of other kernels");
    }
    if kernel.spawn("accounts", None, accounts::keep, 0).is_err() {
        kernel_node::log!("no memory for the thread that reports what processes use");
    }
}

//! Processes that live in this kernel. The table of all is a service (`services/processes`); here
//! is what a kernel does for it:
//!
//! ```text
//!   listen: Next --> Begin: a thread for it --> `begin` --> Begun ... Ended
//!                \-> Stop: the signal to its thread, wherever that is
//!                \-> Group: kept, for a table that begins anew
//!                \-> Restarted: names all that live here
//! ```
//! A program sees a signal when it waits. One that runs goes on at its program's way out, behind
//! the next interrupt of its core, or comes back there from what it has called; `listen` sees to it
//! that there are some, for the first may find it where it can do neither.

mod accounts;
mod begin;
mod guest;
pub mod launch;
mod pipes;
mod place;

use crate::kernel::Kernel;
use crate::programs::{Loaded, Programs, Short, is_inside};
use crate::services::{Patience, ServiceFailure};
use crate::session::{Failure, Session};
use crate::shootdown;
use crate::shootdown::core_kind;
use ::processes::client::{Client, News, Running};
use abi::boot::MAX_CORES;
use abi::process::{Errno, Reply, Request, flag, signal};
use abi::program::BEGIN_BYTES;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use arch::lock::{Lock, Once};
use arch::trap::TrapFrame;
use base::id::CoreId;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use guest::Guest;
use kernel_msg::Level;
use kernel_sched::{ThreadId, WaitQueue};
use pipes::Pipes;
pub use place::place;

/// A process of this kernel, as long as its thread lives.
pub struct Life {
    pub pid: u32,
    pub parent: u32,
    /// As the table said last.
    group: AtomicU32,
    /// What the table knows it by.
    pub name: Vec<u8>,
    /// The signal that ends it; 0: none came.
    stop: AtomicU32,
    thread: AtomicU64,
    /// Frames of its program lie below this address.
    base: AtomicU64,
    /// Who sleeps in `poll_oneoff`.
    asleep: WaitQueue,
    /// Faults for which there was no memory any more: if there are any, that is why it ends.
    short: AtomicU32,
    /// What it runs.
    program: Once<Arc<Loaded<Guest>>>,
    /// Requests to services.
    messages: AtomicU64,
    /// Most bytes of memory.
    memory: AtomicU64,
}

impl Life {
    fn stop_signal(&self) -> Option<u16> {
        let signal = self.stop.load(Ordering::Acquire) as u16;
        (signal != 0).then_some(signal)
    }

    /// It is to end.
    fn told(&self, signal: u16) {
        if self.stop.swap(signal.into(), Ordering::AcqRel) == 0 {
            STOPPING.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if *self.stop.get_mut() != 0 {
            STOPPING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Processes of this kernel that are to end and have not.
static STOPPING: AtomicU32 = AtomicU32::new(0);

/// Is there any such process? Any context.
#[inline]
pub fn some_stop() -> bool {
    STOPPING.load(Ordering::Relaxed) != 0
}

/// There is no memory any more for the process of the calling thread. The fault handler's.
#[cold]
#[inline(never)]
pub fn ran_short(frame: &TrapFrame) -> Short {
    let by_program = is_inside(frame.pc());
    let found = crate::kernel::get().and_then(|kernel| get()?.mine(kernel));
    let Some(life) = found else { return Short::Kernel };
    let before = life.short.fetch_add(1, Ordering::Relaxed);
    match life.program.get() {
        _ if by_program => Short::Code,
        Some(program) if before >= MOST_SHORT => {
            let mut way_out = None;
            let from = (frame.pc(), frame.fp());
            arch::backtrace::frames(from, &|pc| program.holds(pc), &mut |pc| {
                way_out = way_out.or_else(|| program.way_out(pc));
            });
            way_out.map_or(Short::Kernel, Short::Much)
        }
        _ => {
            life.told(signal::KILL);
            arch::irq::send_core(arch::cpu::core(), core_kind::LOOK);
            Short::Kernel
        }
    }
}

/// Most faults that a kernel meets for a process without memory: more than any call has, and few
/// enough for all cores at once. The filling of memory has more.
const MOST_SHORT: u32 = 32;

/// All of this kernel.
pub struct Processes {
    /// What they run.
    programs: Once<Programs<Guest>>,
    living: Lock<BTreeMap<u32, Arc<Life>>>,
    /// Beginnings on their way from the listener to the processes' threads.
    begun: Lock<BTreeMap<u32, Vec<u8>>>,
    /// How many there were.
    count: AtomicU32,
    /// Who waits for that to change.
    some: WaitQueue,
    /// Pipes that only they know.
    pipes: Pipes,
}

static PROCESSES: Once<Box<Processes>> = Once::new();

/// Those of this kernel, from [`start`] on.
pub fn get() -> Option<&'static Processes> {
    PROCESSES.get().map(Box::as_ref)
}

/// An interrupt of a program, or of what it has called, is over: if its process is to end, it
/// goes on there, or comes back there.
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
    /// None, and nothing that listens.
    pub fn new() -> Processes {
        let living = Lock::new(crate::ranks::PROCESSES, BTreeMap::new());
        let begun = Lock::new(crate::ranks::PROCESSES, BTreeMap::new());
        let (count, some) = (AtomicU32::new(0), WaitQueue::new());
        Processes { programs: Once::new(), living, begun, count, some, pipes: Pipes::new() }
    }

    /// The engine, made when the first program wants it.
    fn programs(&self, kernel: &'static Kernel) -> Option<&Programs<Guest>> {
        if let Some(programs) = self.programs.get() {
            return Some(programs);
        }
        match Programs::new(kernel) {
            // Two at once: the first one stays.
            Ok(programs) => drop(self.programs.set(programs)),
            Err(why) => crate::log!("no engine for programs: {}", why.0),
        }
        self.programs.get()
    }

    /// Private pipes, and how many have left.
    pub fn pipes(&self) -> (usize, u64) {
        self.pipes.census()
    }

    /// For which cores the program `path` is.
    fn class(&self, session: &Session, directory: Option<u64>, path: &[u8]) -> Option<u32> {
        Programs::class(self.programs.get(), session, directory, path).ok()
    }

    fn life(&self, pid: u32) -> Option<Arc<Life>> {
        self.living.lock().get(&pid).cloned()
    }

    /// A signal for a process of this kernel.
    fn stop(&self, kernel: &Kernel, pid: u32, signal: u16) {
        let Some(life) = self.life(pid) else { return };
        life.told(signal);
        kernel.scheduler.wake(ThreadId::from_token(life.thread.load(Ordering::Acquire)));
        interrupt_cores();
    }

    /// The process of the calling thread. Any context of who holds no lock.
    fn mine(&self, kernel: &Kernel) -> Option<Arc<Life>> {
        let me = kernel.scheduler.current().token();
        let living = self.living.lock();
        living.values().find(|life| life.thread.load(Ordering::Relaxed) == me).cloned()
    }

    /// A process of this kernel is in another group.
    fn regroup(&self, pid: u32, group: u32) {
        if let Some(life) = self.life(pid) {
            life.group.store(group, Ordering::Relaxed);
        }
    }

    fn divert(&self, kernel: &Kernel, frame: &mut TrapFrame) {
        let stopped = self.mine(kernel).filter(|life| life.stop_signal().is_some());
        let Some(life) = stopped else { return };
        let Some(program) = life.program.get() else { return };
        match program.way_out(frame.pc()) {
            Some(way_out) => frame.set_pc(way_out),
            None => {
                let from = (frame.pc(), frame.fp());
                let stack = frame.sp()..life.base.load(Ordering::Relaxed);
                let of_programs = |pc| program.holds(pc);
                arch::backtrace::redirect(from, stack, &of_programs, &mut |pc| program.way_out(pc));
            }
        }
    }
}

/// Asks the process table.
pub fn ask(
    session: &Session,
    request: Request,
    bulk: &mut [u8],
    patience: &Patience<'_>,
) -> Result<Option<Reply>, ServiceFailure> {
    let table = &session.kernel.services.processes;
    match table.ask_patiently(session, request, bulk, patience) {
        Err(ServiceFailure::Restarted) => Ok(Some(Reply::error(Errno::Restarted))),
        other => other,
    }
}

/// Runs `work` with a client of the process table.
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

/// For people.
pub fn explain(why: Errno) -> Failure {
    Failure::Failed(match why {
        Errno::Again => "all places for processes are taken; end some first (`ps`, `kill PID`)",
        Errno::Srch | Errno::Child => "there is no such process; `ps` lists them",
        Errno::Noent => "there is no such program; `pen install` puts one into /bin",
        Errno::Noexec => "it is no program that runs here; the kernel's log says why",
        Errno::Nomem => "no memory for it there",
        Errno::Mfile => "its limit of descriptors is below what it begins with",
        Errno::Notcapable => {
            "a directory of its manifest is not there; the kernel's log says which"
        }
        Errno::Toobig => {
            "its arguments and environment are too long: at most 128 KiB together, and 3 KiB where \
             another kernel has the process table"
        }
        Errno::Hostunreach => "that kernel is not there",
        Errno::Restarted => "the process table began anew meanwhile; ask again",
        Errno::Inval => "that makes no sense",
        Errno::Perm => "that is not allowed",
        _ => "refused",
    })
}

/// Each core that runs gets an interrupt.
fn interrupt_cores() {
    for core in (0..MAX_CORES).filter(|&core| shootdown::is_online(core)) {
        arch::irq::send_core(CoreId(core as u8), core_kind::LOOK);
    }
}

/// Hears what this kernel is to do, for ever.
pub fn listen(_: usize) {
    let (Some(kernel), Some(processes)) = (crate::kernel::get(), get()) else { return };
    let session = Session::at(kernel, Level(0));
    let mut room = vec![0; BEGIN_BYTES];
    let mut due = 0;
    loop {
        let mut patience = Patience::IDLE;
        if some_stop() {
            let now = arch::time::soc_time();
            if now >= due {
                interrupt_cores();
                due = now + STOP_NS;
            }
            patience = patience.until(due);
        }
        let news = with_table(&session, &patience, |table| table.next(&mut room));
        match news {
            Ok(News::Begin { pid, parent, group, bytes }) => {
                begin::begin(&session, processes, (pid, parent, group), &room[..bytes]);
            }
            Ok(News::Stop { pid, signal }) => processes.stop(kernel, pid, signal),
            Ok(News::Group { pid, group }) => processes.regroup(pid, group),
            Err(Errno::Intr) => {}
            Err(Errno::Restarted) => name_all(&session, processes),
            Err(_) => {
                let pause = if some_stop() { STOP_NS } else { AWAY_NS };
                kernel.scheduler.sleep_until(arch::time::soc_time() + pause);
            }
        }
    }
}

/// How often a process that is to end is looked for.
const STOP_NS: u64 = 10_000_000;
/// Before a table that did not answer is asked again.
const AWAY_NS: u64 = 1_000_000_000;

/// The table began anew: it hears what runs here.
fn name_all(session: &Session, processes: &Processes) {
    let kernel = session.kernel;
    let all: Vec<_> = processes.living.lock().values().cloned().collect();
    for life in all {
        let watched = if life.parent == 0 { flag::WATCHED } else { 0 };
        let doomed = if life.stop_signal().is_some() { flag::KILLED } else { 0 };
        let running = Running {
            pid: life.pid,
            parent: life.parent,
            group: life.group.load(Ordering::Relaxed),
            kernel: kernel.me.0.into(),
            flags: watched | doomed,
            memory: life.memory.load(Ordering::Relaxed),
            name: &life.name,
        };
        if with_table(session, &Patience::ENDLESS, |table| table.adopt(running)).is_err() {
            crate::log!("process {}: the table that began anew does not take it", life.pid);
        }
    }
}

/// Begins to listen, and to tell.
pub fn start(kernel: &'static Kernel) {
    // Once: boot does.
    let _ = PROCESSES.set(Box::default());
    if kernel.spawn("processes", None, listen, 0).is_err() {
        crate::log!("no memory for the thread that begins processes");
    }
    if kernel.spawn("accounts", None, accounts::keep, 0).is_err() {
        crate::log!("no memory for the thread that tells what processes use");
    }
}

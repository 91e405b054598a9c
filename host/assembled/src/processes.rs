//! Processes without programs. As in a kernel on a board, one thread takes the tasks of the process
//! table, other threads start processes here themselves, each process has a thread of its own, and
//! a table that has lost its state gets a report of what runs here. A process sleeps for a moment,
//! or ends at once, with the status that its start data demand.
//!
//! Every request to the table goes into the history.

use crate::chip::Broken;
use crate::history::{self, Caller, Kind};
use crate::judge::bytes;
use crate::turn::control;
use abi::process::{End, Errno, Op, Reply, Request, flag};
use abi::quota::Quota;
use kernel_msg::Level;
use kernel_services::kernel::{self, Kernel};
use kernel_services::services::ServiceFailure;
use kernel_services::session::Session;
use processes::client::{Account, Client, Missed, News, Running, Spawn};
use processes::name;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Longest start data.
pub const START: usize = 600;
/// How long the thread waits after the table has failed, in ns.
const PAUSE: u64 = 1_000_000;
/// How long a process runs at most, in ns.
const LONGEST: u64 = 2_000_000;
/// Number of the serving thread among a kernel's callers; those of processes follow it.
const SERVER: u32 = 8;

/// A process of this kernel.
struct Process {
    pid: u32,
    parent: u32,
    group: AtomicU32,
    quota: Quota,
    status: u32,
    /// The signal that ends it, or 0.
    stop: AtomicU32,
    /// How it has ended. Set before it leaves [`LIVING`].
    ended: OnceLock<(End, u32)>,
}

/// Most processes of a kernel at a time.
const MOST: usize = 64;
type Places = [Option<Arc<Process>>; MOST];
/// The processes of this kernel. Nothing is allocated or freed under the lock: that could be a
/// step, at which another thread may run.
static LIVING: Mutex<Places> = Mutex::new([const { None }; MOST]);
/// Starts and ends that are being reported.
static REPORTS: AtomicU32 = AtomicU32::new(0);
/// Processes that have begun here. Each is a caller of its own, which makes one call at a time.
static BEGUN: AtomicU32 = AtomicU32::new(0);

fn living<T>(work: impl FnOnce(&mut Places) -> T) -> T {
    work(&mut LIVING.lock().unwrap_or_else(PoisonError::into_inner))
}

fn find(pid: u32) -> Option<Arc<Process>> {
    living(|all| all.iter().flatten().find(|process| process.pid == pid).cloned())
}

/// Returns the number of a process that runs here, if any does.
pub fn any_here(random: u64) -> Option<u32> {
    living(|all| {
        let count = all.iter().flatten().count().max(1);
        all.iter().flatten().nth(random as usize % count).map(|process| process.pid)
    })
}

fn caller(kernel: &Kernel, thread: u32) -> Caller {
    Caller::new((kernel.me.0, kernel.epoch.0), thread)
}

/// Runs `work` with a client of the process table, as thread `thread` of this kernel.
pub fn with_table<T>(
    session: &Session,
    thread: u32,
    work: impl FnOnce(&mut Client<'_>) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let caller = caller(session.kernel, thread);
    work(&mut Client(&mut |request, bulk| ask(session, caller, request, bulk)))
}

fn ask(session: &Session, caller: Caller, request: Request, bulk: &mut [u8]) -> Reply {
    let is_settled = REPORTS.load(Relaxed) == 0;
    let call = history::invoked(Kind::Table, caller, is_settled, bytes(&request), &[]);
    match session.kernel.services.processes.ask(session, request, bulk) {
        Ok(reply) => {
            let lists = request.op == Op::List as u16;
            let filled = if lists { &bulk[..reply.filled as usize] } else { &[] };
            history::returned(call, caller, bytes(&reply), filled);
            reply
        }
        Err(why) => {
            history::failed(call, caller);
            let is_lost = matches!(why, ServiceFailure::Restarted);
            Reply::error(if is_lost { Errno::Restarted } else { Errno::Io })
        }
    }
}

/// The body of the thread that takes tasks.
pub fn serve(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    let session = Session::at(kernel, Level(0));
    let mut room = [0; START];
    loop {
        match with_table(&session, SERVER, |client| client.next(&mut room)) {
            Ok(News::Begin { pid, parent, group, quota, bytes, .. }) => {
                let status = status_of(&room[..bytes]);
                begin(kernel, (pid, parent, group), quota, status);
                // As long as it takes to start one.
                if status % 4 == 3 {
                    pause(kernel, LONGEST);
                }
            }
            Ok(News::Stop { pid, signal }) => {
                if let Some(process) = find(pid) {
                    process.stop.store(signal.into(), Relaxed);
                }
            }
            Ok(News::Group { pid, group }) => {
                if let Some(process) = find(pid) {
                    process.group.store(group, Relaxed);
                }
            }
            Ok(News::Move { pid, .. }) => panic!("nothing asks {pid} to move"),
            Err(Errno::Restarted) => name_all(&session),
            // A table whose home has died.
            Err(_) => pause(kernel, PAUSE),
        }
    }
}

/// Starts a process here that a caller of this kernel spawns.
pub fn start_here(session: &Session, thread: u32, spawn: Spawn<'_>) -> Result<u32, Errno> {
    let name = name::padded(b"here");
    let started = with_table(session, thread, |client| client.spawn_here(spawn, name))?;
    let ids = (started.pid, spawn.parent, started.group);
    begin(session.kernel, ids, started.quota, status_of(spawn.beginning));
    Ok(started.pid)
}

/// Returns the status that start data demand.
fn status_of(beginning: &[u8]) -> u32 {
    beginning.first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

fn begin(
    kernel: &'static Kernel,
    (pid, parent, group): (u32, u32, u32),
    quota: Quota,
    status: u32,
) {
    let (group, stop, ended) = (AtomicU32::new(group), AtomicU32::new(0), OnceLock::new());
    let process = Some(Arc::new(Process { pid, parent, group, quota, status, stop, ended }));
    let free =
        living(|all| all.iter_mut().find(|place| place.is_none()).map(|place| *place = process));
    assert!(free.is_some(), "more than {MOST} processes");
    if kernel.spawn("process", None, live, pid as usize).is_err() {
        panic!("no memory for the thread of a process");
    }
}

/// Sleeps for a random time.
fn pause(kernel: &Kernel, most: u64) {
    kernel.scheduler.sleep_until(arch::time::soc_time() + control().below(most));
}

/// Reports all processes of this kernel to a table that has lost its state.
fn name_all(session: &Session) {
    if Broken::Name.is_set() {
        return;
    }
    let all: Places = living(|all| all.clone());
    for process in all.into_iter().flatten() {
        name_one(session, SERVER, &process);
        // It may have been reported before the table knew the process.
        if let Some(&(end, status)) = process.ended.get() {
            let _ = with_table(session, SERVER, |client| {
                client.ended(process.pid, end, status, Account::default())
            });
        }
    }
}

fn name_one(session: &Session, thread: u32, process: &Process) {
    let running = Running {
        pid: process.pid,
        parent: process.parent,
        group: process.group.load(Relaxed),
        kernel: session.kernel.me.0.into(),
        flags: if process.parent == 0 { flag::WATCHED } else { 0 },
        quota: process.quota,
        ..Running::default()
    };
    // A refusal is in the history.
    let _ = with_table(session, thread, |client| client.adopt(running));
}

/// The body of a process's thread.
fn live(pid: usize) {
    let Some(kernel) = kernel::get() else { return };
    let Some(process) = find(pid as u32) else { return };
    let session = Session::at(kernel, Level(0));
    let thread = SERVER + 1 + BEGUN.fetch_add(1, Relaxed) % (history::THREADS - SERVER - 1);
    REPORTS.fetch_add(1, Relaxed);
    let begun =
        with_table(&session, thread, |client| client.begun(process.pid, process.quota, Ok(4096)));
    match begun {
        Ok(Missed { group, stop }) => {
            process.group.store(group, Relaxed);
            process.stop.fetch_max(stop.unwrap_or(0).into(), Relaxed);
        }
        // It has lost its state before this kernel knew the process.
        Err(Errno::Srch) => name_one(&session, thread, &process),
        Err(_) => {}
    }
    REPORTS.fetch_sub(1, Relaxed);
    if process.status % 2 == 1 {
        pause(kernel, LONGEST);
    }
    let (end, status) = match process.stop.load(Relaxed) {
        0 => (End::Exit, process.status),
        signal => (End::Signal, signal),
    };
    REPORTS.fetch_add(1, Relaxed);
    let _ = process.ended.set((end, status));
    let is_it = |other: &mut Arc<Process>| other.pid == process.pid;
    let _ = living(|all| all.iter_mut().find_map(|place| place.take_if(is_it)));
    let _ = with_table(&session, thread, |client| {
        client.ended(process.pid, end, status, Account::default())
    });
    REPORTS.fetch_sub(1, Relaxed);
}

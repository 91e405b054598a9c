//! The start of a process on this kernel, up to its main thread ([`super::begin`]).
//!
//! ```text
//!   Next: the table requests it, for any kernel --> its thread --> Begun(0), or Begun(why not)
//!   Spawn, HERE: the spawning thread --> its thread --> the same; then the spawner continues
//! ```
//! Contract: a process that does not start leaves nothing, here or in the table. A spawner that
//! must end before it knows the outcome does not want the process, which is killed. Between the
//! table's reply and the moment when this kernel knows the process, the table may lose its state,
//! or give a task about the process to the thread that takes those. Both show at Begun.

use super::threads::{Thread, Threads};
use super::{Ids, LocalProcess, Processes, Program, moves, reports, with_table};
use crate::programs::has_room_to_begin;
use ::processes::client::{Client, Missed, Spawn, Started};
use ::processes::name;
use abi::moves::Departed;
use abi::process::{End, Errno, flag, pack_life, signal};
use abi::quota::Quota;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::lock::{Lock, Once};
use core::sync::atomic::{AtomicBool, Ordering};
use kernel_node::ranks;
use kernel_platform::peers::with_room;
use kernel_sched::{PRIORITY_PROGRAM, WaitQueue};
use kernel_services::services::Patience;
use kernel_services::session::Session;

/// What a process starts with.
pub struct Given {
    /// Its start data.
    pub beginning: Vec<u8>,
    /// Its program, if the spawner has found it.
    pub program: Option<Program>,
}

/// Where a process is in its start.
pub struct Startup {
    /// Until its thread takes it.
    given: Lock<Option<Given>>,
    /// Whether it runs, or why it does not.
    outcome: Once<Result<(), Errno>>,
    /// The listener has reported it to a table that did not know it.
    is_named: AtomicBool,
    /// Where the thread that has spawned it waits for the outcome, and its own for the report.
    changes: WaitQueue,
}

impl Startup {
    /// Of a process that is given this; `None`: its start is over.
    pub fn new(given: Option<Given>) -> Startup {
        let given = Lock::new(ranks::PROCESSES, given);
        let (is_named, changes) = (AtomicBool::new(false), WaitQueue::new());
        Startup { given, outcome: Once::new(), is_named, changes }
    }

    /// Takes what the process starts with.
    pub fn take(&self) -> Option<Given> {
        self.given.lock().take()
    }
}

impl LocalProcess {
    /// Records whether the process runs, or why it does not. The first outcome counts.
    fn settle(&self, session: &Session, outcome: Result<(), Errno>) {
        if self.startup.outcome.set(outcome).is_ok() {
            self.startup.changes.wake_all(&session.kernel.scheduler);
        }
    }
}

/// Starts a process that the table has requested. Reports a failure to the table.
pub fn requested(
    session: &Session,
    processes: &Processes,
    ids: Ids,
    quota: Quota,
    beginning: &[u8],
) {
    let pid = ids.pid;
    let copied = copy(beginning).ok().filter(|_| has_room_to_begin());
    let Some(copied) = copied else { return report_failure(session, pid, Errno::Nomem) };
    let head = moves::departed(session.kernel, beginning);
    let of_head = |head: Departed| name::received(&head.name);
    let name = head.map_or_else(|| name::of(beginning), of_head);
    let startup = Startup::new(Some(Given { beginning: copied, program: None }));
    let life = LocalProcess::new(ids, name, Threads::with(Thread::new(0)), quota, startup);
    if head.is_some() {
        life.journey.comes_in();
    }
    if let Err(why) = spawn_main(session, processes, Arc::new(life)) {
        report_failure(session, pid, why);
    }
}

/// Starts a process here that a thread of this kernel spawns, and waits until it runs or cannot.
/// Returns its number; [`Errno::Intr`] if `must_end`.
pub fn here(
    session: &Session,
    processes: &Processes,
    spawn: Spawn<'_>,
    program: Option<Program>,
    must_end: &dyn Fn() -> bool,
) -> Result<u32, Errno> {
    let life = begin_here(session, processes, spawn, program)?;
    let (kernel, outcome) = (session.kernel, || life.startup.outcome.get());
    kernel.scheduler.wait(&life.startup.changes, || outcome().is_some() || must_end());
    match outcome() {
        Some(outcome) => outcome.map(|()| life.pid),
        None => {
            processes.stop(kernel, &life, signal::KILL);
            Err(Errno::Intr)
        }
    }
}

fn begin_here(
    session: &Session,
    processes: &Processes,
    spawn: Spawn<'_>,
    program: Option<Program>,
) -> Result<Arc<LocalProcess>, Errno> {
    let (kernel, name) = (session.kernel, name::of(spawn.beginning));
    let startup = Startup::new(Some(Given { beginning: copy(spawn.beginning)?, program }));
    if !has_room_to_begin() {
        return Err(Errno::Nomem);
    }
    let told = |table: &mut Client<'_>| table.spawn_here(spawn, name);
    let Started { pid, group, quota } = with_table(session, &Patience::ENDLESS, told)?;
    let is_watched = spawn.flags & flag::WATCHED != 0;
    let watcher = if is_watched { pack_life(kernel.me.0, kernel.epoch.0) } else { 0 };
    let ids = Ids { pid, parent: spawn.parent, group, watcher };
    let life = LocalProcess::new(ids, name, Threads::with(Thread::new(0)), quota, startup);
    let life = Arc::new(life);
    match spawn_main(session, processes, life.clone()) {
        Ok(()) => Ok(life),
        Err(why) => {
            report_failure(session, pid, why);
            Err(why)
        }
    }
}

/// Makes a process known here, and spawns its main thread.
fn spawn_main(
    session: &Session,
    processes: &Processes,
    life: Arc<LocalProcess>,
) -> Result<(), Errno> {
    let (scheduler, pid) = (&session.kernel.scheduler, life.pid);
    let before = processes.living.lock().insert(pid, life.clone());
    drop(before);
    let (main, place) = (processes.main, pid as usize);
    let spawned = scheduler.spawn("program", PRIORITY_PROGRAM, None, main, place);
    if spawned.is_err() {
        // It may be among those that are being reported to a table that has restarted.
        processes.leave(&life, End::Lost, 0);
        return Err(Errno::Nomem);
    }
    processes.count.fetch_add(1, Ordering::Release);
    processes.some.wake_all(scheduler);
    Ok(())
}

/// Reports to the table that the process runs. If the table restarts later, it learns that from
/// [`reports::name_all`].
pub fn runs(session: &Session, processes: &Processes, life: &Arc<LocalProcess>) {
    let known = life.group.load(Ordering::Relaxed);
    let begun =
        with_table(session, &Patience::ENDLESS, |table| table.begun(life.pid, life.quota(), Ok(0)));
    match begun {
        Ok(Missed { group, stop }) => {
            // What the listener has fetched since is newer.
            let order = Ordering::Relaxed;
            let _ = life.group.compare_exchange(known, group, order, order);
            if let Some(signal) = stop {
                processes.stop(session.kernel, life, signal);
            }
        }
        // It has restarted, perhaps before this kernel knew the process.
        Err(Errno::Srch) => await_report(session, processes, life),
        Err(_) => {}
    }
    life.settle(session, Ok(()));
}

/// Waits until the listener has reported the process to a table that does not know it. Only the
/// listener does that, so that no process is reported after its end.
fn await_report(session: &Session, processes: &Processes, life: &Arc<LocalProcess>) {
    let scheduler = &session.kernel.scheduler;
    let mut unnamed = processes.unnamed.lock();
    if unnamed.try_reserve(1).is_err() {
        // Its end will be refused, and its parent told that it is lost.
        return kernel_node::log!("process {}: no memory to report it", life.pid);
    }
    unnamed.push(life.clone());
    drop(unnamed);
    processes.wake_listener(session.kernel);
    let startup = &life.startup;
    scheduler.wait(&startup.changes, || startup.is_named.load(Ordering::Acquire));
}

/// Reports those that have begun when the table did not know them. For the listener.
pub fn report_unnamed(session: &Session, processes: &Processes) {
    loop {
        let Some(life) = processes.unnamed.lock().pop() else { return };
        reports::name(session, &life);
        life.startup.is_named.store(true, Ordering::Release);
        life.startup.changes.wake_all(&session.kernel.scheduler);
    }
}

/// Reports to the table, and to the spawner, why the process does not run.
pub fn fails(session: &Session, life: &LocalProcess, why: Errno) {
    report_failure(session, life.pid, why);
    life.settle(session, Err(why));
}

/// Reports to the table why the process does not run. A table that has restarted may take it for a
/// running one.
fn report_failure(session: &Session, pid: u32, why: Errno) {
    let failed = with_table(session, &Patience::ENDLESS, |table| {
        table.begun(pid, Quota::default(), Err(why))
    });
    if failed.is_err() {
        reports::report_end(session, pid, End::Lost, 0);
    }
}

/// Returns a copy of start data.
fn copy(beginning: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut copy = with_room(beginning.len()).map_err(|_| Errno::Nomem)?;
    copy.extend_from_slice(beginning);
    Ok(copy)
}

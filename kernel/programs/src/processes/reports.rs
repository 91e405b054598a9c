//! What this kernel reports to a process table that has restarted: the processes that it runs, and
//! children of theirs that were lost with other kernels.
//!
//! ```text
//!   a kernel dies, with the table --> Next: Restarted --> Adopt, one a process
//!   a process waits: Restarted, or Child before all have reported --> asked again a moment later
//!                    Child, but a child's kernel is dead          --> Adopt as lost, asked again
//! ```

use super::children::Child;
use super::{LocalProcess, Processes, with_table};
use ::processes::client::{Account, Running};
use abi::process::{End, Errno, Reply, Request, flag, signal, unpack_life};
use abi::soc::state;
use alloc::vec::Vec;
use base::id::DomainId;
use core::sync::atomic::Ordering;
use kernel_services::kernel::Kernel;
use kernel_services::services::Patience;
use kernel_services::session::Session;

/// How long all kernels may take to report their processes to a table that has restarted.
pub(super) const REPORTING_NS: u64 = 2_000_000_000;
/// Time after which a process that waits for its children asks the restarted table again.
pub const PAUSE_NS: u64 = 50_000_000;

/// Returns whether a process that waits for its children must ask again, because the table has
/// restarted and does not know all of them yet. Reports those that are lost.
pub fn must_ask_again(
    session: &Session,
    processes: &Processes,
    parent: &LocalProcess,
    request: &Request,
    reply: &Reply,
) -> bool {
    let now = arch::time::soc_time();
    match reply.errno() {
        Errno::Restarted => {
            processes.restarted.store(now, Ordering::Relaxed);
            return true;
        }
        Errno::Child | Errno::Srch => {}
        _ => return false,
    }
    let wanted = parent.children.wanted(parent.group.load(Ordering::Relaxed), request);
    let is_lost = |child: &&Child| is_over(session.kernel, child.kernel, child.epoch);
    let lost = wanted.iter().filter(is_lost);
    let reported = lost.filter(|child| report_lost(session, parent, child)).count();
    let is_early = now < processes.restarted.load(Ordering::Relaxed) + REPORTING_NS;
    reported > 0 || !wanted.is_empty() && is_early
}

/// Reports a child that was lost with its kernel. Returns whether the parent can wait for it now.
fn report_lost(session: &Session, parent: &LocalProcess, child: &Child) -> bool {
    let Child { pid, group, kernel, .. } = *child;
    let done = with_table(session, &Patience::ENDLESS, |table| {
        table.adopt_lost(pid, parent.pid, group, kernel.into())
    });
    done.is_ok()
}

/// Reports all processes of this kernel to a table that has restarted.
pub fn name_all(session: &Session, processes: &Processes) {
    processes.restarted.store(arch::time::soc_time(), Ordering::Relaxed);
    let all: Vec<_> = processes.own().collect();
    for life in all {
        name(session, &life);
        if is_watcher_over(session.kernel, life.watcher) {
            // The table may have lost its state after it learnt of that death.
            let _ = with_table(session, &Patience::ENDLESS, |table| table.leave(life.pid));
            processes.stop(session.kernel, &life, signal::KILL);
        }
        // It may have been reported before the table knew the process.
        if let Some(&(end, status)) = life.ended.get() {
            report_end(session, life.pid, end, status);
        }
    }
}

/// Reports a process of this kernel to a table that has restarted.
pub fn name(session: &Session, life: &LocalProcess) {
    let watched = if life.parent == 0 { flag::WATCHED } else { 0 };
    let doomed = if life.stop_signal().is_some() { flag::KILLED } else { 0 };
    let running = Running {
        pid: life.pid,
        parent: life.parent,
        group: life.group.load(Ordering::Relaxed),
        kernel: session.kernel.me.0.into(),
        flags: watched | doomed,
        watcher: life.watcher,
        memory: life.memory.load(Ordering::Relaxed),
        quota: life.quota(),
        name: life.name(),
    };
    if with_table(session, &Patience::ENDLESS, |table| table.adopt(running)).is_err() {
        kernel_node::log!("process {}: the restarted process table refused it", life.pid);
    }
}

/// Returns whether a process was watched by a life of a kernel that is over.
fn is_watcher_over(kernel: &Kernel, watcher: u32) -> bool {
    unpack_life(watcher).is_some_and(|(id, epoch)| is_over(kernel, id, epoch))
}

/// Returns whether a life of a kernel is over.
fn is_over(kernel: &Kernel, id: u8, epoch: u16) -> bool {
    let (now, code) = kernel.soc.state(DomainId(id));
    now as u16 != epoch || state::is_over(code)
}

/// Reports an end again, in case the table did not know the process the first time.
pub fn report_end(session: &Session, pid: u32, end: End, status: u32) {
    let _ = with_table(session, &Patience::ENDLESS, |table| {
        table.ended(pid, end, status, Account::default())
    });
}

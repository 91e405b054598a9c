//! Accounting: reports to the process table, about once a second, what the processes of this kernel
//! have used.
//!
//! Contract: only processes whose use has changed noticeably are reported. Without processes the
//! thread sleeps and does not wake the kernel. Each round also frees the stacks of ended threads,
//! because no thread joins those of processes. A thread ends shortly after its process, so there is
//! one more round a second after the last process has ended.

use super::{LocalProcess, with_table};
use ::processes::client::Account;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use kernel_msg::Level;
use kernel_sched::{Deadline, Scheduler};
use kernel_services::power;
use kernel_services::services::Patience;
use kernel_services::session::Session;

/// Interval of the rounds.
const EVERY_NS: u64 = 1_000_000_000;
/// Less core time than this is not reported: a process that waits wakes up now and then.
const WORTH_NS: u64 = 1_000_000;

/// Returns what a process has used so far.
pub fn account(scheduler: &Scheduler, life: &LocalProcess) -> Account {
    Account {
        cpu: life.threads.ran(scheduler),
        memory: life.memory.load(Ordering::Relaxed),
        messages: life.messages.load(Ordering::Relaxed),
    }
}

fn is_news(before: &Account, now: &Account) -> bool {
    now.cpu >= before.cpu.saturating_add(WORTH_NS)
        || (now.memory, now.messages) != (before.memory, before.messages)
}

/// Thread: reports to the table. Does not return.
pub fn keep(_: usize) {
    let (Some(kernel), Some(processes)) = (kernel_services::kernel::get(), super::get()) else {
        return;
    };
    let session = Session::at(kernel, Level(0));
    let mut reported: BTreeMap<u32, Account> = BTreeMap::new();
    let mut was_empty = true;
    loop {
        kernel.scheduler.trim();
        let begun = processes.count.load(Ordering::Acquire);
        let all: Vec<Arc<LocalProcess>> = processes.own().collect();
        reported.retain(|pid, _| all.iter().any(|life| life.pid == *pid));
        for life in &all {
            let now = account(&kernel.scheduler, life);
            let before = reported.get(&life.pid).copied().unwrap_or_default();
            if is_news(&before, &now) {
                // Fails for a process that has not started or has just ended, which is reported
                // in `begin`.
                let _ = with_table(&session, &Patience::ENDLESS, |t| t.account(life.pid, now));
                reported.insert(life.pid, now);
            }
        }
        let is_empty = all.is_empty();
        if is_empty && was_empty {
            let is_new = || processes.count.load(Ordering::Acquire) != begun;
            kernel.scheduler.wait(&processes.some, is_new);
        }
        was_empty = is_empty && !was_empty;
        // How busy this kernel is, for those that choose one for a program.
        power::publish(kernel);
        drop(all);
        kernel.scheduler.sleep(Deadline::Deferrable(arch::time::soc_time() + EVERY_NS));
    }
}

//! What the processes of this kernel have used so far, for the table: told about once a second,
//! of those that did anything worth telling since.
//!
//! Contract: no process, no wake-up; one that waits costs its kernel a look a second, and the table
//! nothing. Each look gives back stacks of ended threads, for nobody joins those of processes; the
//! last look is a second behind the one that found no process, as a thread outlives its process.

use super::{Life, with_table};
use crate::services::Patience;
use crate::session::Session;
use ::processes::client::Account;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use kernel_msg::Level;
use kernel_sched::{Scheduler, ThreadId};

/// Between two looks.
const EVERY_NS: u64 = 1_000_000_000;
/// Less time on a core than this is not worth telling: who waits looks around now and then.
const WORTH_NS: u64 = 1_000_000;

/// What a process has used so far.
pub fn account(scheduler: &Scheduler, life: &Life) -> Account {
    let thread = life.thread.load(Ordering::Acquire);
    Account {
        cpu: if thread == 0 { 0 } else { scheduler.ran(ThreadId::from_token(thread)) },
        memory: life.memory.load(Ordering::Relaxed),
        messages: life.messages.load(Ordering::Relaxed),
    }
}

fn is_news(before: &Account, now: &Account) -> bool {
    now.cpu >= before.cpu.saturating_add(WORTH_NS)
        || (now.memory, now.messages) != (before.memory, before.messages)
}

/// Tells the table, for ever.
pub fn keep(_: usize) {
    let (Some(kernel), Some(processes)) = (crate::kernel::get(), super::get()) else { return };
    let session = Session::at(kernel, Level(0));
    let mut told: BTreeMap<u32, Account> = BTreeMap::new();
    let mut was_empty = true;
    loop {
        kernel.scheduler.trim();
        let begun = processes.count.load(Ordering::Acquire);
        let all: Vec<Arc<Life>> = processes.living.lock().values().cloned().collect();
        told.retain(|pid, _| all.iter().any(|life| life.pid == *pid));
        for life in &all {
            let now = account(&kernel.scheduler, life);
            let before = told.get(&life.pid).copied().unwrap_or_default();
            if is_news(&before, &now) {
                // One that has not begun, or has just ended, is told of elsewhere.
                let _ = with_table(&session, &Patience::ENDLESS, |t| t.account(life.pid, now));
                told.insert(life.pid, now);
            }
        }
        let is_empty = all.is_empty();
        if is_empty && was_empty {
            let is_new = || processes.count.load(Ordering::Acquire) != begun;
            kernel.scheduler.wait(&processes.some, is_new);
        }
        was_empty = is_empty && !was_empty;
        drop(all);
        kernel.scheduler.sleep_until(arch::time::soc_time() + EVERY_NS);
    }
}

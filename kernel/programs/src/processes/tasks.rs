//! The threads of the processes of this kernel, for the monitor and `/proc`.
//!
//! Contract: a thread is known from when it first runs. The light threads of another kernel's
//! process are here if they run here; that kernel knows the others.

use super::threads::Thread;
use super::{LocalProcess, Processes, get};
use alloc::sync::Arc;
use kernel_sched::ThreadInfo;
use kernel_services::kernel::Kernel;

/// A thread of a process.
pub struct Task {
    pub pid: u32,
    /// Its number in the process; 0: the main thread.
    pub number: u32,
    pub is_light: bool,
    pub info: ThreadInfo,
}

/// Visits the threads of all processes.
pub fn for_each(kernel: &Kernel, visit: &mut dyn FnMut(Task)) {
    let Some(processes) = get() else { return };
    kernel.scheduler.for_each(&mut |info| {
        if let Some((life, thread)) = processes.of_token(info.id.token()) {
            let (number, is_light) = (thread.number, life.is_satellite());
            visit(Task { pid: life.pid, number, is_light, info });
        }
    });
}

impl Processes {
    /// Returns the thread with the scheduler's token, and its process. From any context that holds
    /// no lock.
    pub(super) fn of_token(&self, token: u64) -> Option<(Arc<LocalProcess>, Arc<Thread>)> {
        let living = self.living.lock();
        living
            .values()
            .find_map(|life| life.threads.find(token).map(|thread| (life.clone(), thread)))
    }
}

//! What the cores of a scheduler have done.

use super::{Scheduler, to_ns};
use arch::cpu;

/// State of a core, for listing.
#[derive(Clone, Copy, Debug)]
pub struct CoreInfo {
    /// Sum of [`super::ThreadInfo::switches`] over the threads that run on it or ran on it last.
    pub switches: u64,
    /// Time that its idle thread has run, in ns.
    pub idle_ns: u64,
    /// Name of the running thread.
    pub running: &'static str,
}

impl Scheduler {
    /// Returns the state of a core.
    pub fn core_info(&self, core: usize) -> CoreInfo {
        let (switches, idle, running) = self.table.lock().core_info(core, cpu::clock());
        CoreInfo { switches, idle_ns: to_ns(idle), running }
    }

    /// Returns the time in ns that all cores have run threads, and that they had none to run.
    pub fn residency(&self) -> (u64, u64) {
        let (active, idle) = self.table.lock().residency_of_all(cpu::clock());
        (to_ns(active), to_ns(idle))
    }

    /// Reports that all cores were stopped for so many ticks of the local clock.
    pub fn were_stopped(&self, ticks: u64) {
        self.table.lock().were_stopped(ticks);
    }
}

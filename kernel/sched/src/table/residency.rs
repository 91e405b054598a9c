//! How long each thread and each core has run, and how long a core had no thread to run.

use super::{Core, Entry, Phase, Table, ThreadId};

impl Table {
    /// Returns the ticks that a thread has run; 0 if it has ended.
    pub fn ran(&self, id: ThreadId, now: u64) -> u64 {
        let Some(entry) = self.get(id) else { return 0 };
        let runs = |core: &&Core| entry.phase == Phase::Running && core.current == id.index;
        let since = self.cores.iter().find(runs).map_or(0, |core| now.saturating_sub(core.since));
        entry.ran + since
    }

    /// Returns the ticks that a core has run threads, and those that its idle thread has run, from
    /// the moment that it took part in scheduling. Interrupts count for the thread that they
    /// interrupt.
    pub fn residency(&self, core: usize, now: u64) -> (u64, u64) {
        let here = &self.cores[core];
        let idle = self.entries[core].ran;
        if !here.online {
            return (here.worked, idle);
        }
        let since = now.saturating_sub(here.since);
        if self.is_idle(core) { (here.worked, idle + since) } else { (here.worked + since, idle) }
    }

    /// Reports that all cores were stopped for so many ticks: no thread has run in that time.
    pub fn were_stopped(&mut self, ticks: u64) {
        self.cores.iter_mut().for_each(|core| core.since += ticks);
    }

    /// Returns the sums of [`Table::residency`] over all cores.
    pub fn residency_of_all(&self, now: u64) -> (u64, u64) {
        let each = (0..self.cores.len()).map(|core| self.residency(core, now));
        each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Returns totals of a core: (switches, idle ticks, name of the running thread).
    pub fn core_info(&self, core: usize, now: u64) -> (u64, u64, &'static str) {
        let on_core = |entry: &&Entry| entry.core as usize == core;
        let switches = self.entries.iter().filter(on_core).map(|entry| entry.switches).sum();
        let running = self.entries[self.cores[core].current as usize].name;
        (switches, self.residency(core, now).1, running)
    }
}

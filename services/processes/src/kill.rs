//! Signals to a process or a group.
//!
//! Programs have no handlers: every signal that is not ignored ends its target. Of the signals that
//! the kernel has not fetched yet, a process keeps only the first, but KILL replaces it.
//!
//! Contract: a process may signal itself, its descendants and its group; of a named group, only the
//! members among those. The system may signal any process, and so may a process for which its
//! kernel sets [`flag::ANY_PROCESS`].

use crate::record::Stop;
use crate::service::{Call, Processes, Result};
use abi::process::{End, Errno, PROCESSES, Reply, State, flag, signal};
use alloc::boxed::Box;
use share::Effects;

impl Processes {
    /// Kill: signals every target that the caller may reach.
    pub(crate) fn do_kill(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let flags = call.flags(flag::ANY_PROCESS)?;
        let signal = call.request.signal;
        if signal > signal::LAST {
            return Err(Errno::Inval.into());
        }
        let asker = call.request.parent;
        let mut targets = self.targets(call.request.pid, asker)?;
        if flags & flag::ANY_PROCESS == 0 {
            let reached = targets.iter().copied().filter(|&pid| self.reaches(asker, pid));
            targets = reached.collect();
        }
        if targets.is_empty() {
            return Err(Errno::Perm.into());
        }
        if signal != signal::NONE && 1u32 << signal & signal::IGNORED == 0 {
            targets.iter().for_each(|&pid| self.stop(pid, signal, call.effects));
        }
        Ok(Reply::default())
    }

    /// Returns the processes that `pid` names (as in `kill`), at least one.
    fn targets(&self, pid: i32, asker: u32) -> Result<Box<[u32]>> {
        let number = pid.unsigned_abs();
        let found = match pid {
            1.. => self.records.get(number).map_or(Box::default(), |_| Box::from([number])),
            0 => {
                let group = self.records.get(asker).ok_or(Errno::Srch)?.group;
                self.records.find(|record| record.group == group)
            }
            _ => self.records.find(|record| record.group == number),
        };
        if found.is_empty() { Err(Errno::Srch.into()) } else { Ok(found) }
    }

    /// Returns whether `asker` may signal `pid` without [`flag::ANY_PROCESS`].
    pub(crate) fn reaches(&self, asker: u32, pid: u32) -> bool {
        let group_of = |pid| self.records.get(pid).map(|record| record.group);
        self.is_above(asker, pid) || group_of(asker).is_some_and(|own| group_of(pid) == Some(own))
    }

    /// Returns whether `pid` is `above` or a descendant of it. All processes descend from the
    /// system (0).
    pub(crate) fn is_above(&self, above: u32, pid: u32) -> bool {
        // Kernels may report any parents after a restart, even cycles: bound the walk by the number
        // of processes.
        let up = |&pid: &u32| self.records.get(pid).map(|record| record.parent);
        let way = core::iter::successors(Some(pid), up).take(PROCESSES + 1);
        above == 0 || way.take_while(|&pid| pid != 0).any(|pid| pid == above)
    }

    /// Signals a process so that it ends. If its kernel has not fetched it yet, it ends at once.
    pub(crate) fn stop(&mut self, pid: u32, signal: u16, effects: &mut dyn Effects) {
        let order = self.records.tick();
        let Some(record) = self.records.get_mut(pid) else { return };
        match record.state {
            State::Waiting => self.end(pid, End::Signal, signal.into(), effects),
            State::Starting | State::Running => {
                let stop = record.stop.get_or_insert(Stop { order, signal });
                let doom = record.doom.get_or_insert(signal);
                if signal == signal::KILL {
                    (stop.signal, *doom) = (signal, signal);
                }
                let kernel = record.kernel;
                self.call(kernel, effects);
            }
            State::Ended => {}
        }
    }
}

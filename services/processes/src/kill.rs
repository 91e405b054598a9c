//! Signals: for a process or for a group.
//!
//! Every signal that is not ignored ends whom it reaches: programs have no handlers. A process has
//! at most one that its kernel has not heard of, the first one, unless a KILL comes.

use crate::record::Stop;
use crate::service::{Call, Processes, Result};
use abi::process::{End, Errno, Reply, State, signal};
use alloc::boxed::Box;
use kernel_share::Effects;

impl Processes {
    /// A signal for whom it may concern.
    pub(crate) fn do_kill(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let signal = call.request.signal;
        if signal > signal::LAST {
            return Err(Errno::Inval.into());
        }
        let targets = self.targets(call.request.pid, call.request.parent)?;
        if signal != signal::NONE && 1u32 << signal & signal::IGNORED == 0 {
            targets.iter().for_each(|&pid| self.stop(pid, signal, call.effects));
        }
        Ok(Reply::default())
    }

    /// Those that are meant: at least one.
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

    /// It is to end. One that its kernel has not heard of ends here.
    pub(crate) fn stop(&mut self, pid: u32, signal: u16, effects: &mut dyn Effects) {
        let order = self.records.tick();
        let Some(record) = self.records.get_mut(pid) else { return };
        match record.state {
            State::Waiting => self.end(pid, End::Signal, signal.into(), effects),
            State::Starting | State::Running => {
                let stop = record.stop.get_or_insert(Stop { order, signal });
                if signal == signal::KILL {
                    stop.signal = signal;
                }
                let kernel = record.kernel;
                self.call(kernel, effects);
            }
            State::Ended => {}
        }
    }
}

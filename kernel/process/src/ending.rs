//! Functions that need no descriptor: exit, signals, random bytes.

use crate::errno::{Done, Errno, Halt, Stop};
use crate::memory::GuestMemory;
use crate::process::Process;
use crate::system::System;
use abi::process::signal;

/// Returns whether a process that sends itself this signal ends; `None`: there is no such signal.
pub(crate) fn ends_process(number: u32) -> Option<bool> {
    let known = number <= u32::from(signal::LAST);
    let ignored = number == u32::from(signal::NONE)
        || signal::IGNORED.checked_shr(number).is_some_and(|rest| rest & 1 == 1);
    known.then_some(!ignored)
}

/// Random bytes made between two checks whether the process must end.
const RANDOM: u32 = 1 << 20;

impl Process {
    pub fn proc_exit(
        &self,
        _memory: &mut GuestMemory<'_>,
        _system: &mut dyn System,
        status: u32,
    ) -> Done {
        Err(Halt::Stop(Stop::Exit(status)))
    }

    /// Signals the caller. There are no handlers: either the process ends, or nothing happens.
    pub fn proc_raise(
        &self,
        _memory: &mut GuestMemory<'_>,
        _system: &mut dyn System,
        number: u32,
    ) -> Done {
        match ends_process(number) {
            None => Err(Errno::INVAL.into()),
            Some(false) => Ok(()),
            Some(true) => Err(Halt::Stop(Stop::Signal(number as u16))),
        }
    }

    pub fn sched_yield(&self, _memory: &mut GuestMemory<'_>, system: &mut dyn System) -> Done {
        system.yield_now()?;
        Ok(())
    }

    pub fn random_get(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        buffer: u32,
        bytes: u32,
    ) -> Done {
        memory.check(buffer, bytes)?;
        let mut done = 0;
        while done < bytes {
            let (at, length) = (buffer.saturating_add(done), (bytes - done).min(RANDOM));
            done += memory.fill(at, length, |piece| {
                system.random(piece);
                Ok(piece.len() as u32)
            })?;
            if done < bytes {
                // The call returns early if the process must end.
                let now = system.monotonic();
                system.sleep_until(now)?;
            }
        }
        Ok(())
    }
}

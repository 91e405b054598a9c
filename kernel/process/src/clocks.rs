//! Clocks. They need no rights.

use crate::errno::{Done, Errno};
use crate::memory::GuestMemory;
use crate::process::Process;
use crate::system::System;
use crate::wasi::clock;

impl Process {
    pub fn clock_res_get(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        id: u32,
        resolution: u32,
    ) -> Done {
        if id > clock::THREAD {
            return Err(Errno::INVAL.into());
        }
        memory.store_u64(resolution, system.resolution())?;
        Ok(())
    }

    /// The precision argument is ignored.
    #[inline]
    pub fn clock_time_get(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        id: u32,
        _precision: u64,
        time: u32,
    ) -> Done {
        memory.store_u64(time, now(system, id)?)?;
        Ok(())
    }
}

/// Returns the time of a clock.
#[inline]
pub fn now<S: System + ?Sized>(system: &mut S, id: u32) -> Result<u64, Errno> {
    match id {
        clock::MONOTONIC => Ok(system.monotonic()),
        clock::REALTIME => Ok(system.realtime()),
        clock::PROCESS => Ok(system.cpu_time()),
        clock::THREAD => Ok(system.thread_time()),
        _ => Err(Errno::INVAL),
    }
}

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
        let now = match id {
            clock::MONOTONIC => system.monotonic(),
            clock::REALTIME => system.realtime(),
            clock::PROCESS => system.cpu_time(),
            clock::THREAD => system.thread_time(),
            _ => return Err(Errno::INVAL.into()),
        };
        memory.store_u64(time, now)?;
        Ok(())
    }
}

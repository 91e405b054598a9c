//! Arguments and environment.

use crate::errno::Done;
use crate::memory::GuestMemory;
use crate::process::Process;
use crate::system::System;

impl Process {
    pub fn args_get(
        &self,
        memory: &mut GuestMemory<'_>,
        _system: &mut dyn System,
        table: u32,
        buffer: u32,
    ) -> Done {
        self.arguments.get(memory, table, buffer)
    }

    pub fn args_sizes_get(
        &self,
        memory: &mut GuestMemory<'_>,
        _system: &mut dyn System,
        count: u32,
        bytes: u32,
    ) -> Done {
        self.arguments.sizes(memory, count, bytes)
    }

    pub fn environ_get(
        &self,
        memory: &mut GuestMemory<'_>,
        _system: &mut dyn System,
        table: u32,
        buffer: u32,
    ) -> Done {
        self.environment.get(memory, table, buffer)
    }

    pub fn environ_sizes_get(
        &self,
        memory: &mut GuestMemory<'_>,
        _system: &mut dyn System,
        count: u32,
        bytes: u32,
    ) -> Done {
        self.environment.sizes(memory, count, bytes)
    }
}

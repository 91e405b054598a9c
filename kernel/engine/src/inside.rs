//! The data of a program's store, and the limits of its memories and tables.

use crate::guest::Guest;
use kernel_process::Process;
use wasmtime::{Memory, ResourceLimiter, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum memory in bytes.
    pub memory: u64,
}

/// Data of a program's store.
pub struct Inside<G> {
    pub process: Process,
    pub guest: G,
    /// The program's memory, once a function has needed it.
    pub memory: Option<Memory>,
    pub limits: Limits,
    /// Bytes of its tables, which are in the kernel's heap.
    pub tables: u64,
}

/// Maximum number of a program's memories and tables.
pub const MEMORIES: u32 = 1;
pub const TABLES: u32 = 8;
/// Maximum bytes of a program's tables, and bytes of an entry.
const TABLE_BYTES: u64 = 1 << 20;
const ENTRY: u64 = 8;

impl<G: Guest> ResourceLimiter for Inside<G> {
    fn memory_growing(&mut self, _: usize, wanted: usize, _: Option<usize>) -> Result<bool> {
        let fits = wanted as u64 <= self.limits.memory.saturating_sub(self.tables);
        if fits {
            self.guest.has_memory(wanted as u64);
        }
        Ok(fits)
    }

    fn table_growing(&mut self, has: usize, wanted: usize, _: Option<usize>) -> Result<bool> {
        let more = (wanted as u64).saturating_sub(has as u64).saturating_mul(ENTRY);
        let tables = self.tables.saturating_add(more);
        let fits = tables <= TABLE_BYTES.min(self.limits.memory) && self.guest.has_room(more);
        if fits {
            self.tables = tables;
        }
        Ok(fits)
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        TABLES as usize
    }

    fn memories(&self) -> usize {
        MEMORIES as usize
    }
}

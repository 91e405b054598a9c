//! The data of a program's store, and the limits of its memories and tables.

use crate::guest::Guest;
use abi::program::{MAX_TABLE_ENTRIES, MAX_TABLES};
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

/// Bytes of an entry of a table.
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
        let fits = tables <= (MAX_TABLE_ENTRIES * ENTRY).min(self.limits.memory)
            && self.guest.has_room(more);
        if fits {
            self.tables = tables;
        }
        Ok(fits)
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        MAX_TABLES as usize
    }

    fn memories(&self) -> usize {
        1
    }
}

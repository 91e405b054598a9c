//! The data of a program's store, and the limits of its memories and tables.

use crate::guest::Guest;
use crate::region::Region;
use crate::slots::COUNT;
use crate::unwound::Moving;
use abi::program::{MAX_TABLE_ENTRIES, MAX_TABLES};
use alloc::sync::Arc;
use kernel_process::{Bytes, GuestMemory, Process, Scratch, Stop, System};
use wasmtime::{Memory, ResourceLimiter, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum memory in bytes.
    pub memory: u64,
}

/// Data of a thread's store.
pub struct Inside<G> {
    pub process: Arc<Process>,
    pub guest: G,
    /// The program's own memory, once a function has needed it.
    pub memory: Option<Memory>,
    /// The memory that the threads of the program share.
    pub region: Option<Arc<Region>>,
    pub scratch: Scratch,
    pub limits: Limits,
    /// Bytes of this thread's tables, which are in the kernel's heap.
    pub tables: u64,
    /// Set if the program can move to another kernel.
    pub moving: Option<Moving>,
    /// Where calls continue that are made directly ([`crate::short`]) but must stop.
    pub long: [u64; COUNT],
    /// Why such a call has stopped that continues there.
    pub left: Option<Stop>,
}

impl<G: System> Inside<G> {
    /// Calls `work` with the process, its memory and its kernel. `own` are the bytes of a memory
    /// that is not shared.
    #[inline]
    pub fn with<R>(
        &mut self,
        own: &mut [u8],
        work: impl FnOnce(&Process, &mut GuestMemory<'_>, &mut dyn System) -> R,
    ) -> R {
        let bytes = match &self.region {
            None => Bytes::Own(own),
            Some(region) => Bytes::Shared(&**region),
        };
        work(&self.process, &mut GuestMemory::new(bytes, &mut self.scratch), &mut self.guest)
    }
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
        let of_all = self.region.as_ref().map_or(tables, |region| region.count_tables(more, 0));
        let fits = tables <= MAX_TABLE_ENTRIES * ENTRY
            && of_all <= self.limits.memory
            && self.guest.has_room(more);
        match &self.region {
            _ if fits => self.tables = tables,
            Some(region) => drop(region.count_tables(0, more)),
            None => {}
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

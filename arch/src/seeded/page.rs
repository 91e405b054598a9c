//! Pages that only cache maintenance keeps consistent, for tests of seeded bugs.

use core::sync::atomic::{AtomicU64, Ordering};

use base::addr::{PAGE, PhysAddr, VirtAddr};
use base::port::Frames;

use super::cache;
use crate::imp;
use crate::mmu::PageTable;
use crate::types::{MapError, Memory, Rights};

/// A page that every kernel maps cacheable, against the rules: only cache maintenance keeps it
/// consistent between domains.
#[derive(Clone, Copy, Debug)]
pub struct SharedPage {
    words: &'static [AtomicU64],
}

impl SharedPage {
    /// Maps `page` forever. It must not be mapped in this kernel.
    pub fn map(
        table: &mut PageTable,
        frames: &dyn Frames,
        page: PhysAddr,
    ) -> Result<SharedPage, MapError> {
        let at = page.to_virt();
        table.map(frames, at, page, PAGE, Memory::Cached, Rights::ReadWrite)?;
        // SAFETY: mapped above, forever, and accessed only as atomic words.
        let words = unsafe { core::slice::from_raw_parts(at.0 as *const AtomicU64, 512) };
        Ok(SharedPage { words })
    }

    pub fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    /// Returns its virtual address.
    pub fn start(&self) -> usize {
        self.words.as_ptr() as usize
    }
}

/// Stores to a mapped word that belongs to the caller.
pub fn store(at: VirtAddr, value: u64) {
    // SAFETY: the caller's contract; aligned down, and accessed only as an atomic word.
    unsafe { AtomicU64::from_ptr((at.0 & !7) as *mut u64) }.store(value, Ordering::Relaxed);
}

/// The return instruction.
const RETURN: u32 = if imp::cpu::ISA == abi::boot::isa::AARCH64 { 0xd65f_03c0 } else { 0x8067 };

/// Writes a function to `page`, which must not be mapped in this kernel, and calls it.
pub fn run_code(
    table: &mut PageTable,
    frames: &dyn Frames,
    page: PhysAddr,
) -> Result<(), MapError> {
    let at = page.to_virt();
    let shared = SharedPage::map(table, frames, page)?;
    shared.words[0].store(u64::from(RETURN), Ordering::Relaxed);
    cache::sync_code(shared.start(), 4);
    table.unmap(at, PAGE)?;
    table.map(frames, at, page, PAGE, Memory::Cached, Rights::ReadExecute)?;
    // SAFETY: the page holds a function of this ISA that returns at once, mapped executable.
    let function: extern "C" fn() = unsafe { core::mem::transmute(at.0 as *const ()) };
    function();
    Ok(())
}

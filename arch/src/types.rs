//! Types of the contract that are the same in every ISA.

use base::addr::{PhysAddr, VirtAddr};
use base::id::Vector;

/// What interrupted this core. Already acknowledged and ended at the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The core's one-shot timer; it is stopped.
    Timer,
    /// Another core of this domain, with the kind it sent (0..=3).
    Core(u8),
    /// A doorbell of the fabric. Edges coalesce: look at memory, count nothing.
    Doorbell(Vector),
    /// Spurious.
    None,
}

/// What code of programs calls, through `program::called`.
pub trait Called {
    /// With the context of the caller's instance, and what the program gave: of a number of 32
    /// bits, the answer too, only the lower half counts.
    extern "C" fn call(context: u64, first: u64, second: u64, third: u64) -> u64;
}

/// Kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Instruction fetch.
    Execute,
}

/// A synchronous exception of kernel code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No mapping, or not with that right.
    Page {
        /// Faulting address.
        address: u64,
        /// What was tried.
        access: Access,
    },
    /// Not an instruction.
    Illegal,
    /// Breakpoint instruction.
    Breakpoint,
    /// Misaligned access or program counter.
    Unaligned {
        /// Faulting address.
        address: u64,
    },
    /// Anything else, by the ISA's own code.
    Other(u64),
}

/// The kernel's handlers. Both run with interrupts masked.
pub struct Handlers {
    /// And the interrupted code's frame. May switch threads; returns to that code, at the frame's
    /// pc, when its thread runs again.
    pub interrupt: fn(Interrupt, &mut crate::trap::TrapFrame),
    /// Returning resumes at the frame's pc, which it may have changed.
    pub fault: fn(&mut crate::trap::TrapFrame, Fault),
}

/// How a mapping treats memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Write-back, inner and outer shareable within the domain.
    Cached,
    /// Normal, non-cacheable.
    Uncached,
    /// Device: no reordering, no merging.
    Device,
}

/// What a mapping permits. There is no value that both writes and executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Loads.
    Read,
    /// Loads and stores.
    ReadWrite,
    /// Loads and instruction fetches.
    ReadExecute,
}

/// One leaf of a page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First byte.
    pub virt: VirtAddr,
    /// What it shows.
    pub phys: PhysAddr,
    /// 4 KiB, 2 MiB or 1 GiB.
    pub bytes: u64,
    /// Treatment.
    pub memory: Memory,
    /// Rights.
    pub rights: Rights,
}

/// Why a mapping was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// No frame for a table.
    NoMemory,
    /// Something is mapped there already.
    Overlap,
    /// Nothing, or only part of a large page, is mapped there.
    NotMapped,
    /// Not page aligned, empty, or outside of what the ISA can map.
    Range,
}

/// Tables of the last level that a `Pages` knows: 16 MiB.
pub(crate) const MAX_LEAF_TABLES: usize = 8;

/// Room for them; [`MapError::Range`] when `[virt, virt + bytes)` has more, or begins within one.
pub(crate) fn leaf_tables(virt: u64, bytes: u64) -> Result<[usize; MAX_LEAF_TABLES], MapError> {
    const SPAN: u64 = 512 * base::addr::PAGE;
    let fits = virt.is_multiple_of(SPAN) && bytes <= SPAN * MAX_LEAF_TABLES as u64;
    fits.then_some([0; MAX_LEAF_TABLES]).ok_or(MapError::Range)
}

/// Why the doorbell device could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellError {
    /// No ivshmem device on bus 0.
    NotFound,
    /// It has no MSI-X capability or too few vectors.
    Vectors,
}

/// Why a core did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// There is no such core.
    NoSuchCore,
    /// The platform refused, with its code.
    Refused(i64),
}

/// Sections of the running image, as virtual addresses `[start, end)`, page aligned.
#[derive(Clone, Copy, Debug)]
pub struct ImageLayout {
    /// Code.
    pub text: (u64, u64),
    /// Constants.
    pub rodata: (u64, u64),
    /// Data and bss, without the stacks.
    pub data: (u64, u64),
    /// The boot stack of core 0; the page below it is a guard and stays unmapped.
    pub boot_stack: (u64, u64),
    /// Every cross-domain access, inside of text.
    pub xdomain: (u64, u64),
}

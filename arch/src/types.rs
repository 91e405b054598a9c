//! Types of the contract, the same for every ISA.

use base::addr::{PhysAddr, VirtAddr};
use base::id::Vector;

/// Reason for an interrupt, already acknowledged and ended at the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The one-shot timer of this core, which is now stopped.
    Timer,
    /// Another core of this domain, with the kind that it sent (0 to 3).
    Core(u8),
    /// A doorbell. Edges coalesce: the handler looks at memory and counts nothing.
    Doorbell(Vector),
    /// Spurious.
    None,
}

/// A kernel function that compiled code of programs calls, through `program::import_address`.
pub trait DirectImport {
    /// Called with the context of the caller's instance and the program's arguments. Of a 32-bit
    /// argument or result only the lower half is defined.
    extern "C" fn call(context: u64, first: u64, second: u64, third: u64, fourth: u64) -> Direct;
}

/// What a [`DirectImport`] returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    pub result: u64,
    /// If it is not 0, the call has no result: it continues at this address, for the same caller
    /// but with any arguments.
    pub next: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Execute,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No mapping, or one without the required right. `is_cached`: this core's TLB may still have
    /// what caused the fault when the page table allows the access; see `mmu::flush_here`.
    Page { address: u64, access: Access, is_cached: bool },
    /// An undefined instruction.
    Illegal,
    /// Breakpoint instruction.
    Breakpoint,
    /// Misaligned access or program counter.
    Unaligned { address: u64 },
    /// Anything else; the ISA's own code.
    Other(u64),
}

/// Cacheability of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Write-back; coherent among the cores of the domain only.
    Cached,
    /// Normal memory, non-cacheable.
    Uncached,
    /// Device memory: no reordering, no merging.
    Device,
}

/// Rights of a mapping. None allows both writing and executing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    Read,
    ReadWrite,
    ReadExecute,
}

/// A leaf of a page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub virt: VirtAddr,
    pub phys: PhysAddr,
    pub bytes: u64,
    pub memory: Memory,
    pub rights: Rights,
}

/// Reason why a mapping was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// No frame for a table.
    NoMemory,
    /// Something is already mapped there.
    Overlap,
    /// Nothing is mapped there, or only part of a large page.
    NotMapped,
    /// Not page-aligned, empty, or outside the range that the ISA can map.
    Range,
}

/// Maximum tables of the last level of a `Pages`: 16 MiB.
pub(crate) const MAX_LEAF_TABLES: usize = 8;

/// Returns an array for the last-level tables of `[virt, virt + bytes)`, or [`MapError::Range`] if
/// the range needs more than [`MAX_LEAF_TABLES`] or does not start where a table starts.
pub(crate) fn leaf_tables(virt: u64, bytes: u64) -> Result<[usize; MAX_LEAF_TABLES], MapError> {
    const SPAN: u64 = 512 * base::addr::PAGE;
    let fits = virt.is_multiple_of(SPAN) && bytes <= SPAN * MAX_LEAF_TABLES as u64;
    fits.then_some([0; MAX_LEAF_TABLES]).ok_or(MapError::Range)
}

/// Reason why the doorbell device cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellError {
    /// No ivshmem device on bus 0.
    NotFound,
    /// It has no MSI-X capability, or too few vectors.
    Vectors,
}

/// Reason why a core did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// There is no such core.
    NoSuchCore,
    /// The platform refused, with this code.
    Refused(i64),
}

/// Sections of the running image: virtual addresses `[start, end)`, page-aligned.
#[derive(Clone, Copy, Debug)]
pub struct ImageLayout {
    pub text: (u64, u64),
    pub rodata: (u64, u64),
    /// Data and bss, without stacks.
    pub data: (u64, u64),
    /// The boot stack of core 0. The page below it is an unmapped guard.
    pub boot_stack: (u64, u64),
    /// The code of all accesses between domains; part of `text`.
    pub xdomain: (u64, u64),
}

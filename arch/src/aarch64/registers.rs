//! System registers: two macros to reach them, and the values this kernel gives them.

/// Reads a system register.
macro_rules! read {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading the registers of EL1 that this crate names changes nothing.
        unsafe {
            core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nomem, nostack))
        };
        value
    }};
}

/// Writes a system register; the caller's `unsafe` answers for what that does.
macro_rules! write {
    ($name:literal, $value:expr) => {
        core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) $value as u64, options(nostack))
    };
}

pub(super) use {read, write};

/// Index 0 write-back, 1 normal non-cacheable, 2 device nGnRE: the order of `types::Memory`.
pub const MAIR: u64 = 0x04_44_ff;

/// 48-bit halves, 4 KiB granules, walks write-back inner shareable, 40-bit PAs, and the ASID from
/// TTBR1, so that one write changes table and ASID together.
pub const TCR: u64 = 16
    | 1 << 8
    | 1 << 10
    | 3 << 12
    | 16 << 16
    | 1 << 22
    | 1 << 24
    | 1 << 26
    | 3 << 28
    | 2 << 30
    | 2 << 32;

/// The lower half is empty: no walks by TTBR0.
pub const TCR_NO_LOWER: u64 = 1 << 7;

/// MMU, caches, stack alignment checks, and the bits that are one.
pub const SCTLR: u64 = 0x30d0_0800 | 1 | 1 << 2 | 1 << 3 | 1 << 12;

/// Writable is never executable.
pub const SCTLR_WXN: u64 = 1 << 19;

/// FP and SIMD at EL1.
pub const CPACR: u64 = 3 << 20;

/// ASID of the kernel's table; the boot table's entries belong to ASID 0.
pub const KERNEL_ASID: u64 = 1 << 48;

//! System registers: two macros to access them, and the values that this kernel sets.

/// Reads a system register.
macro_rules! read {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading the EL1 registers that this crate names has no effect.
        unsafe {
            core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nomem, nostack))
        };
        value
    }};
}

/// Writes a system register; the caller's `unsafe` block says why the value is right.
macro_rules! write {
    ($name:literal, $value:expr) => {
        core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) $value as u64, options(nostack))
    };
}

pub(super) use {read, write};

/// Index 0: write-back; 1: normal non-cacheable; 2: device nGnRE. The order of `types::Memory`.
pub const MAIR: u64 = 0x04_44_ff;

/// 48-bit halves, 4 KiB granules, walks write-back inner shareable, 40-bit PAs, ASID from TTBR1 so
/// that one write changes table and ASID together.
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

/// No walks through TTBR0: the lower half is empty.
pub const TCR_NO_LOWER: u64 = 1 << 7;

/// MMU, caches, stack alignment checks, and the bits that must be one.
pub const SCTLR: u64 = 0x30d0_0800 | 1 | 1 << 2 | 1 << 3 | 1 << 12;

/// Writable memory is never executable.
pub const SCTLR_WXN: u64 = 1 << 19;

/// FP and SIMD at EL1.
pub const CPACR: u64 = 3 << 20;

/// ASID of the kernel's table; the boot table has ASID 0.
pub const KERNEL_ASID: u64 = 1 << 48;

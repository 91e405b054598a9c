//! Control and status registers, by name or by number (in decimal or hexadecimal, as the assembler
//! takes it) where the assembler does not know the name.

/// Reads a CSR.
macro_rules! read {
    ($csr:literal) => {{
        let value: u64;
        // SAFETY: reading one of the CSRs of this directory has no effect; not `nomem`, so that
        // the read stays where it is among memory accesses.
        unsafe { core::arch::asm!(concat!("csrr {}, ", $csr), out(reg) value, options(nostack)) };
        value
    }};
}

/// Writes a CSR; the caller's `unsafe` block says why that value is right.
macro_rules! write {
    ($csr:literal, $value:expr) => {
        core::arch::asm!(concat!("csrw ", $csr, ", {}"), in(reg) $value, options(nostack))
    };
}

/// Sets bits of a CSR; the caller's `unsafe` block says why.
macro_rules! set {
    ($csr:literal, $bits:expr) => {
        core::arch::asm!(concat!("csrs ", $csr, ", {}"), in(reg) $bits, options(nostack))
    };
}

/// Clears bits of a CSR; the caller's `unsafe` block says why.
macro_rules! clear {
    ($csr:literal, $bits:expr) => {
        core::arch::asm!(concat!("csrc ", $csr, ", {}"), in(reg) $bits, options(nostack))
    };
}

pub(super) use {clear, read, set, write};

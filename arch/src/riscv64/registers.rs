//! Control and status registers, by name, or by number (decimal or hexadecimal) if the assembler
//! does not know the name.

/// Reads a CSR.
macro_rules! read {
    ($csr:literal) => {{
        let value: u64;
        // SAFETY: reading the CSRs that this directory names has no effect. Not `nomem`, so that
        // the read keeps its position among memory accesses.
        unsafe { core::arch::asm!(concat!("csrr {}, ", $csr), out(reg) value, options(nostack)) };
        value
    }};
}

/// Writes a CSR; the caller's `unsafe` block says why the value is right.
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

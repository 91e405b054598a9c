//! Finds the exception entries of a guest without known symbols: the tables that it writes to
//! VBAR_EL1. The instruction that does so is recognised when it is translated, and its source
//! register is read when it is executed. No block of a table can have been executed, and so
//! translated, before that.

use crate::class::Isa;
use std::sync::{Mutex, PoisonError};

/// Bytes of a table.
const BYTES: u64 = 2048;
/// Maximum tables: an early one, the usual one, and one per variant of branch hardening.
const MOST: usize = 16;

/// Tables that are or were in force.
#[derive(Debug, Default)]
pub struct Tables(Mutex<Vec<u64>>);

impl Tables {
    /// Adds a table. Old ones are kept.
    pub fn add(&self, base: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let base = base & !(BYTES - 1);
        if !known.contains(&base) && known.len() < MOST {
            known.push(base);
        }
    }

    /// Returns whether `at` is an exception entry of one of them.
    pub fn has_entry(&self, isa: Isa, at: u64) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().any(|&base| isa.is_entry(at, (base, base.saturating_add(BYTES))))
    }
}

/// Returns the register from which `word` sets VBAR_EL1, if it does.
pub fn source(isa: Isa, word: u32) -> Option<usize> {
    let sets = isa == Isa::Aarch64 && word & !0x1f == 0xd518_c000;
    // Register 31 is zero: no table.
    (sets && word & 0x1f != 0x1f).then_some((word & 0x1f) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_learnt_from_the_register() {
        assert_eq!(source(Isa::Aarch64, 0xd518_c008), Some(8), "msr vbar_el1, x8");
        assert_eq!(source(Isa::Aarch64, 0xd518_c01f), None, "msr vbar_el1, xzr");
        assert_eq!(source(Isa::Aarch64, 0xd538_c008), None, "mrs x8, vbar_el1");
        assert_eq!(source(Isa::Riscv64, 0xd518_c008), None);
        let tables = Tables::default();
        assert!(!tables.has_entry(Isa::Aarch64, 0));
        tables.add(0xffff_8000_8001_0800);
        tables.add(0xffff_ffff_ffff_f800);
        assert!(tables.has_entry(Isa::Aarch64, 0xffff_8000_8001_0c00));
        assert!(!tables.has_entry(Isa::Aarch64, 0xffff_8000_8001_0c04));
        assert!(!tables.has_entry(Isa::Aarch64, 0xffff_8000_8001_1000));
        (0..20).for_each(|i| tables.add(i * BYTES));
        assert!(tables.has_entry(Isa::Aarch64, 0) && !tables.has_entry(Isa::Aarch64, 19 * BYTES));
    }
}

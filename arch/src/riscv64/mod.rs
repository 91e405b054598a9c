//! RV64GC in S-mode on a board with AIA (IMSIC), Sstc, Svpbmt and Zicbom. M-mode below it only
//! starts and stops harts (SBI HSM). `contract.rs` documents the exports.

pub mod backtrace;
mod boot_table;
pub mod cache;
pub mod context;
pub mod cpu;
mod dispatch;
pub mod doorbell;
pub mod early;
mod entry;
mod frame;
pub mod image;
mod imsic;
pub mod irq;
mod mmio;
pub mod mmu;
mod pci;
pub mod power;
mod probe;
pub mod program;
mod pte;
mod registers;
mod rescue;
mod sbi;
#[cfg(feature = "seeded")]
mod seeded;
pub mod smp;
pub mod timer;
pub mod trap;
mod vectors;
pub mod words;

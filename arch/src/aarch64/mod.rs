//! AArch64 at EL1 on a GICv2 board. `contract.rs` documents the exports.

pub mod backtrace;
pub mod cache;
pub mod context;
pub mod cpu;
mod descriptor;
mod dispatch;
pub mod doorbell;
pub mod early;
mod entry;
mod frame;
mod gic;
pub mod image;
pub mod irq;
mod mmio;
pub mod mmu;
pub mod power;
mod probe;
pub mod program;
mod psci;
mod registers;
mod rescue;
#[cfg(feature = "seeded")]
mod seeded;
pub mod smp;
pub mod timer;
pub mod trap;
mod vectors;
pub mod words;

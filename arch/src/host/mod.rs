//! The contract on a host, so that tests of the kernel crates run for real.
//!
//! A host thread is a core. [`machine`] is the chip around the cores of one domain: pending
//! interrupts, timers, a clock that may be virtual, and a record of doorbells rung. Interrupts are
//! delivered when a core unmasks them, never between two instructions. Page tables are a model;
//! contexts are real. A simulation of whole kernels replaces the machine by its own [`chip`].

pub mod backtrace;
pub mod cache;
pub mod chip;
pub mod context;
pub mod cpu;
pub mod delivery;
pub mod doorbell;
pub mod early;
mod frame;
pub mod image;
pub mod irq;
pub mod machine;
pub mod mmu;
pub mod power;
mod probe;
pub mod program;
mod rescue;
pub mod smp;
pub mod timer;
pub mod trap;
pub mod words;

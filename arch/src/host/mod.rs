//! The contract on a host, so that the kernel crates' tests run for real.
//!
//! A thread of the host is a core. [`machine`] is the chip around the cores of one domain: pending
//! interrupts, timers, a clock that may be virtual, and a record of what was rung. Interrupts are
//! delivered where a core unmasks them, never between two instructions. Page tables are a model
//! with the refusals of the real ones; contexts are real.

pub mod backtrace;
pub mod cache;
pub mod context;
pub mod cpu;
pub mod doorbell;
pub mod early;
pub mod image;
pub mod irq;
pub mod machine;
pub mod mmu;
pub mod power;
pub mod program;
pub mod smp;
pub mod timer;
pub mod trap;
pub mod words;

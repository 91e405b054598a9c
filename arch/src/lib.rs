//! The machine behind the contract: `contract.rs` lists what each ISA directory (`aarch64/`,
//! `riscv64/`, `host/`) exports and what it promises; nothing outside this crate contains assembly
//! or `cfg(target_arch)`. The types of the contract are in [`types`] and [`handlers`].
//!
//! On top of it, written once for all ISAs:
//! - [`attend`]: the one way to wait for another core or domain
//! - [`backtrace`]: return addresses by frame pointers, and redirecting a frame
//! - [`domain_lock`]: a lock between domains, of plain words
//! - [`exclusion`]: a value for one core at a time, of one kernel or of all
//! - [`hold`]: work that is not preempted, and the heap that it allocates from
//! - [`lock`]: ticket locks, with interrupts masked while held and ranks checked in debug builds
//! - [`shared`]: words between domains, publish and consume
//! - [`probe`]: accesses that may fault without ending the kernel
//! - [`racing`]: copies of memory that programs access at the same time
//! - [`rescue`]: work that is aborted when memory that it needs is lost
//! - `seeded`: seeded bugs, in kernels built for the sanitizer's tests only
//! - [`time`]: soc time, the local clock plus a calibrated offset
#![cfg_attr(target_os = "none", no_std)]

use arch_copy as _;

pub mod attend;
pub mod backtrace;
pub mod domain_lock;
pub mod exclusion;
pub mod handlers;
pub mod hold;
pub mod lock;
mod order;
pub mod probe;
pub mod racing;
pub mod rescue;
#[cfg(feature = "seeded")]
pub mod seeded;
pub mod shared;
mod ticks;
pub mod time;
pub mod types;

mod contract;

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
#[path = "aarch64/mod.rs"]
mod imp;
#[cfg(all(target_os = "none", target_arch = "riscv64"))]
#[path = "riscv64/mod.rs"]
mod imp;
#[cfg(not(target_os = "none"))]
#[path = "host/mod.rs"]
mod imp;

#[cfg(not(feature = "seeded"))]
pub use imp::cache;
#[cfg(feature = "seeded")]
pub use seeded::cache;

pub use imp::{
    context, cpu, doorbell, early, image, irq, mmu, power, program, smp, timer, trap, words,
};

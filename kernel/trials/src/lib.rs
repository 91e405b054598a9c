//! Commands of the monitor for tests and measurements only, and the code that they need in a
//! kernel.
//!
//! Contract: `kernel/image` imports this crate with its feature `trials` only, so ordinary images
//! contain nothing of it. It adds [`COMMANDS`] to the monitor's, answers
//! [`peers::Procedure::Nest`], and handles the doorbell of [`pingpong`]. Threads that the commands
//! start get no argument but a number, hence the statics.
//!
//! [`peers::Procedure::Nest`]: kernel_platform::peers::Procedure::Nest
//!
//! - [`stress`], `nest`, [`pipes`], [`net`], [`overlap`], [`dma`]: load this kernel and its peers,
//!   and check the results
//! - [`mixed`], [`survive`]: all services and calls at once, while a peer may die
//! - `handover`, `moved`, `remap`: memory and mappings with seeded bugs, for the sanitizer
//! - [`twins`], [`planted`]: references into other kernels' images
//! - [`bench`], [`blocks`], [`steps`], [`faults`], [`table6`], [`section93`], [`pingpong`],
//!   [`sequence`], [`episode`]: measurements; [`measure`] has the watch, [`beside`] runs a command
//!   on a peer meanwhile
//! - [`aside`]: runs a command on a thread of its own; [`program`]: runs a program
//! - [`exhaust`]: takes a kernel's memory; [`hang`]: hangs
#![no_std]

extern crate alloc;

mod aside;
mod bench;
mod beside;
mod blocks;
mod dma;
mod episode;
mod exhaust;
mod faults;
#[cfg(feature = "seeded")]
mod handover;
mod hang;
mod measure;
mod mixed;
#[cfg(feature = "seeded")]
mod moved;
mod nest;
mod net;
mod overlap;
pub mod pingpong;
mod pipes;
mod planted;
mod program;
#[cfg(feature = "seeded")]
mod remap;
mod section93;
mod sequence;
mod steps;
mod stress;
mod survive;
mod table6;
mod twins;

use core::fmt::Write;
use kernel_monitor::commands::{Command, buffer, first_peer, joined, number};
use kernel_services::session::{Failure, Outcome, Session};
pub use nest::nest;

/// The commands of all modules.
pub const COMMANDS: &[&[Command]] = &[
    dma::COMMANDS,
    episode::COMMANDS,
    pipes::COMMANDS,
    overlap::COMMANDS,
    net::COMMANDS,
    section93::COMMANDS,
    sequence::COMMANDS,
    stress::COMMANDS,
    bench::COMMANDS,
    faults::COMMANDS,
    twins::COMMANDS,
    pingpong::COMMANDS,
    aside::COMMANDS,
    program::COMMANDS,
    exhaust::COMMANDS,
    hang::COMMANDS,
    mixed::COMMANDS,
    steps::COMMANDS,
    survive::COMMANDS,
    #[cfg(feature = "seeded")]
    handover::COMMANDS,
    #[cfg(feature = "seeded")]
    moved::COMMANDS,
    #[cfg(feature = "seeded")]
    remap::COMMANDS,
];

/// Prints the value of a record: the mean of `rounds` rounds, which took `total` ns.
fn record(out: &mut dyn Write, total: u64, rounds: u64) -> Outcome {
    let tenths = total.saturating_mul(10) / rounds.max(1);
    Ok(writeln!(out, "{}.{} ns", tenths / 10, tenths % 10)?)
}

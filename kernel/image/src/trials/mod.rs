//! Experiments: commands that only tests and measurements use, and what these need in a kernel. A
//! kernel that people run has none of it (the feature `trials`).

mod aside;
mod bench;
mod beside;
mod blocks;
mod dma;
mod faults;
#[cfg(feature = "seeded")]
mod handover;
mod hoard;
mod measure;
mod nest;
mod net;
mod overlap;
pub mod pingpong;
mod pipes;
mod planted;
mod section93;
mod sequence;
mod stress;
mod table6;
mod twins;

use crate::commands::{Command, buffer, first_peer, joined, number};
use crate::session::{Failure, Outcome, Session};
use core::fmt::Write;
pub use nest::nest;

/// All of them.
pub const COMMANDS: &[&[Command]] = &[
    dma::COMMANDS,
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
    hoard::COMMANDS,
    #[cfg(feature = "seeded")]
    handover::COMMANDS,
];

/// What one of `rounds` took, behind the name of a record.
fn record(out: &mut dyn Write, total: u64, rounds: u64) -> Outcome {
    let tenths = total.saturating_mul(10) / rounds.max(1);
    Ok(writeln!(out, "{}.{} ns", tenths / 10, tenths % 10)?)
}

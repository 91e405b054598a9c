//! `pen lab`: time and energy of whole systems, Penumbra's and the one it is compared with.

pub mod linux;

use crate::place::Place;
use clap::Subcommand;
use std::process::ExitCode;

/// What the lab does.
#[derive(Subcommand)]
pub enum Verb {
    /// Debian's stock arm64 kernel with benchmarks of ours, on one core.
    Linux {
        /// What to do with it.
        #[command(subcommand)]
        verb: linux::Verb,
    },
}

/// `pen lab`
pub fn lab(place: &Place, verb: &Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Linux { verb } => linux::linux(place, verb),
    }
}

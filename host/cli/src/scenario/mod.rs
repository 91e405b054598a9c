//! System tests: each boots a board and reads like a scenario.
//!
//! A scenario is a function over a [`Rig`]; add it to [`ALL`]. No retries, and no assertion on host
//! seconds other than a patience that only a hang exceeds.

mod boot;
pub mod rig;

pub use rig::{Failure, Parts, Rig};
use std::time::Duration;

/// Longer than any step of a healthy board takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One system test.
pub struct Scenario {
    /// Its name: `subject.what-it-shows`.
    pub name: &'static str,
    /// The board that it needs.
    pub board: &'static str,
    /// Only under `--nightly`.
    pub nightly: bool,
    /// What happens.
    pub run: fn(&mut Rig) -> Result<(), Failure>,
}

/// All of them, in order.
pub const ALL: &[Scenario] = &[
    Scenario { name: "boot.solo", board: "solo", nightly: false, run: boot::to_prompt },
    Scenario { name: "boot.solo-1", board: "solo-1", nightly: false, run: boot::to_prompt },
    Scenario { name: "boot.duo", board: "duo", nightly: false, run: boot::to_prompt },
    Scenario { name: "boot.duo-1x1", board: "duo-1x1", nightly: false, run: boot::to_prompt },
];

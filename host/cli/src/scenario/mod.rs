//! System tests: each boots a board and reads like a scenario.
//!
//! A scenario is a function over a [`Rig`]; add it to [`ALL`]. No retries, and no assertion on host
//! seconds other than a patience that only a hang exceeds.

mod balloon;
mod boot;
mod calls;
mod clock;
mod dma;
mod machine;
mod net;
mod peers;
pub mod rig;
mod services;

pub use rig::{Failure, Parts, Rig};
use std::time::Duration;

/// Longer than any step of a healthy board takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

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
    Scenario { name: "boot.twin", board: "twin", nightly: false, run: boot::to_prompt },
    Scenario { name: "memory.protection", board: "duo", nightly: false, run: machine::protection },
    Scenario { name: "memory.balloon", board: "duo", nightly: false, run: balloon::to_and_fro },
    Scenario { name: "cores.threads", board: "solo", nightly: false, run: machine::threads },
    Scenario { name: "cores.shootdown", board: "twin", nightly: false, run: machine::shootdown },
    Scenario { name: "cores.bench", board: "duo", nightly: false, run: machine::bench },
    Scenario { name: "devices.solo-1", board: "solo-1", nightly: false, run: machine::devices },
    Scenario { name: "devices.dma-solo-1", board: "solo-1", nightly: false, run: dma::solo },
    Scenario { name: "devices.dma-duo", board: "duo", nightly: false, run: dma::duo },
    Scenario { name: "domain.sleepers", board: "duo", nightly: false, run: clock::sleepers },
    Scenario { name: "domain.clock", board: "duo", nightly: false, run: clock::wakes },
    Scenario { name: "rpc.storm", board: "duo", nightly: false, run: peers::storm },
    Scenario { name: "rpc.nested", board: "duo", nightly: false, run: calls::nested },
    Scenario { name: "rpc.hung-peer", board: "duo", nightly: false, run: calls::hung },
    Scenario { name: "services.solo", board: "solo", nightly: false, run: services::alone },
    Scenario { name: "services.duo", board: "duo", nightly: false, run: services::together },
    Scenario {
        name: "services.shared",
        board: "duo-shared",
        nightly: false,
        run: services::shared,
    },
    Scenario { name: "services.death", board: "duo", nightly: false, run: services::survives },
    Scenario { name: "net.solo", board: "solo", nightly: false, run: net::alone },
    Scenario { name: "net.duo", board: "duo", nightly: false, run: net::together },
    Scenario { name: "net.shared", board: "duo-shared", nightly: false, run: net::shared },
    Scenario { name: "domain.power", board: "duo", nightly: false, run: peers::power },
    Scenario { name: "domain.off-twice", board: "duo", nightly: false, run: peers::off_twice },
    Scenario { name: "domain.off-busy", board: "duo-1x3", nightly: false, run: peers::off_busy },
    Scenario { name: "domain.panic", board: "duo", nightly: false, run: peers::panic },
    Scenario { name: "domain.kills", board: "duo", nightly: false, run: peers::kills },
    Scenario { name: "domain.main-killed", board: "duo", nightly: false, run: peers::main_killed },
    Scenario { name: "domain.soc-killed", board: "duo", nightly: false, run: peers::soc_killed },
];

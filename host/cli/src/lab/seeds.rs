//! Bugs planted in kernels of their own (`arch::seeded`), one a run of an exact board, each in the
//! kernel of one ISA: the sanitizer must find every one, and nothing where none is planted.

use super::checks::Kit;
use super::findings::{self, Finding};
use super::model::Choice;
use crate::commands;
use crate::instance::Instance;
use crate::kernels::{self, Built};
use crate::machine::Options;
use ::lab::model::Mode;
use anyhow::ensure;
use board::Isa;
use std::time::{Duration, Instant};

/// Longer than any such run takes on a loaded host; one that a bug has stopped ends here.
const PATIENCE: Duration = Duration::from_secs(60);

/// A planted bug.
struct Seed {
    /// Its number in `arch::seeded`.
    number: u32,
    /// In words.
    name: &'static str,
    /// What shows it, by the ISA that has it.
    script: fn(Isa) -> &'static str,
    /// What may be found of it.
    kinds: &'static [&'static str],
}

fn handover(_: Isa) -> &'static str {
    "handover 3"
}

fn dma(isa: Isa) -> &'static str {
    if isa == Isa::Aarch64 { "dma 4K 4K" } else { "on shadow dma 4K 4K" }
}

fn code(isa: Isa) -> &'static str {
    if isa == Isa::Aarch64 { "handover code" } else { "on shadow handover code" }
}

const CLEAN: &str = "missing clean";
const INVALIDATE: &str = "missing invalidate";
const LOST: &str = "lost update";
const TWO: &str = "two dirty copies";
const CODE: &str = "fetch of uncleaned code";
const ATOMIC: &str = "atomic on a shared line";

const SEEDS: &[Seed] = &[
    Seed { number: 1, name: "no clean", script: handover, kinds: &[CLEAN] },
    Seed { number: 2, name: "no invalidate", script: handover, kinds: &[INVALIDATE] },
    Seed { number: 3, name: "last line not cleaned", script: handover, kinds: &[CLEAN] },
    Seed { number: 4, name: "last line not invalidated", script: handover, kinds: &[INVALIDATE] },
    Seed { number: 5, name: "first line not cleaned", script: handover, kinds: &[CLEAN] },
    Seed { number: 6, name: "no barrier behind the clean", script: handover, kinds: &[CLEAN] },
    Seed { number: 7, name: "invalidate for clean", script: handover, kinds: &[LOST] },
    Seed { number: 8, name: "clean for invalidate", script: handover, kinds: &[INVALIDATE] },
    Seed { number: 12, name: "clean before the write", script: handover, kinds: &[CLEAN] },
    Seed {
        number: 13,
        name: "invalidate too early",
        script: handover,
        kinds: &[CLEAN, INVALIDATE],
    },
    Seed { number: 14, name: "write out of turn", script: handover, kinds: &[TWO, LOST, CLEAN] },
    Seed { number: 15, name: "write without invalidate", script: handover, kinds: &[LOST] },
    Seed { number: 16, name: "false sharing", script: handover, kinds: &[CLEAN, TWO, LOST] },
    Seed { number: 17, name: "read-modify-write", script: handover, kinds: &[ATOMIC] },
    Seed { number: 18, name: "compare and exchange", script: handover, kinds: &[ATOMIC] },
    Seed { number: 19, name: "swap outside of the bank", script: handover, kinds: &[ATOMIC] },
    Seed { number: 1, name: "device reads uncleaned", script: dma, kinds: &[CLEAN] },
    Seed { number: 9, name: "device writes a dirty buffer", script: dma, kinds: &[LOST] },
    Seed { number: 10, name: "old copy of a device's data", script: dma, kinds: &[INVALIDATE] },
    Seed { number: 11, name: "code not made visible", script: code, kinds: &[CODE] },
];

/// Runs where nothing is planted: what shows each bug, without it.
const CONTROLS: &[&str] = &[
    "handover 3; handover code; dma 4K 4K; on shadow dma 4K 4K; on shadow handover code",
    "ping shadow 1; domain off shadow; domain on shadow; ping shadow 1",
];

/// What came of all of them.
pub struct Tally {
    /// Bugs, each on both ISAs.
    pub planted: usize,
    /// Those that were not found, and what was found instead.
    pub missed: Vec<String>,
    /// What was found where nothing is planted.
    pub false_reports: Vec<Finding>,
}

/// `sanitizer.seeded`: every bug is found on every ISA, and nothing else.
pub fn seeded(kit: &Kit<'_>) -> anyhow::Result<()> {
    let Tally { missed, false_reports, .. } = run_all(kit)?;
    ensure!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
    ensure!(false_reports.is_empty(), "nothing was planted: {false_reports:?}");
    Ok(())
}

/// Every bug on every ISA, then what shows them without one.
pub fn run_all(kit: &Kit<'_>) -> anyhow::Result<Tally> {
    let built = kernels::build_seeded(kit.place, &[Isa::Aarch64, Isa::Riscv64])?;
    let mut tally = Tally { planted: 0, missed: Vec::new(), false_reports: Vec::new() };
    for isa in [Isa::Aarch64, Isa::Riscv64] {
        for seed in SEEDS {
            let script = (seed.script)(isa);
            let all =
                run(kit, &built, &format!("seed={},{} run={script}", seed.number, isa.name()))?;
            tally.planted += 1;
            let hit = all.iter().find(|finding| seed.kinds.contains(&finding.kind.as_str()));
            match hit {
                Some(found) => eprintln!("  {:<8} {:<30} {}", isa.name(), seed.name, found.text),
                None => tally.missed.push(format!("{} on {}: {all:?}", seed.name, isa.name())),
            }
        }
    }
    for script in CONTROLS {
        tally.false_reports.extend(run(kit, &built, &format!("run={script}"))?);
    }
    Ok(tally)
}

/// Runs a board until it ends, or something is found.
fn run(kit: &Kit<'_>, built: &[Built], arguments: &str) -> anyhow::Result<Vec<Finding>> {
    let instance = Instance::at(kit.folder.clone());
    let choice = Choice { mode: Mode::Full, ..Choice::default() };
    let options = Options {
        lab: Some((choice, super::plugin()?)),
        arguments: Some(format!("{arguments};poweroff")),
        ..Options::default()
    };
    let board = kit.place.board_file("duo-1x1");
    instance.start(&commands::soc_binary()?, &board, built, &options)?;
    let start = Instant::now();
    let mut all = Vec::new();
    while all.is_empty() && start.elapsed() < PATIENCE && instance.soc().is_some() {
        std::thread::sleep(Duration::from_millis(20));
        // A line may be half written: the next look has all of it.
        all = findings::read(&kit.folder).unwrap_or_default();
    }
    instance.stop()?;
    findings::read(&kit.folder)
}

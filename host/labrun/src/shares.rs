//! What the strong kernel loses by sharing its services with a weak one: its speed on a board with
//! both, relative to its speed alone. The weak domain rests meanwhile.

use super::kit::Kit;
use super::programs::{self, TINY};
use super::run::Outcome;
use anyhow::ensure;
use deploy::install;
use lab::energy::Share;
use lab::model::Mode;
use lab::page::State;
use records::said::{Said, said};
use workbench::rig::PATIENCE;

/// The board with one kernel, and the one with two; the strong core is the same.
const BOARDS: [&str; 2] = ["solo-1", "duo-1x1"];
const ARGUMENTS: &str = "rest.shadow=0";
/// The part of the time that the weak domain rests at least: not while the board boots and the
/// programs come.
const MOST: f64 = 0.9;

/// A program and what it does: its records are times.
const PROGRAM: &str = "records";
const RUNS: [&[&str]; 2] = [&["calls"], &["files", programs::FOLDER]];
/// How often they run. When they begin depends on the host, and with it what else falls into the
/// time of a run: single ones differ by up to 2 %.
const REPETITIONS: usize = 4;
/// The command that copies by DMA: its records are throughputs.
const DMA: &str = "bench dma";

/// A share, the record of which it is one, and whether more is better there.
const SPEEDS: [(&str, &str, bool); 8] = [
    ("call", "call.write1", false),
    ("write", "file.write1", false),
    ("open", "file.open_close", false),
    ("pipe", "pipe.roundtrip", false),
    ("ext2_1k", "ext2.create8_1k", false),
    ("ext2_1m", "ext2.create8_1m", false),
    ("dma4k", "k2.t6.main_4k", true),
    ("dma1m", "k2.t6.main_1m", true),
];

/// Returns all records that a board's main kernel reports.
fn measured(kit: &Kit<'_>, board: &str) -> anyhow::Result<Vec<Said>> {
    let mut rig = programs::start(kit, (board, Mode::Energy), ARGUMENTS, PROGRAM)?;
    install::put(kit.place, &rig.instance, &kit.place.root.join(TINY.1), None, TINY.0)?;
    let mut all = Vec::new();
    for words in core::iter::repeat_n(RUNS, REPETITIONS).flatten() {
        let text = programs::run(&rig.instance, "main", PROGRAM, words)?;
        all.extend(text.lines().filter_map(said));
    }
    all.extend(rig.ask("main", DMA, PATIENCE)?.lines().filter_map(said));
    rig.instance.stop()?;
    others_rest(&Outcome::of_phases(&rig.instance.folder, "")?)?;
    Ok(all)
}

/// Checks that the domains other than the strong one have rested nearly all the time.
fn others_rest(outcome: &Outcome) -> anyhow::Result<()> {
    for (domain, shares) in outcome.lab.domains.iter().zip(&outcome.shares).skip(1) {
        let sum = |shares: &mut dyn Iterator<Item = &Share>| shares.map(|s| s.time).sum::<u64>();
        let all = sum(&mut shares.iter()) as f64;
        let rest = sum(&mut shares.iter().filter(|s| s.state == State::Inactive)) as f64 / all;
        ensure!(rest > MOST, "{} rested only {rest:.2} of the time", domain.name);
    }
    Ok(())
}

/// Returns the records `duo.main_share.*`.
pub fn records(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let [alone, both] = BOARDS.map(|board| measured(kit, board));
    let (alone, both) = (alone?, both?);
    let value = |all: &[Said], name: &str| {
        let of_name = all.iter().filter(|(known, ..)| known == name);
        let values: Vec<f64> = of_name.map(|(_, value, _)| *value).collect();
        ensure!(!values.is_empty(), "{name} was not reported");
        Ok(values.iter().sum::<f64>() / values.len() as f64)
    };
    let share = |(what, name, rises): (&str, &str, bool)| {
        let (alone, both) = (value(&alone, name)?, value(&both, name)?);
        let share = if rises { both / alone } else { alone / both };
        Ok((format!("duo.main_share.{what}"), share, "of 1".to_string()))
    };
    SPEEDS.into_iter().map(share).collect()
}

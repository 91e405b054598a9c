//! Tests of the lab itself: its time is exact, its accounts add up, and no live seat waits for a
//! dead one. `pen test lab`.

use super::model::Choice;
use super::records;
use super::run::{Bench, COUNTS, Outcome};
use super::{charges, linux, seeds, statistical, table4, table5, table6};
use crate::kernels::Built;
use crate::machine::Options;
use crate::place::Place;
use crate::scenario::{PATIENCE, Parts, Rig};
use ::lab::energy::Share;
use ::lab::model::Domain;
use ::lab::page::{Count, State};
use anyhow::{Context, bail, ensure};
use rustix::process::{Signal, kill_process};
use std::path::PathBuf;

/// The environment of a check.
pub struct Kit<'a> {
    /// The tree with its boards.
    pub place: &'a Place,
    /// Kernels of both ISAs.
    pub kernels: &'a [Built],
    /// The check's folder.
    pub folder: PathBuf,
}

/// The check cannot run; it needs this.
#[derive(Debug, thiserror::Error)]
#[error("left out: {0}")]
pub struct LeftOut(pub &'static str);

/// A check.
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Why it runs only under `--nightly` or by its full name; `None`: it runs daily.
    pub nightly: Option<&'static str>,
    /// The check itself.
    pub run: fn(&Kit<'_>) -> anyhow::Result<()>,
}

const LINUX: &str = "boots Debian twice, in minutes, and needs `./pen lab linux setup`";

/// All checks.
pub const ALL: &[Check] = &[
    // The longest come first, so that they do not run alone at the end.
    Check { name: "sanitizer.seeded.aarch64", nightly: None, run: seeds::on_aarch64 },
    Check { name: "sanitizer.seeded.riscv64", nightly: None, run: seeds::on_riscv64 },
    Check { name: "lab.exact", nightly: None, run: exact },
    Check { name: "lab.adds-up", nightly: None, run: adds_up },
    Check { name: "lab.costs", nightly: None, run: charges::costs },
    Check { name: "lab.weak-core", nightly: None, run: charges::weak_core },
    Check { name: "lab.cluster", nightly: None, run: charges::cluster },
    Check { name: "lab.inactive", nightly: None, run: inactive },
    Check { name: "lab.killed", nightly: None, run: |kit| kill(kit, "duo-1x1") },
    Check { name: "lab.statistical", nightly: None, run: statistical::statistical },
    Check { name: "lab.table4", nightly: None, run: table4::within },
    Check { name: "lab.table5", nightly: None, run: table5::within },
    Check { name: "lab.table6", nightly: None, run: table6::within },
    Check { name: "lab.linux", nightly: Some(LINUX), run: |kit| linux::repeats(kit.place) },
];

/// Ping-pong in all three ways.
pub const GAME: &str = "ping shadow 1; ping-pong doorbell 20; ping-pong words 100; \
                    ping-pong spinlock 50";

impl Kit<'_> {
    /// Runs commands on a board until it powers off.
    pub fn run(&self, board: &str, run: &str, choice: Choice) -> anyhow::Result<Outcome> {
        self.run_as(board, run, Some(choice))
    }

    /// The same, optionally in plain emulation.
    pub fn run_as(
        &self,
        board: &str,
        run: &str,
        choice: Option<Choice>,
    ) -> anyhow::Result<Outcome> {
        self.run_with(board, "", run, choice)
    }

    /// The same, with additional text before the kernels' command line.
    pub fn run_with(
        &self,
        board: &str,
        first: &str,
        run: &str,
        choice: Option<Choice>,
    ) -> anyhow::Result<Outcome> {
        let board = &self.place.board_file(board);
        let arguments = format!("{first}run={run};poweroff");
        let folder = self.folder.clone();
        Bench { folder, board, kernels: self.kernels, arguments, choice }.run()
    }
}

/// The picoseconds are the same with the host idle and loaded, and in the block-exact reference.
fn exact(kit: &Kit<'_>) -> anyhow::Result<()> {
    let first = kit.run("duo-1x1", GAME, Choice::default())?;
    let load = super::Load::begin(2);
    let loaded = kit.run("duo-1x1", GAME, Choice::default())?;
    drop(load);
    ensure!(records::agree(&first, &loaded), "a loaded host changes time:\n{first:?}\n{loaded:?}");
    let reference = kit.run("duo-1x1", GAME, Choice { quantum_ns: 0, ..Choice::default() })?;
    ensure!(reference.values.len() == 3, "records are missing: {:?}", reference.values);
    for ((name, value, _), (_, exact, _)) in first.values.iter().zip(&reference.values) {
        ensure!((value - exact).abs() <= exact * 0.02, "{name}: {value}, block-exact {exact}");
    }
    Ok(())
}

/// Returns a domain's cycles while active, and the number of its power points in use.
pub fn cycles(domain: &Domain, shares: &[Share]) -> (f64, usize) {
    let active = shares.iter().filter_map(|share| match share.state {
        State::Active(point) => Some((share.time, domain.powers.points[point].khz)),
        State::Idle(_) | State::Gated(_) | State::Inactive | State::Off => None,
    });
    let cycles = active.map(|(time, khz)| time as f64 * f64::from(khz) / 1e9).collect::<Vec<_>>();
    (cycles.iter().sum(), cycles.len())
}

/// With one cycle per instruction and no other costs, active time times frequency is the number of
/// instructions, also across a change of frequency; five idle seconds pass at once.
fn adds_up(kit: &Kit<'_>) -> anyhow::Result<()> {
    let choice = Choice { no_costs: true, ..Choice::default() };
    let run = "smp 20; frequency 1200; smp 200; frequency 350; nap 5000; frequency 77";
    let outcome = kit.run("solo-1", run, choice)?;
    let domain = outcome.lab.domains.first().context("a board without domains")?;
    let shares = outcome.shares.first().context("no shares")?;
    let (cycles, points) = cycles(domain, shares);
    let idle = |share: &&Share| matches!(share.state, State::Idle(_));
    let idle: u64 = shares.iter().filter(idle).map(|share| share.time).sum();
    let index = COUNTS.iter().position(|&(_, what)| what == Count::Instructions);
    let counted = index.map_or(0, |index| outcome.counts[0][index]) as f64;
    ensure!(points == 2, "both frequencies have their share: {shares:?}");
    ensure!((cycles - counted).abs() < 10.0, "{cycles} cycles, {counted} instructions");
    ensure!(idle >= 4_999_000_000_000, "of 5 s asleep only {idle} ps were idle");
    Ok(())
}

/// A stopped domain's clock stops for as long as the other domain says, at the power of its state.
fn inactive(kit: &Kit<'_>) -> anyhow::Result<()> {
    let run = "ping shadow 1; domain inactive shadow; nap 1000; domain on shadow; ping shadow 1";
    let outcome = kit.run("duo-1x1", run, Choice::default())?;
    let shadow = outcome.shares.get(1).context("no shadow")?;
    let found = shadow.iter().find(|share| share.state == State::Inactive);
    let share = found.context("it was never inactive")?;
    let second = 1_000_000_000_000;
    ensure!((second..second + second / 100).contains(&share.time), "inactive for {share:?}");
    // 0.1 mW.
    ensure!(share.energy_pj == u128::from(share.time) / 10_000, "at another power: {share:?}");
    Ok(())
}

/// A killed QEMU, with the turn or without, stalls no other seat, and its domain comes back.
pub fn kill(kit: &Kit<'_>, board: &str) -> anyhow::Result<()> {
    let options =
        Options { lab: Some((Choice::default(), super::plugin()?)), ..Options::default() };
    let parts = Parts {
        folder: kit.folder.clone(),
        soc: crate::commands::soc_binary()?,
        board_file: kit.place.board_file(board),
        kernels: kit.kernels.to_vec(),
        options,
    };
    let mut rig = Rig::start(&parts)?;
    rig.expect("main> ", PATIENCE)?;
    for round in 0..3 {
        rig.ask("main", "ping shadow 1", PATIENCE)?;
        if round == 2 {
            // Most of the time it is the running one, and so holds the turn.
            rig.ask("main", "on shadow aside smp 20000", PATIENCE)?;
        }
        let Some(pid) = rig.instance.machine("shadow") else { bail!("round {round}: no shadow") };
        kill_process(pid, Signal::KILL)?;
        let answer = rig.ask("main", "nap 100", PATIENCE)?;
        ensure!(answer.contains("slept 100 ms"), "round {round}: {answer}");
    }
    let answer = rig.ask("main", "ping shadow 1", PATIENCE)?;
    ensure!(answer.contains("answer from"), "it did not come back: {answer}");
    Ok(())
}

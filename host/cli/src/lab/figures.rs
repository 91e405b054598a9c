//! Figures about the lab itself, each a record of `./pen bench lab`: how exact it is, what it costs
//! the host, and what the two cores do in chip time. Which of them there are is data: benches/lab.toml.

use super::charges;
use super::checks::{GAME, Kit};
use super::model::Choice;
use super::run::Outcome;
use crate::commands;
use crate::kernels::Profile;
use crate::place::Place;
use crate::progress::Step;
use ::lab::model::Mode;
use anyhow::{Context, ensure};

const BOARD: &str = "duo-1x1";

/// Name, value, unit.
pub type Said = (String, f64, String);

type Figure = fn(&Kit<'_>) -> anyhow::Result<Vec<Said>>;

/// Which records belong to which measurement.
const FIGURES: [(&[&str], Figure); 6] = [
    (
        &["lab.pingpong_spread", "lab.pingpong_error", "lab.mailbox_error", "lab.mailbox_latest"],
        ping_pong,
    ),
    (&["lab.idle5s_host_seconds"], idle),
    (&["lab.slowdown_time", "lab.slowdown_energy"], |kit| slowdown(kit, &TIMES)),
    (&["lab.slowdown_sanitizer", "lab.slowdown_full"], |kit| slowdown(kit, &WATCHES)),
    (&["lab.weak_core_share"], weak_core),
    (&["rpc.soc_ns_int", "rpc.soc_ns_64", "rpc.soc_ns_4k"], calls),
];

/// Measures what the records of those names need.
pub fn measure(place: &Place, names: &[String]) -> anyhow::Result<Vec<Said>> {
    let (_, kernels) = commands::prepare(place, BOARD, Profile::Kernel)?;
    let folder = place.target.join("benches").join("lab");
    let kit = Kit { place, kernels: &kernels, folder };
    let mut all = Vec::new();
    for (records, figure) in FIGURES {
        if names.iter().any(|name| records.contains(&name.as_str())) {
            let step = Step::begin(&format!("measuring {}", records.join(", ")));
            all.extend(figure(&kit)?);
            step.done();
        }
    }
    Ok(all)
}

fn said(name: &str, value: f64, unit: &str) -> Said {
    (name.to_owned(), value, unit.to_owned())
}

/// Five runs on an idle host and five on a loaded one, then the block-exact reference.
fn ping_pong(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let mut runs = Vec::new();
    for load in [0, 3] {
        let load = super::Load::begin(load);
        for _ in 0..5 {
            runs.push(kit.run(BOARD, GAME, Choice::default())?);
        }
        drop(load);
    }
    let reference = kit.run(BOARD, GAME, Choice { quantum_ns: 0, ..Choice::default() })?;
    let games = reference.values.len();
    ensure!(games == 3 && runs.iter().all(|run| run.values.len() == games), "records are missing");
    let (mut spread, mut error) = (0f64, 0f64);
    for (game, (_, exact, _)) in reference.values.iter().enumerate() {
        let values = || runs.iter().map(|run| run.values[game].1);
        let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
        spread = spread.max(most - least);
        error = error.max((least - exact).abs().max((most - exact).abs()) / exact * 100.0);
    }
    let (mean, latest) = runs[0].late_ps;
    Ok(vec![
        said("lab.pingpong_spread", spread, "ns"),
        said("lab.pingpong_error", error, "%"),
        said("lab.mailbox_error", mean / 1e3, "ns"),
        said("lab.mailbox_latest", latest as f64 / 1e3, "ns"),
    ])
}

/// From the start of the soc to its end, boot and power-off included.
fn idle(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let outcome = kit.run(BOARD, "ping shadow 2; nap 5000; ping shadow 1", Choice::default())?;
    ensure!(outcome.end > 5_000_000_000_000, "it slept {} ps", outcome.end);
    Ok(vec![said("lab.idle5s_host_seconds", outcome.host, "s")])
}

/// What the host does in plain emulation in a second and a half or so.
const WORK: &str = "bench threads 20000; bench frames 200000";
const TIMES: [(Mode, &str); 2] =
    [(Mode::Time, "lab.slowdown_time"), (Mode::Energy, "lab.slowdown_energy")];
const WATCHES: [(Mode, &str); 2] =
    [(Mode::Sanitizer, "lab.slowdown_sanitizer"), (Mode::Full, "lab.slowdown_full")];

/// Host time of work under a mode by that of plain emulation, booting left out.
fn slowdown(kit: &Kit<'_>, modes: &[(Mode, &str)]) -> anyhow::Result<Vec<Said>> {
    let took = |choice: Option<Choice>| {
        let host = |run: &str| Ok::<f64, anyhow::Error>(kit.run_as(BOARD, run, choice)?.host);
        Ok::<f64, anyhow::Error>(host(WORK)? - host("ping shadow 1")?)
    };
    let plain = took(None)?;
    ensure!(plain > 0.0, "plain emulation takes no time");
    let slower = |&(mode, name): &(Mode, &str)| {
        let took = took(Some(Choice { mode, ..Choice::default() }))?;
        Ok(said(name, took / plain, "x"))
    };
    modes.iter().map(slower).collect()
}

fn weak_core(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    Ok(vec![said("lab.weak_core_share", charges::weak_share(kit)?, "%")])
}

/// Calls between the kernels, in chip time.
fn calls(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let outcome: Outcome = kit.run(BOARD, "ping shadow 2; bench rpc-soc 200", Choice::default())?;
    outcome.values.first().context("the kernel said nothing")?;
    Ok(outcome.values)
}

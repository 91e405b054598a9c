//! What each mode costs: host seconds of one program on one board, against QEMU without a plugin.

use super::checks::Kit;
use super::model::Choice;
use super::seeds;
use crate::commands;
use crate::instance::Instance;
use crate::machine::Options;
use ::lab::model::Mode;
use anyhow::ensure;
use std::time::{Duration, Instant};

/// Calls, threads and copies; boots are a part of it.
const SCRIPT: &str = "run=rpc 500 7; smp 2000; on shadow smp 2000; dma 1M 64K;poweroff";
/// Longer than the slowest mode takes on a loaded host.
const PATIENCE: Duration = Duration::from_secs(300);
/// Runs of each. The least counts: what others do on the host only adds.
const RUNS: usize = 4;

/// Runs the program in every mode, and records how many times longer each takes.
pub fn slowdown(kit: &Kit<'_>) -> anyhow::Result<()> {
    let plain = least(kit, None)?;
    println!("  without the lab {plain:>6.2} s");
    let mut figures = Vec::new();
    for mode in Mode::ALL {
        let seconds = least(kit, Some(mode))?;
        println!("  mode {:<10} {seconds:>6.2} s, {:.2} times", mode.name(), seconds / plain);
        figures.push((format!("lab.slowdown_{}", mode.name()), seconds / plain));
    }
    seeds::record(kit, "slowdown", &figures, "times")
}

fn least(kit: &Kit<'_>, mode: Option<Mode>) -> anyhow::Result<f64> {
    let runs = (0..RUNS).map(|_| once(kit, mode));
    let seconds = runs.collect::<anyhow::Result<Vec<f64>>>()?;
    Ok(seconds.into_iter().fold(f64::INFINITY, f64::min))
}

fn once(kit: &Kit<'_>, mode: Option<Mode>) -> anyhow::Result<f64> {
    let instance = Instance::at(kit.folder.clone());
    let plugin = super::plugin()?;
    let options = Options {
        lab: mode.map(|mode| (Choice { mode, ..Choice::default() }, plugin)),
        arguments: Some(SCRIPT.to_owned()),
        ..Options::default()
    };
    let board = kit.place.board_file("duo-1x1");
    let start = Instant::now();
    instance.start(&commands::soc_binary()?, &board, kit.kernels, &options)?;
    while instance.soc().is_some() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    let seconds = start.elapsed().as_secs_f64();
    instance.stop()?;
    let said = std::fs::read_to_string(instance.path("console.log"))?;
    ensure!(said.contains("powering off"), "the run did not end by itself:\n{said}");
    Ok(seconds)
}

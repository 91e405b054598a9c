//! Tests that no live seat waits for a dead one: for domains with one core, and with several.

use super::kit::Kit;
use anyhow::{bail, ensure};
use rustix::process::{Signal, kill_process};
use workbench::machine::Options;
use workbench::model::Choice;
use workbench::prepare;
use workbench::rig::{PATIENCE, Parts, Rig};

/// A killed QEMU, with the turn or without, stalls no other seat, and its domain comes back.
pub fn kill(kit: &Kit<'_>, board: &str) -> anyhow::Result<()> {
    let options =
        Options { lab: Some((Choice::default(), prepare::plugin()?)), ..Options::default() };
    let parts = Parts {
        folder: kit.folder.clone(),
        soc: prepare::soc_binary()?,
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

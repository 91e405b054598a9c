//! The network in the lab: a scripted peer at the other end, so runs with a network are as exact as
//! others.

use super::kit::Kit;
use super::records;
use super::run::Outcome;
use anyhow::ensure;
use std::path::PathBuf;
use workbench::model::Choice;
use workbench::network::{Answer, Outcome::Right};

const BOARD: &str = "duo-1x1";
/// The program that serves (apps/light).
const LIGHT: &[&str] = &["light"];
/// Servers on both kernels, and a time in which all clients of lab/peers/web.toml end.
const SERVERS: &str = "ping shadow 2; on shadow aside program light web 80; \
                       aside program light stamp 9; nap 60000";

fn script(kit: &Kit<'_>, name: &str) -> PathBuf {
    kit.place.root.join("lab").join("peers").join(name)
}

/// Returns the answers to a client.
fn of<'o>(outcome: &'o Outcome, client: &str) -> Vec<&'o Answer> {
    outcome.answers.iter().filter(|it| it.client == client).collect()
}

/// `lab.peer`: over a cable with faults all bytes are right, and two runs are the same to the
/// picosecond, also on a loaded host.
pub fn peer(kit: &Kit<'_>) -> anyhow::Result<()> {
    let script = script(kit, "web.toml");
    let run = || kit.run_served(BOARD, "", SERVERS, (LIGHT, &script), Choice::default());
    let first = run()?;
    let load = super::Load::begin(2);
    let second = run()?;
    drop(load);
    ensure!(
        records::agree(&first, &second),
        "runs differ:\n{:?}\n{:?}",
        first.answers,
        second.answers
    );
    let (web, stamps) = (of(&first, "web"), of(&first, "stamp"));
    ensure!(web.len() == 20 && web.iter().all(|it| it.outcome == Right), "wrong bytes: {web:?}");
    // Datagrams are lost, but none is wrong.
    let right = stamps.iter().filter(|it| it.outcome == Right).count();
    let came = stamps.iter().filter(|it| it.bytes > 0).count();
    ensure!(stamps.len() == 20 && right == came, "wrong datagrams: {stamps:?}");
    ensure!((10..20).contains(&right), "{right} of 20 datagrams came over a bad cable");
    Ok(())
}

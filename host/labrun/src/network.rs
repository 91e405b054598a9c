//! The network in the lab: a scripted peer at the other end, so runs with a network are as exact as
//! others.

use super::figure6::{self, Policy};
use super::kit::Kit;
use super::records;
use super::run::Outcome;
use ::records::said::Said;
use anyhow::{Context, ensure};
use lab::energy;
use lab::model::Mode;
use lab::page::State;
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

/// The way in which lab.serves rests: as soon as there is nothing to do.
const REST: &str = "rest=0 ";
/// lab/peers/serve.toml: the first request and the time from one to the next, in s, and how many.
/// Main naps until the last one has been answered: an hour, the longest nap.
const FIRST: u64 = 5;
const EVERY: u64 = 10;
const REQUESTS_OF_HOUR: u64 = 360;

/// What it took to serve requests, from the first to the end of the last.
struct Served {
    /// How often the strong kernel began to execute.
    wakes: usize,
    /// Energy of all domains in mJ, and the time in s.
    mj: f64,
    seconds: f64,
}

/// Serves requests on the weak kernel while both rest at every pause. All must be answered rightly.
fn serves(kit: &Kit<'_>) -> anyhow::Result<Served> {
    let requests = REQUESTS_OF_HOUR;
    let seconds = FIRST + (requests - 1) * EVERY + EVERY / 2;
    let run =
        format!("ping shadow 2; on shadow aside program light web 80; nap {seconds}000; network");
    let with = (LIGHT, &*script(kit, "serve.toml"));
    let outcome = kit.run_served(BOARD, REST, &run, with, Choice::default())?;
    let answers = of(&outcome, "web");
    let right = answers.iter().filter(|it| it.outcome == Right).count() as u64;
    ensure!(right == requests, "{right} of {requests} requests were answered: {answers:?}");
    let first = answers.first().map_or(0, |it| it.at_ns - it.took_ns) * 1000;
    let last = answers.last().map_or(0, |it| it.at_ns) * 1000;
    let wakes = wakes_of_main(&outcome, first, last)?;
    let used = |domain| energy::between_pj(&outcome.changes, domain, (first, last), outcome.end);
    let all: u128 = outcome.lab.domains.iter().map(used).sum();
    Ok(Served { wakes, mj: all as f64 / 1e9, seconds: (last - first) as f64 / 1e12 })
}

/// Returns how often main began to execute between two times. It must rest at the first.
fn wakes_of_main(outcome: &Outcome, from: u64, to: u64) -> anyhow::Result<usize> {
    let main = outcome.lab.domains.first().context("a board without domains")?.slot;
    let own = || outcome.changes.iter().filter(|change| change.seat == main);
    let before = own().take_while(|change| change.time <= from).last();
    let rests = before.is_some_and(|change| change.state == State::Inactive);
    ensure!(rests, "main does not rest when the first request comes: {before:?}");
    let during = own().filter(|change| (from..to).contains(&change.time));
    Ok(during.filter(|change| matches!(change.state, State::Active(_))).count())
}

/// `lab.serves`: in an hour of it the strong kernel must not execute an instruction.
pub fn serves_alone(kit: &Kit<'_>) -> anyhow::Result<()> {
    let wakes = serves(kit)?.wakes;
    ensure!(wakes == 0, "main was woken {wakes} times in {REQUESTS_OF_HOUR} requests");
    Ok(())
}

/// The records of that hour.
pub fn hour(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let Served { wakes, mj, seconds } = serves(kit)?;
    Ok(vec![
        ("net.serve_hour_wakes".to_string(), wakes as f64, "wakes".to_string()),
        ("net.serve_hour_power".to_string(), mj / seconds, "mW".to_string()),
    ])
}

/// Where the program is that waits for a frame, and which kernels rest meanwhile.
const WAITS: [(&str, &str, &str); 5] = [
    ("main", "", "rest.shadow=0 "),
    ("main_rests", "", "rest=0 "),
    ("shadow", "on shadow ", "rest.main=0 "),
    ("shadow_rests", "on shadow ", "rest=0 "),
    ("shadow_by_main", "on shadow ", ""),
];

/// The time from the arrival of a frame at the device to the return of the program's call: the
/// median of lab/peers/wake.toml.
pub fn wakes(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let mut all = Vec::new();
    for (name, on, rest) in WAITS {
        let run = format!("ping shadow 2; {on}aside program light stamp 9; nap 240000");
        let with = (LIGHT, &*script(kit, "wake.toml"));
        let outcome = kit.run_served(BOARD, rest, &run, with, Choice::default())?;
        let mut waits: Vec<u64> = of(&outcome, "wake").iter().filter_map(|it| it.wake_ns).collect();
        ensure!(waits.len() == 20, "{name}: the peer got {:?}", outcome.answers);
        waits.sort_unstable();
        let median = waits[waits.len() / 2] as f64 / 1e3;
        all.push((format!("net.rx_wake_us.{name}"), median, "us".to_string()));
    }
    Ok(all)
}

/// Requests in a measured batch.
const REQUESTS: u64 = 256;

/// HTTP requests over loopback for each mJ of all domains, on either kernel while the other one
/// rests: client and server are one program (apps/light/web.c).
pub fn requests(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let mut all = Vec::new();
    for (name, kernel) in [("weak", "shadow"), ("strong", "main")] {
        let work = ("requests", REQUESTS, "");
        let outcome = figure6::program(kit, kernel, work, Policy::K2, Mode::Energy)?;
        let phase = outcome.phases.iter().find(|phase| phase.name == "work");
        let phase = phase.context("the program reported no work")?;
        let mj = phase.energy_pj.iter().sum::<u128>() as f64 / 1e9;
        let value = REQUESTS as f64 / mj;
        all.push((format!("net.http_requests_per_mj.{name}"), value, "1/mJ".to_string()));
    }
    Ok(all)
}

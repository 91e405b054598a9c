//! Tests of the lab itself: its time is exact, its accounts add up, and no live seat waits for a
//! dead one. `pen test lab`.

use super::killed::kill;
use super::kit::{GAME, Kit};
use super::records;
use super::run::{Outcome, cycles};
use super::{
    charges, estimates, figure6, linux, network, points, profile, seeds, statistical, table4,
    table5, table6,
};
use anyhow::{Context, ensure};
use lab::energy::Share;
use lab::page::{Count, State};
use workbench::model::Choice;

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

const PAIRS: &str = "1,000 pairs, each with a boot; the number so far is in `target/lab-pairs-N`, \
                     so an interrupted run continues and each run makes others";
const REPLAY: &str = "boots Debian, in a minute, and needs `./pen lab linux setup`";

/// All checks.
pub const ALL: &[Check] = &[
    // The longest come first, so that they do not run alone at the end.
    Check { name: "sanitizer.seeded.aarch64", nightly: None, run: seeds::on_aarch64 },
    Check { name: "sanitizer.seeded.riscv64", nightly: None, run: seeds::on_riscv64 },
    Check { name: "lab.exact", nightly: None, run: exact },
    Check { name: "lab.adds-up", nightly: None, run: adds_up },
    Check { name: "lab.profile", nightly: None, run: profile::profile },
    Check { name: "lab.costs", nightly: None, run: charges::costs },
    Check { name: "lab.weak-core", nightly: None, run: charges::weak_core },
    Check { name: "lab.cluster", nightly: None, run: charges::cluster },
    Check { name: "lab.inactive", nightly: None, run: inactive },
    Check { name: "lab.rest", nightly: None, run: rests },
    Check { name: "lab.peer", nightly: None, run: network::peer },
    Check { name: "lab.serves", nightly: None, run: network::serves_alone },
    Check { name: "lab.estimates", nightly: None, run: estimates::estimates },
    Check { name: "lab.killed", nightly: None, run: |kit| kill(kit, "duo-1x1") },
    Check { name: "lab.statistical", nightly: None, run: statistical::statistical },
    Check { name: "lab.table4", nightly: None, run: table4::within },
    Check { name: "lab.table5", nightly: None, run: table5::within },
    Check { name: "lab.table6", nightly: None, run: table6::within },
    Check { name: "lab.figure6", nightly: None, run: figure6::within },
    Check { name: "sanitizer.clean.figure6", nightly: None, run: figure6::clean },
    Check { name: "lab.points.kills", nightly: None, run: points::kills },
    Check { name: "lab.points.stops", nightly: None, run: points::stops },
    Check { name: "lab.points.episodes", nightly: None, run: points::episodes },
    Check { name: "lab.points.planted", nightly: None, run: points::planted },
    Check { name: "lab.pairs.1", nightly: Some(PAIRS), run: points::pairs_1 },
    Check { name: "lab.pairs.2", nightly: Some(PAIRS), run: points::pairs_2 },
    Check { name: "lab.linux", nightly: Some(LINUX), run: |kit| linux::repeats(kit.place) },
    Check { name: "lab.ext2-replay", nightly: Some(REPLAY), run: |kit| linux::replays(kit.place) },
];

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
    let counted = outcome.count(0, Count::Instructions) as f64;
    ensure!(points == 2, "both frequencies have their share: {shares:?}");
    ensure!((cycles - counted).abs() < 10.0, "{cycles} cycles, {counted} instructions");
    ensure!(idle >= 4_999_000_000_000, "of 5 s asleep only {idle} ps were idle");
    Ok(())
}

/// A main without work executes nothing for an hour, at the power of an inactive domain; shadow
/// works for less than 10 ms.
fn rests(kit: &Kit<'_>) -> anyhow::Result<()> {
    let run = |seconds: u64| {
        let run = format!("ping shadow 2; nap {seconds}000; ping shadow 1");
        kit.run("duo-1x1-rest", &run, Choice::default())
    };
    let (minute, hour) = (run(60)?, run(3600)?);
    let main = hour.lab.domains.first().context("a board without domains")?.slot;
    let own: Vec<_> = hour.changes.iter().filter(|change| change.seat == main).collect();
    let rests = own.windows(2).filter(|pair| pair[0].state == State::Inactive);
    let longest = rests.map(|pair| pair[1].time - pair[0].time).max();
    let longest = longest.context("main did not rest")?;
    ensure!(longest > 3590 * SECOND, "main's longest rest was {longest} ps");
    let active = |outcome: &Outcome| {
        let active = |share: &&Share| matches!(share.state, State::Active(_));
        outcome.shares[1].iter().filter(active).map(|share| share.time).sum::<u64>()
    };
    let worked = active(&hour).saturating_sub(active(&minute));
    ensure!(worked < SECOND / 100, "shadow worked for {worked} ps");
    Ok(())
}

/// A second in ps.
const SECOND: u64 = 1_000_000_000_000;

/// A stopped domain's clock stops for as long as the other domain says, at the power of its state.
fn inactive(kit: &Kit<'_>) -> anyhow::Result<()> {
    let run = "ping shadow 1; domain inactive shadow; nap 1000; domain on shadow; ping shadow 1";
    let outcome = kit.run("duo-1x1", run, Choice::default())?;
    let shadow = outcome.shares.get(1).context("no shadow")?;
    let found = shadow.iter().find(|share| share.state == State::Inactive);
    let share = found.context("it was never inactive")?;
    let about_a_second = SECOND..SECOND + SECOND / 100;
    ensure!(about_a_second.contains(&share.time), "inactive for {share:?}");
    // 0.1 mW.
    ensure!(share.energy_pj == u128::from(share.time) / 10_000, "at another power: {share:?}");
    Ok(())
}

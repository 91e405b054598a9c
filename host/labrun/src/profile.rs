//! Tests that the profile is complete, names the right functions, and changes nothing.

use super::kit::{GAME, Kit};
use super::records;
use super::run::Outcome;
use anyhow::{Context, ensure};
use lab::page::{Count, Page};
use workbench::model::Choice;
use workbench::profile::{self, Counts, Profile, shorten};

/// Rounds of two threads that yield to each other.
const ROUNDS: u64 = 20_000;
/// The crate of the functions that such a run is spent in, and what each round calls.
const HOT: &str = "kernel_sched::";
const YIELD: &str = "kernel_sched::scheduler::Scheduler::yield_now";

/// `lab.profile`: with the profile, a run is the same to the picosecond; each domain's functions
/// have all of its instructions and cycles; the hot functions of a trial come first, and are called
/// as often as the trial says.
pub fn profile(kit: &Kit<'_>) -> anyhow::Result<()> {
    let profiled = Choice { profile: true, ..Choice::default() };
    let plain = kit.run("duo-1x1", GAME, Choice::default())?;
    let counted = kit.run("duo-1x1", GAME, profiled)?;
    ensure!(records::agree(&plain, &counted), "it changes time:\n{plain:?}\n{counted:?}");
    add_up(kit, &counted)?;
    let switches = kit.run("solo-1", &format!("bench threads {ROUNDS}"), profiled)?;
    let [main] = &add_up(kit, &switches)?[..] else { anyhow::bail!("solo-1 has one domain") };
    let first = main.functions.first().context("no functions")?;
    ensure!(first.name.contains(HOT), "the most expensive function is {first:?}");
    let yields = main.functions.iter().find(|function| shorten(&function.name) == YIELD);
    let yields = yields.with_context(|| format!("{YIELD} was not called"))?;
    ensure!(yields.calls == 2 * ROUNDS, "{ROUNDS} rounds of 2 threads: {yields:?}");
    Ok(())
}

/// Checks that each domain's functions have all that the lab has counted for it.
fn add_up(kit: &Kit<'_>, outcome: &Outcome) -> anyhow::Result<Vec<Profile>> {
    let profiles = profile::since(&kit.folder, &Counts::default())?;
    let page = Page::open(&kit.folder.join(lab::model::PAGE))?;
    for (domain, profile) in outcome.lab.domains.iter().zip(&profiles) {
        let sums = (profile.instructions(), profile.units());
        let of = |what| page.counted(domain.slot, what);
        let counted = (of(Count::Instructions), of(Count::Units));
        let name = &domain.name;
        ensure!(sums == counted, "{name}: functions have {sums:?}, the domain {counted:?}");
    }
    Ok(profiles)
}

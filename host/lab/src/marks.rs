//! Marks: instructions without effect by which a guest says where it is, and what a domain had used
//! when it said so. Each is one line of JSON in the run folder's [`FILE`], in the order of time.
//!
//! Any hint between 1 and [`MOST_NUMBER`] is a mark. AArch64: `HINT #0x40+n`. RV64: `slti x0, x0,
//! 0x40+n`, which the architecture leaves to custom use as a hint.

use crate::Ps;
use crate::energy::{self, Share};
use crate::model::Domain;
use crate::page::{Page, State};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Name of the file in a run folder.
pub const FILE: &str = "lab.marks";
/// Marks have numbers from 1 to this.
pub const MOST_NUMBER: u8 = 15;
/// The measured region begins.
pub const START: u8 = 1;
/// It ends; a region may have several stretches.
pub const END: u8 = 2;
/// The work is done, the idle time begins.
pub const PHASE: u8 = 3;
/// The idle time is over.
pub const FINAL: u8 = 4;

/// A mark that was executed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Which.
    pub mark: u8,
    /// By whom.
    pub slot: usize,
    /// When.
    pub at_ps: Ps,
    /// At which frequency.
    pub khz: u32,
    /// How long the domain had been in each state, in the order of [`State::all`].
    pub residency_ps: Vec<Ps>,
}

/// Why there are no marks.
#[derive(Debug, thiserror::Error)]
pub enum MarksError {
    /// The file.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// A line of it.
    #[error("{0}:{1}: no mark: {2}")]
    Line(String, usize, serde_json::Error),
}

impl Mark {
    /// What `slot` has used until `at`, up to which it is accounted for.
    pub fn now(page: &Page, slot: usize, mark: u8, at: Ps) -> Mark {
        let residency_ps = State::all().map(|state| page.residency(slot, state)).collect();
        Mark { mark, slot, at_ps: at, khz: page.khz(slot), residency_ps }
    }

    /// Adds it to a file.
    pub fn write(&self, file: &mut File) -> std::io::Result<()> {
        file.write_all(format!("{}\n", serde_json::to_string(self)?).as_bytes())
    }

    /// What `domain` has used since `earlier`, by state; states it was not in are left out.
    pub fn since(&self, earlier: &Mark, domain: &Domain) -> Vec<Share> {
        let pairs = self.residency_ps.iter().zip(&earlier.residency_ps);
        let shares = State::all().zip(pairs).map(|(state, (late, early))| {
            energy::share(domain, state, late.saturating_sub(*early))
        });
        shares.filter(|share| share.time != 0).collect()
    }
}

/// All marks of a run; none if nobody made any.
pub fn read(folder: &Path) -> Result<Vec<Mark>, MarksError> {
    let path = folder.join(FILE);
    let name = path.display().to_string();
    let text = match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.map_err(|e| MarksError::File(name.clone(), e))?,
    };
    let line = |(i, line)| {
        serde_json::from_str(line).map_err(|e| MarksError::Line(name.clone(), i + 1, e))
    };
    text.lines().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Point, Powers};

    #[test]
    fn what_was_used_between_two_marks() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = Page::create(&folder.path().join("page")).expect("a page");
        page.set_khz(2, 350_000);
        let mut file = File::create(folder.path().join(FILE)).expect("a file");
        page.account(2, State::Active(0), 1_000);
        Mark::now(&page, 2, START, 1_000).write(&mut file).expect("written");
        page.account(2, State::Active(0), 3_000_000);
        page.account(2, State::Idle(0), 5_000_000);
        Mark::now(&page, 2, END, 5_000_000).write(&mut file).expect("written");
        let marks = read(folder.path()).expect("marks");
        assert_eq!((marks[0].mark, marks[1].at_ps, marks[1].khz), (START, 5_000_000, 350_000));
        let point =
            Point { khz: 350_000, active_uw: 2_000_000, idle_uw: 1_000_000, ..Point::default() };
        let powers = Powers { points: vec![point], ..Powers::default() };
        let domain = Domain { slot: 2, powers, ..Domain::default() };
        let shares = marks[1].since(&marks[0], &domain);
        let active = Share { state: State::Active(0), time: 2_999_000, energy_pj: 5_998_000 };
        let idle = Share { state: State::Idle(0), time: 2_000_000, energy_pj: 2_000_000 };
        assert_eq!(shares, [active, idle]);
    }

    #[test]
    fn a_run_without_marks_has_none_and_a_bad_line_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(read(folder.path()).expect("none"), []);
        std::fs::write(folder.path().join(FILE), "{}\n").expect("written");
        let told = read(folder.path()).expect_err("bad").to_string();
        assert!(told.contains("lab.marks:1: no mark"), "{told}");
    }
}

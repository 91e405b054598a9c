//! Marks: instructions without effect by which a guest reports its position, and what a domain had
//! used at that time. Each is one line of JSON in the run folder's [`FILE`], ordered by time.
//!
//! Hints with numbers from 1 to [`MOST_NUMBER`] are marks. AArch64: `HINT #0x40+n`. RV64: `slti x0,
//! x0, 0x40+n`, a hint that the architecture reserves for custom use.

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
/// The largest number of a mark; the smallest is 1.
pub const MOST_NUMBER: u8 = 15;
/// Start of the measured region.
pub const START: u8 = 1;
/// End of the measured region, which may have several parts.
pub const END: u8 = 2;
/// End of the work and start of the idle time.
pub const PHASE: u8 = 3;
/// End of the idle time.
pub const FINAL: u8 = 4;

/// An executed mark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Its number.
    pub mark: u8,
    /// The domain's slot.
    pub slot: usize,
    /// The time.
    pub at_ps: Ps,
    /// The frequency.
    pub khz: u32,
    /// The domain's time in each state so far, in the order of [`State::all`].
    pub residency_ps: Vec<Ps>,
}

/// Why marks could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MarksError {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// A line cannot be parsed.
    #[error("{0}:{1}: no mark: {2}")]
    Line(String, usize, serde_json::Error),
}

impl Mark {
    /// Returns a mark with what `slot` has used until `at`, up to which it is accounted for.
    pub fn now(page: &Page, slot: usize, mark: u8, at: Ps) -> Mark {
        let residency_ps = State::all().map(|state| page.residency(slot, state)).collect();
        Mark { mark, slot, at_ps: at, khz: page.khz(slot), residency_ps }
    }

    /// Appends it to a file.
    pub fn write(&self, file: &mut File) -> std::io::Result<()> {
        file.write_all(format!("{}\n", serde_json::to_string(self)?).as_bytes())
    }

    /// Returns what `domain` has used since `earlier`, by state; states without time are omitted.
    pub fn since(&self, earlier: &Mark, domain: &Domain) -> Vec<Share> {
        let pairs = self.residency_ps.iter().zip(&earlier.residency_ps);
        let shares = State::all().zip(pairs).map(|(state, (late, early))| {
            energy::share(domain, state, late.saturating_sub(*early))
        });
        shares.filter(|share| share.time != 0).collect()
    }
}

/// Reads all marks of a run; empty if the guests executed none.
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

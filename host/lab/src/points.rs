//! Crash points: at one of its accesses to other domains, a domain dies or is stopped.
//!
//! ```text
//!   lab.json --points--> plugin: counts accesses, halts before the k-th --reached--> soc: kills or
//!                                                                                   stops it
//! ```
//! Accesses are the sync points of a seat, counted from its first one, and on through the domain's
//! deaths and restarts. The soc acts at the chip time of the access, before it is made. On a board
//! whose time is exact, equal runs are therefore cut at the same instruction.

use crate::page::Page;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;

/// Maximum points of a run.
pub const MOST: usize = 64;

/// A crash point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrashPoint {
    /// The domain.
    pub domain: String,
    /// The access before which it happens, counted from 1.
    pub access: u64,
    /// The domain dies as in a crash. Otherwise it becomes INACTIVE, and is woken later.
    pub kills: bool,
}

/// Why a run cannot have these points.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    /// It is not written as a point.
    #[error("{0:?} is no point: write DOMAIN@K, such as shadow@1000")]
    Text(String),
    /// Accesses are counted from 1.
    #[error("{0}: accesses are counted from 1")]
    Zero(String),
    /// The board does not have this domain.
    #[error("there is no domain {0:?}; this board has {1}")]
    Domain(String, String),
    /// The accesses of this board differ from run to run.
    #[error("points need exact time: one core in each domain (duo-1x1), mode time, energy or full")]
    Statistical,
    /// There are too many.
    #[error("{0} points; a run has at most {MOST}")]
    Many(usize),
}

impl CrashPoint {
    /// Reads `DOMAIN@K`.
    pub fn parse(text: &str, kills: bool) -> Result<CrashPoint, PointError> {
        let wrong = || PointError::Text(text.to_owned());
        let (domain, access) = text.split_once('@').ok_or_else(wrong)?;
        let access: u64 = access.parse().map_err(|_| wrong())?;
        match (domain, access) {
            ("", _) => Err(wrong()),
            (_, 0) => Err(PointError::Zero(text.to_owned())),
            _ => Ok(CrashPoint { domain: domain.to_owned(), access, kills }),
        }
    }

    /// Returns the option of `pen lab` that repeats it.
    pub fn option(&self) -> String {
        let what = if self.kills { "kill" } else { "stop" };
        format!("--{what} {}@{}", self.domain, self.access)
    }
}

impl Page {
    /// The seat has reached this point: the soc gets the next turn. The seat must have the turn and
    /// the smallest time, and ends its turn after this.
    pub fn reach(&self, seat: usize, soc: usize, point: usize) {
        self.reached_point(seat).store(point as u64 + 1, Ordering::Relaxed);
        // The soc has the first seat, so it comes first among equals.
        self.set_wake(soc, self.seat(seat).time);
    }

    /// Returns whether the seat waits at a point.
    pub fn waits_at_point(&self, seat: usize) -> bool {
        self.reached_point(seat).load(Ordering::Relaxed) != 0
    }

    /// Takes the point that the seat has reached, which is about to be carried out.
    pub fn take_point(&self, seat: usize) -> Option<usize> {
        let point = self.reached_point(seat).swap(0, Ordering::Relaxed).checked_sub(1)?;
        self.done_points().fetch_or(1 << (point % MOST as u64), Ordering::Relaxed);
        usize::try_from(point).ok()
    }

    /// Returns whether this point was carried out.
    pub fn is_carried_out(&self, point: usize) -> bool {
        self.done_points().load(Ordering::Relaxed) >> (point % MOST) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seats::{self, Phase};

    #[test]
    fn points_are_read_or_explained() {
        let point = CrashPoint::parse("shadow@12", true).expect("a point");
        assert_eq!((point.domain.as_str(), point.access, point.kills), ("shadow", 12, true));
        assert_eq!(point.option(), "--kill shadow@12");
        for bad in ["shadow", "@7", "shadow@", "shadow@x", "shadow@-1"] {
            assert_eq!(CrashPoint::parse(bad, true), Err(PointError::Text(bad.into())));
        }
        assert_eq!(CrashPoint::parse("main@0", false), Err(PointError::Zero("main@0".into())));
    }

    /// The soc's turn follows at the time of the access, before any other seat's, and each point is
    /// taken once.
    #[test]
    fn the_soc_follows_a_point() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = Page::create(&folder.path().join("page")).expect("a page");
        page.set_phase(0, Phase::Idle);
        for seat in [1, 2] {
            page.set_phase(seat, Phase::Running);
            page.set_time(seat, 700);
        }
        assert_eq!(seats::next(&page.seats()), Some(1));
        page.reach(2, 0, 1);
        assert_eq!(seats::next(&page.seats()), Some(0));
        assert_eq!((page.seat(0).key(), page.waits_at_point(1)), (700, false));
        assert_eq!((page.take_point(2), page.take_point(2)), (Some(1), None));
        assert_eq!([0, 1].map(|point| page.is_carried_out(point)), [false, true]);
    }
}

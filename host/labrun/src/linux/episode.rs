//! What K2 calls an episode: a domain is inactive, wakes, works, idles, and is inactive again.
//! Computes time and energy of its parts, from the guest's marks (lab/linux/marker.h) and the
//! model.
//!
//! ```text
//! inactive   1 s          the board file's power
//!   wake                  the board file's time, at the active power
//!     work                START..END, all parts; the time between them is not counted
//!       idle 5 s          PHASE..FINAL, including wake-ups of the core
//! inactive   1 s
//! ```
//! Linux is never inactive here: the first two parts and the last are computed.

use lab::Ps;
use lab::energy::{self, Share};
use lab::marks::{END, FINAL, Mark, PHASE, START};
use lab::model::Domain;
use lab::page::State;
use thiserror::Error;

/// Duration of the inactive part, before and after.
const INACTIVE: Ps = 1_000_000_000_000;

/// Time and energy of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Duration.
    pub time: Ps,
    /// Energy in picojoule.
    pub energy_pj: u128,
}

/// An episode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Episode {
    /// Inactive before, and the same after.
    pub inactive: Used,
    /// From inactive to the first instruction.
    pub wake: Used,
    /// The measured region.
    pub work: Used,
    /// The idle part.
    pub idle: Used,
}

/// Why the marks are not an episode.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EpisodeError {
    /// Their order is wrong.
    #[error(
        "the guest's marks are {0:?}, which is no episode (1 2 ... 3 4): is \
         lab/linux/bench.c that of this program? `./pen lab linux setup` builds it"
    )]
    Order(Vec<u8>),
    /// The model lacks this frequency.
    #[error("the power table of domain \"{0}\" has no {1} kHz, at which the guest ran")]
    Frequency(String, u32),
}

impl Used {
    fn add(self, more: Used) -> Used {
        Used { time: self.time + more.time, energy_pj: self.energy_pj + more.energy_pj }
    }

    fn of(shares: &[Share]) -> Used {
        let used = |share: &Share| Used { time: share.time, energy_pj: share.energy_pj };
        shares.iter().map(used).fold(Used::default(), Used::add)
    }
}

impl Episode {
    /// Computes the episode from the marks of `domain`.
    pub fn of(marks: &[Mark], domain: &Domain) -> Result<Episode, EpisodeError> {
        let order: Vec<u8> = marks.iter().map(|mark| mark.mark).collect();
        let wrong = || EpisodeError::Order(order.clone());
        let Some((stretches, [phase, end])) = marks.split_last_chunk::<2>() else {
            return Err(wrong());
        };
        let mut work = Used::default();
        for pair in stretches.chunks(2) {
            let [start, end] = pair else { return Err(wrong()) };
            if (start.mark, end.mark) != (START, END) {
                return Err(wrong());
            }
            work = work.add(Used::of(&end.since(start, domain)));
        }
        if (phase.mark, end.mark) != (PHASE, FINAL) || stretches.is_empty() {
            return Err(wrong());
        }
        let point = domain
            .point(phase.khz)
            .ok_or_else(|| EpisodeError::Frequency(domain.name.clone(), phase.khz))?;
        let share = |state, time| Used::of(&[energy::share(domain, state, time)]);
        Ok(Episode {
            inactive: share(State::Inactive, INACTIVE),
            wake: share(State::Active(point), domain.costs.wake_inactive_ps),
            work,
            idle: Used::of(&end.since(phase, domain)),
        })
    }

    /// Returns its parts in order, with their names.
    pub fn parts(&self) -> [(&'static str, Used); 5] {
        [
            ("inactive_before", self.inactive),
            ("wake", self.wake),
            ("work", self.work),
            ("idle", self.idle),
            ("inactive_after", self.inactive),
        ]
    }

    /// Returns the sum.
    pub fn whole(&self) -> Used {
        self.parts().iter().map(|&(_, used)| used).fold(Used::default(), Used::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::model::{Costs, Point, Powers};

    /// At 1 W active, 100 mW idle, 1 mW inactive.
    fn domain() -> Domain {
        let point =
            Point { khz: 350_000, active_uw: 1_000_000, idle_uw: 100_000, ..Point::default() };
        let powers = Powers { points: vec![point], inactive_uw: 1_000, ..Powers::default() };
        let costs = Costs { wake_inactive_ps: 300_000_000, ..Costs::default() };
        Domain { name: "main".to_string(), costs, powers, ..Domain::default() }
    }

    /// A mark; `used`: picoseconds active and idle until then.
    fn mark(mark: u8, used: [Ps; 2]) -> Mark {
        let at_ps = used.iter().sum();
        Mark { mark, at_ps, khz: 350_000, residency_ps: used.to_vec(), ..Mark::default() }
    }

    #[test]
    fn stretches_add_up_and_what_lies_between_is_nobodys() {
        let marks = [
            mark(START, [1_000_000, 0]),
            mark(END, [3_000_000, 10_000_000]),
            mark(START, [9_000_000, 90_000_000]),
            mark(END, [10_000_000, 90_000_000]),
            mark(PHASE, [11_000_000, 90_000_000]),
            mark(FINAL, [11_500_000, 5_000_090_000_000]),
        ];
        let episode = Episode::of(&marks, &domain()).unwrap();
        // 3 us at 1 W, 10 us at 0.1 W.
        assert_eq!(episode.work, Used { time: 13_000_000, energy_pj: 3_000_000 + 1_000_000 });
        let energy_pj = 500_000 + 500_000_000_000;
        assert_eq!(episode.idle, Used { time: 5_000_000_500_000, energy_pj });
        assert_eq!(episode.wake, Used { time: 300_000_000, energy_pj: 300_000_000 });
        assert_eq!(episode.inactive.energy_pj, 1_000_000_000);
        let parts = 4_000_000 + 500_000_500_000 + 300_000_000 + 2_000_000_000;
        assert_eq!(episode.whole().energy_pj, parts);
    }

    #[test]
    fn marks_out_of_order_are_told() {
        for bad in [&[][..], &[1, 2], &[3, 4], &[1, 2, 4, 3], &[2, 1, 3, 4], &[1, 2, 1, 3, 4]] {
            let marks: Vec<_> = bad.iter().map(|&number| mark(number, [0, 0])).collect();
            let told = Episode::of(&marks, &domain());
            assert_eq!(told, Err(EpisodeError::Order(bad.to_vec())));
        }
        let mut marks = [START, END, PHASE, FINAL].map(|number| mark(number, [0, 0]));
        marks[2].khz = 1;
        let told = Episode::of(&marks, &domain()).unwrap_err().to_string();
        assert!(told.contains("\"main\" has no 1 kHz"), "{told}");
    }
}

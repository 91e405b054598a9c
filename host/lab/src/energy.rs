//! Residency times power: what a domain has used up to a time.
//!
//! The page holds how long each core was in each state; nothing is summed up in joules on the way,
//! so no rounding adds up.

use crate::Ps;
use crate::model::Domain;
use crate::page::{Page, State};

/// Power of a state in microwatt.
pub fn power_uw(domain: &Domain, state: State) -> u64 {
    let point = |index: usize| domain.powers.points.get(index).copied().unwrap_or_default();
    match state {
        State::Active(index) => point(index).active_uw,
        State::Idle(index) => point(index).idle_uw,
        State::Inactive => domain.powers.inactive_uw,
        State::Off => domain.powers.off_uw,
    }
}

/// One state of one domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The state.
    pub state: State,
    /// How long.
    pub time: Ps,
    /// How much, in picojoule.
    pub energy_pj: u128,
}

/// What `domain` uses in `time` in `state`.
pub fn share(domain: &Domain, state: State, time: Ps) -> Share {
    // 1 uW x 1 ps = 1 attojoule.
    let energy_pj = u128::from(time) * u128::from(power_uw(domain, state)) / 1_000_000;
    Share { state, time, energy_pj }
}

/// What `domain` has used, by state; states it was never in are left out.
pub fn shares(page: &Page, domain: &Domain) -> Vec<Share> {
    let used = |state| share(domain, state, page.residency(domain.slot, state));
    State::all().map(used).filter(|share| share.time != 0).collect()
}

/// Its sum, in picojoule.
pub fn total_pj(page: &Page, domain: &Domain) -> u128 {
    shares(page, domain).iter().map(|share| share.energy_pj).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Point, Powers};

    #[test]
    fn a_known_second_costs_what_the_table_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = Page::create(&folder.path().join("page")).expect("a page");
        let point = Point { khz: 350_000, active_uw: 79_800, idle_uw: 25_200 };
        let powers = Powers { points: vec![point], inactive_uw: 100, ..Powers::default() };
        let domain = Domain { slot: 1, powers, ..Domain::default() };
        page.account(1, State::Active(0), 1_000_000_000_000);
        page.account(1, State::Idle(0), 3_000_000_000_000);
        page.account(1, State::Inactive, 4_000_000_000_000);
        page.account(1, State::Idle(0), 3_500_000_000_000);
        assert_eq!(page.accounted(1), 4_000_000_000_000, "never back");
        assert_eq!(total_pj(&page, &domain), (79_800 + 2 * 25_200 + 100) * 1_000_000);
        assert_eq!(shares(&page, &domain).len(), 3);
    }
}

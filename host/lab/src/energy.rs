//! The energy that a domain has used up to a time: residency times power.
//!
//! The page holds how long each core was in each state; energy is computed only at the end, so no
//! rounding errors accumulate. Domains of one cluster share a voltage, the highest that any of them
//! needs, so a change of one domain first accounts for the others ([`settle`]).
//!
//! A domain with several cores has the sum of its cores' residencies, in core-seconds, and no
//! history of its changes.

use crate::Ps;
use crate::model::{Domain, Lab};
use crate::page::{Change, Page, State};
use crate::seats::Phase;

/// Returns the power of a state in microwatt.
pub fn power_uw(domain: &Domain, state: State) -> u64 {
    let point = |index: usize| domain.powers.points.get(index).copied().unwrap_or_default();
    match state {
        State::Active(index) => point(index).active_uw,
        State::Idle(index) => point(index).idle_uw,
        State::Gated(index) => point(index).gated_uw,
        State::Inactive => domain.powers.inactive_uw,
        State::Off => domain.powers.off_uw,
    }
}

/// Returns the index of the domain's point in its power table: its frequency at the voltage of its
/// cluster.
pub fn point(page: &Page, lab: &Lab, domain: &Domain) -> usize {
    let khz = page.khz(domain.slot);
    let runs =
        |other: &&Domain| matches!(page.seat(other.slot).phase, Phase::Running | Phase::Idle);
    let others = lab.cluster(domain).filter(runs).map(|other| other.needs_mv(page.khz(other.slot)));
    match others.max().filter(|&mv| mv > domain.needs_mv(khz)) {
        Some(mv) => domain.point_at(khz, mv),
        None => domain.point(khz),
    }
    .unwrap_or(0)
}

/// Returns the state that a waiting `domain` is accounted as.
pub fn waiting(page: &Page, lab: &Lab, domain: &Domain) -> State {
    let point = point(page, lab, domain);
    if page.gates(domain.slot) { State::Gated(point) } else { State::Idle(point) }
}

/// Returns the state that `domain` is accounted as now.
pub fn state(page: &Page, lab: &Lab, domain: &Domain) -> State {
    match page.seat(domain.slot).phase {
        Phase::Running => State::Active(point(page, lab, domain)),
        Phase::Idle => waiting(page, lab, domain),
        Phase::Stopped => State::Inactive,
        Phase::Absent => State::Off,
    }
}

/// Accounts for `domain` until `now`, or until its own time if that is later.
pub fn account(page: &Page, lab: &Lab, domain: &Domain, now: Ps) {
    let (slot, state) = (domain.slot, state(page, lab, domain));
    let until = now.max(page.seat(slot).time);
    if domain.cores() == 1 {
        return page.account(slot, state, until);
    }
    let open = until.saturating_sub(page.accounted(slot));
    page.spend(slot, state, open.saturating_mul(domain.cores()));
    page.set_accounted(slot, until.max(page.accounted(slot)));
}

/// Accounts for the domain's cluster until `now`, before a change of voltage.
pub fn settle(page: &Page, lab: &Lab, domain: &Domain, now: Ps) {
    lab.cluster(domain).for_each(|other| account(page, lab, other, now));
}

/// Time and energy of a domain in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The state.
    pub state: State,
    /// Time in the state.
    pub time: Ps,
    /// Energy in picojoule.
    pub energy_pj: u128,
}

/// Returns what `domain` uses in `time` in `state`.
pub fn share(domain: &Domain, state: State, time: Ps) -> Share {
    // 1 uW x 1 ps = 1 attojoule.
    let energy_pj = u128::from(time) * u128::from(power_uw(domain, state)) / 1_000_000;
    Share { state, time, energy_pj }
}

/// Returns what `domain` has used, by state; states without time are omitted.
pub fn shares(page: &Page, domain: &Domain) -> Vec<Share> {
    let used = |state| share(domain, state, page.residency(domain.slot, state));
    State::all().map(used).filter(|share| share.time != 0).collect()
}

/// Returns the sum in picojoule.
pub fn total_pj(page: &Page, domain: &Domain) -> u128 {
    shares(page, domain).iter().map(|share| share.energy_pj).sum()
}

/// Returns the sum up to `now`, including what is not accounted for yet, without changing the page.
pub fn until_pj(page: &Page, lab: &Lab, domain: &Domain, now: Ps) -> u128 {
    let open = now.saturating_sub(page.accounted(domain.slot)) * domain.cores();
    let power = power_uw(domain, state(page, lab, domain));
    total_pj(page, domain) + u128::from(open) * u128::from(power) / 1_000_000
}

/// Returns what `domain` used between two times of a run that ended at `end`, computed from its
/// changes of state.
pub fn between_pj(changes: &[Change], domain: &Domain, (from, to): (Ps, Ps), end: Ps) -> u128 {
    let mut own = changes.iter().filter(|change| change.seat == domain.slot).peekable();
    let mut aj = 0u128;
    while let Some(change) = own.next() {
        let until = own.peek().map_or(end, |next| next.time).min(to);
        let time = until.saturating_sub(change.time.max(from));
        aj += u128::from(time) * u128::from(power_uw(domain, change.state));
    }
    aj / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Point, Powers};

    fn page() -> (tempfile::TempDir, Page) {
        let folder = tempfile::tempdir().expect("a folder");
        let page = Page::create(&folder.path().join("page")).expect("a page");
        (folder, page)
    }

    #[test]
    fn a_known_second_costs_what_the_table_says() {
        let (_folder, page) = page();
        let point = Point { khz: 350_000, active_uw: 79_800, idle_uw: 25_200, gated_uw: 5, mv: 0 };
        let powers = Powers { points: vec![point], inactive_uw: 100, ..Powers::default() };
        let domain = Domain { slot: 1, powers, ..Domain::default() };
        page.account(1, State::Active(0), 1_000_000_000_000);
        page.account(1, State::Idle(0), 3_000_000_000_000);
        page.account(1, State::Inactive, 4_000_000_000_000);
        page.account(1, State::Idle(0), 3_500_000_000_000);
        assert_eq!(page.accounted(1), 4_000_000_000_000, "never back");
        assert_eq!(total_pj(&page, &domain), (79_800 + 2 * 25_200 + 100) * 1_000_000);
        assert_eq!(shares(&page, &domain).len(), 3);
        page.set_khz(1, 350_000);
        page.set_phase(1, Phase::Idle);
        page.set_gates(1, true);
        let lab = Lab::default();
        let more = until_pj(&page, &lab, &domain, 5_000_000_000_000) - total_pj(&page, &domain);
        assert_eq!(more, 5_000_000, "a second with a gated clock");
    }

    #[test]
    fn a_part_of_a_run_has_its_part_of_the_energy() {
        let powers = Powers { inactive_uw: 10, off_uw: 1, ..Powers::default() };
        let domain = Domain { slot: 2, powers, ..Domain::default() };
        let change = |time, seat, state| Change { time, seat, state };
        let changes = [
            change(0, 2, State::Off),
            change(1_000_000, 1, State::Inactive),
            change(4_000_000, 2, State::Inactive),
        ];
        let used = |from, to| between_pj(&changes, &domain, (from, to), 9_000_000);
        assert_eq!(used(0, 4_000_000), 4);
        assert_eq!(used(3_000_000, 5_000_000), 1 + 10);
        assert_eq!(used(5_000_000, 99_000_000), 40, "not after the end");
        assert_eq!(used(0, 9_000_000), 4 + 50);
    }

    #[test]
    fn a_domain_of_two_cores_costs_twice() {
        let (_folder, page) = page();
        let powers = Powers { inactive_uw: 10, off_uw: 1, ..Powers::default() };
        let domain = Domain { slot: 3, cores: 2, powers, ..Domain::default() };
        let lab = Lab::default();
        account(&page, &lab, &domain, 1_000_000);
        assert_eq!(page.residency(3, State::Off), 2_000_000);
        page.set_phase(3, Phase::Stopped);
        assert_eq!(until_pj(&page, &lab, &domain, 3_000_000), 2 + 40);
        account(&page, &lab, &domain, 2_000_000);
        account(&page, &lab, &domain, 1_500_000);
        assert_eq!(page.accounted(3), 2_000_000, "never back");
        assert_eq!(total_pj(&page, &domain), 2 + 20);
        assert_eq!(page.changes().1, 0);
    }

    /// Two cores of one cluster: the slow one pays for the fast one's voltage while the fast one
    /// runs.
    #[test]
    fn a_cluster_has_one_voltage() {
        let (_folder, page) = page();
        let at = |khz, mv, active_uw| Point { khz, mv, active_uw, ..Point::default() };
        let points = vec![at(81, 1300, 30), at(81, 1100, 20), at(648, 1300, 300)];
        let powers = Powers { points, ..Powers::default() };
        let core = |slot| {
            let (powers, cluster) = (powers.clone(), "a".to_owned());
            Domain { slot, khz: 81, powers, cluster, ..Domain::default() }
        };
        let lab = Lab { domains: vec![core(0), core(1)], ..Lab::default() };
        let [slow, fast] = [&lab.domains[0], &lab.domains[1]];
        for slot in [0, 1] {
            page.set_khz(slot, 81);
            page.set_phase(slot, Phase::Running);
        }
        assert_eq!(state(&page, &lab, slow), State::Active(1));
        settle(&page, &lab, fast, 1_000_000);
        page.set_khz(1, 648);
        assert_eq!(state(&page, &lab, fast), State::Active(2));
        assert_eq!(state(&page, &lab, slow), State::Active(0));
        settle(&page, &lab, fast, 2_000_000);
        page.set_phase(1, Phase::Stopped);
        assert_eq!(state(&page, &lab, slow), State::Active(1));
        account(&page, &lab, slow, 3_000_000);
        assert_eq!(page.residency(0, State::Active(1)), 2_000_000);
        assert_eq!(page.residency(0, State::Active(0)), 1_000_000);
        assert_eq!(total_pj(&page, slow), 2 * 20 + 30);
    }
}

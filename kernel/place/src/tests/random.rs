//! The rules on random boards.

use super::*;
use crate::{BUSY_STEP, Decision};
use base::prng::Prng;

fn random(random: &mut Prng) -> Facts {
    let is_available = random.chance(3, 4);
    Facts {
        is_available,
        is_on_demand: !is_available && random.chance(1, 2),
        is_strong: random.chance(1, 2),
        isa: [isa::AARCH64, isa::RISCV64][random.below(2) as usize],
        cores: random.below(5) as u32,
        processes: random.below(6) as u32,
        busy: random.chance(1, 2).then(|| random.below(101) as u32),
        free: random.chance(1, 2).then(|| random.below(2 * ENOUGH)),
        near: [0, 0, random.below(4) as u32][random.below(3) as usize],
        apart: [0, 0, random.below(4) as u32][random.below(3) as usize],
    }
}

fn preferences(random: &mut Prng) -> Preferences {
    let possible: Vec<u8> = (0..16).filter(|&set| platform::can_be_one(set)).collect();
    let mut platforms: Vec<u8> = platform::ALL.iter().map(|&(platform, _)| platform).collect();
    let (one, other) = (random.below(4) as usize, random.below(4) as usize);
    platforms.swap(0, one);
    platforms.swap(1, other);
    platforms.truncate(random.below(5) as usize);
    let preferred = [0, platform::pack(&platforms).unwrap()][random.below(2) as usize];
    let required = [0, possible[random.below(possible.len() as u64) as usize]];
    let required = required[random.below(2) as usize];
    Preferences { class: [NORMAL, LIGHT][random.below(2) as usize], required, preferred }
}

/// The rules of the page, each as a question about two kernels: returns whether `other` should have
/// been chosen instead of `one`.
fn is_better(preferences: &Preferences, other: &Facts, one: &Facts) -> bool {
    let preference = |facts: &Facts| {
        let has = |platform: u8| facts.platforms() & platform != 0;
        platform::unpack(preferences.preferred).position(has).unwrap_or(9)
    };
    let fits = |facts: &Facts| facts.is_strong == (preferences.class == NORMAL);
    let busy = |facts: &Facts| facts.busy.unwrap_or(0) / BUSY_STEP;
    let rank = |it: &Facts| {
        let memory = it.free.is_some_and(|free| free < ENOUGH);
        let near = u32::MAX - it.near;
        (memory, preference(it), near, it.apart, !fits(it), busy(it))
    };
    let crowd = |it: &Facts, by: &Facts| (it.processes + 1) * by.cores.max(1);
    match rank(other).cmp(&rank(one)) {
        core::cmp::Ordering::Equal => crowd(other, one) < crowd(one, other),
        order => order.is_lt(),
    }
}

#[test]
fn the_rules_hold_on_random_boards() {
    let mut prng = Prng::new(7);
    let mut reasons = std::collections::BTreeSet::new();
    for _ in 0..200_000 {
        let kernels: Vec<_> = (0..prng.below(9)).map(|_| random(&mut prng)).collect();
        let (preferences, here) = (preferences(&mut prng), prng.below(9) as usize);
        let found = choose(None, &preferences, here, &kernels);
        assert_eq!(
            found,
            choose(None, &preferences, here, &kernels),
            "the same facts, another choice"
        );
        let has = |facts: &Facts| facts.platforms() & preferences.required == preferences.required;
        let candidates = || kernels.iter().filter(|it| it.is_available && has(it));
        match found {
            Err(Refused::Unavailable) => assert!(!kernels.iter().any(|it| it.is_available)),
            Err(Refused::NoPlatform { required, is_on_board }) => {
                assert!(candidates().next().is_none() && required == preferences.required);
                assert!(!kernels.iter().any(|it| it.is_on_demand && has(it)));
                assert_eq!(is_on_board, kernels.iter().any(has));
            }
            Err(Refused::NoSuchKernel) => panic!("no kernel was requested"),
            Ok(decision) if decision.reason == Reason::Starts => {
                let first = kernels.iter().position(|it| it.is_on_demand && has(it));
                assert!(candidates().next().is_none() && first == Some(decision.kernel));
                reasons.insert("Starts".to_string());
            }
            Ok(decision) => {
                reasons.insert(format!("{:?}", decision.reason).replace(char::is_numeric, ""));
                check(&preferences, here, &kernels, &decision);
            }
        }
    }
    assert_eq!(reasons.len(), 12, "not every reason came up: {reasons:?}");
}

/// Checks a decision against all other kernels.
fn check(preferences: &Preferences, here: usize, kernels: &[Facts], decision: &Decision) {
    let chosen = kernels[decision.kernel];
    let case = || format!("{preferences:?} {here} {kernels:?}: {decision:?}");
    assert!(
        chosen.is_available && chosen.platforms() & preferences.required == preferences.required
    );
    for (at, other) in kernels.iter().enumerate() {
        let fits = other.platforms() & preferences.required == preferences.required;
        if !other.is_available || !fits || at == decision.kernel {
            continue;
        }
        assert!(!is_better(preferences, other, &chosen), "{at} is better: {}", case());
        if !is_better(preferences, &chosen, other) {
            assert!(at != here, "the caller's kernel is as good: {}", case());
            assert!(decision.kernel == here || decision.kernel < at, "{}", case());
        }
    }
    // Each step leaves fewer kernels, the chosen one always, and the last step only that one.
    let mut before = kernels.iter().filter(|it| it.is_available).count();
    for step in decision.steps() {
        let left: Vec<usize> = step.left.iter().collect();
        assert!(left.len() < before && left.contains(&decision.kernel), "{}", case());
        before = left.len();
    }
    assert_eq!(before, 1, "{}", case());
    let last = decision.steps().last().map_or(Reason::Only, |step| step.reason);
    assert_eq!(last, decision.reason, "{}", case());
}

#[test]
fn requests_decide_on_random_boards() {
    let mut prng = Prng::new(8);
    for _ in 0..20_000 {
        let kernels: Vec<_> = (0..prng.below(9)).map(|_| random(&mut prng)).collect();
        let (preferences, requested) = (preferences(&mut prng), prng.below(10) as u32);
        let wanted = match kernels.get(requested as usize) {
            Some(facts) if facts.is_available || facts.is_on_demand => Ok(requested as usize),
            Some(_) => Err(Refused::Unavailable),
            None => Err(Refused::NoSuchKernel),
        };
        let found = choose(Some(requested), &preferences, 0, &kernels).map(|it| it.kernel);
        assert_eq!(found, wanted);
    }
}

//! Ten thousand seeds of the DSM over weak memory, and proof that the simulator notices what is
//! missing.

use sim::dsm::{Break, Tally, simulate};

/// A share of the seeds; together they are 10,000.
fn seeds(from: u64) -> Tally {
    let mut tally = Tally::default();
    for seed in from..from + 5_000 {
        match simulate(seed, None, false) {
            Ok(one) => tally.add(one),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("seeds from {from}: {tally:?}");
    tally
}

fn is_lively(tally: Tally) {
    assert!(tally.accesses > 200_000 && tally.pauses > 50_000, "{tally:?}");
    assert!(tally.deaths > 3_000 && tally.sleeps > 1_500 && tally.lost > 1_000, "{tally:?}");
    assert!(tally.failed > 1_000 && tally.thrash > 10, "{tally:?}");
}

#[test]
fn five_thousand_seeds_end_well_and_exercise_everything() {
    is_lively(seeds(0));
}

#[test]
fn five_thousand_more() {
    is_lively(seeds(5_000));
}

#[test]
fn one_seed_does_the_same_twice() {
    for seed in [3, 77, 1234] {
        assert_eq!(simulate(seed, None, false).ok(), simulate(seed, None, false).ok());
    }
}

#[test]
fn each_missing_barrier_is_caught() {
    for (name, broken) in Break::ALL {
        let caught = (0..2000).find_map(|seed| simulate(seed, Some(broken), false).err());
        let failure = caught.unwrap_or_else(|| panic!("{name} was not caught in 2000 seeds"));
        println!("{name}: caught by seed {}: {}", failure.seed, failure.reason);
        assert!(simulate(failure.seed, None, false).is_ok(), "with the barrier, the seed is fine");
    }
}

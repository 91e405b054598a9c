//! Hundreds of seeds, and proof that the simulator notices what is missing.

use sim::{Break, Tally, simulate};

#[test]
fn six_hundred_seeds_end_well_and_exercise_everything() {
    let mut tally = Tally::default();
    for seed in 0..600 {
        match simulate(seed, None, false) {
            Ok(one) => tally.add(one),
            Err(failure) => panic!("{failure}"),
        }
    }
    assert!(tally.replies > 5_000 && tally.errors > 500, "{tally:?}");
    assert!(tally.lost > 100 && tally.crashes > 300 && tally.pauses > 2_000, "{tally:?}");
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
        assert!(!failure.trace.is_empty());
        assert!(simulate(failure.seed, None, false).is_ok(), "with the barrier, the seed is fine");
    }
}

//! Hundreds of seeds, and proof that the simulator detects missing barriers.

mod seeding;

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
    seeding::repeats(|seed| simulate(seed, None, false));
}

#[test]
fn each_missing_barrier_is_caught() {
    seeding::catches(&Break::ALL, |seed, broken| simulate(seed, broken, false));
}

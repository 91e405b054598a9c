//! Ten thousand seeds of the DSM over weak memory, and proof that the simulator detects missing
//! barriers.

mod seeding;

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
    seeding::repeats(|seed| simulate(seed, None, false));
}

#[test]
fn each_missing_barrier_is_caught() {
    seeding::catches(&Break::ALL, |seed, broken| simulate(seed, broken, false));
}

/// A stale page request, a second revoke of a page in transfer, a home that dies before all know of
/// it, a query of its successor that arrives before its last message, a message to a successor that
/// arrives too late.
#[test]
fn seeds_that_found_mistakes_end_well() {
    for seed in [131_413, 247_818, 254_692, 269_376, 594_576] {
        assert_eq!(simulate(seed, None, false).map(|_| ()).map_err(|it| it.reason), Ok(()));
    }
}

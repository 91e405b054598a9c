//! Two kernels use one process table; kernel 1 is killed in the middle of its calls and boots
//! again, and the table loses its state. What all callers saw has an order, and broken tables and
//! kernels are found.

#[path = "processes/broken.rs"]
mod broken;
#[path = "processes/play.rs"]
mod play;

use broken::Broken;
use linear::processes::{Processes, Table, split};
use linear::{Failure, check};
use play::{History, Play};

const STEPS: u64 = 400_000;
/// Seeds of a daily and of a nightly run.
const SEEDS: u64 = 100;
const NIGHTLY: u64 = 10_000;

fn judge(history: &mut History) -> Result<(), Failure> {
    split(history);
    check(&Processes, Table::default(), history, STEPS).map(|_| ())
}

fn all_have_an_order(seeds: std::ops::Range<u64>) {
    let (mut too_much, mut lost, count) = (0, 0, seeds.end - seeds.start);
    let mut done = std::collections::BTreeMap::new();
    for seed in seeds {
        let mut history = Play::new(seed, None).run(&mut done);
        lost += history.iter().filter(|call| call.reply.is_none()).count();
        match judge(&mut history) {
            Ok(()) => {}
            Err(Failure::TooMuch) => too_much += 1,
            Err(Failure::Violation { explained, stuck }) => {
                for at in explained.iter().rev().take(12).rev().chain(&stuck) {
                    println!("{at}: {:?}", history[*at]);
                }
                panic!("seed {seed}: stuck at {stuck:?}");
            }
            Err(failure) => panic!("seed {seed}: {failure:?}"),
        }
    }
    println!("{count} histories, {lost} calls without a reply, {too_much} too long to search");
    println!("{done:?}");
    assert!(lost as u64 > count && too_much * 20 < count, "{lost} lost, {too_much} too long");
    let often = |what: &&str| done.get(*what).is_some_and(|times| *times >= count / 5);
    let all = ["Spawn", "Here", "Wait", "Kill", "Group", "List", "Adopt", "Died", "Restarted"];
    assert!(all.iter().all(often), "{done:?}");
}

#[test]
fn histories_with_deaths_and_restarts_have_an_order() {
    all_have_an_order(0..SEEDS);
}

#[test]
#[ignore = "nightly: minutes"]
fn many_histories_with_deaths_and_restarts_have_an_order() {
    all_have_an_order(0..NIGHTLY);
}

#[test]
fn each_mistake_is_found() {
    for broken in Broken::ALL {
        let found = |seed: &u64| {
            let mut history = Play::new(*seed, Some(broken)).run(&mut Default::default());
            matches!(judge(&mut history), Err(Failure::Violation { .. }))
        };
        let seeds: Vec<u64> = (0..400).filter(found).take(3).collect();
        println!("{broken:?}: found by seeds {seeds:?}");
        assert_eq!(seeds.len(), 3, "{broken:?}: found by {seeds:?} only");
    }
}

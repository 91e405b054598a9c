//! The service and the model get the same random operations, and every reply is compared.

use crate::common::{Pair, Solo};
use abi::fs::{Errno, Op};
use fs::exercise::{ROOM, exercise};
use std::collections::BTreeMap;

const BUDGET: u64 = 64 * 1024 * 1024;

fn ends_of(op: Op, ends: &BTreeMap<(u16, u16), u64>) -> Vec<(Errno, u64)> {
    let own = ends.iter().filter(|((o, _), _)| *o == op as u16);
    own.filter_map(|((_, e), count)| Some((Errno::from_code(*e)?, *count))).collect()
}

#[test]
fn forty_thousand_random_operations_match_the_model() {
    let (mut asked, mut refused, mut peak) = (0, 0, 0);
    let mut ends = BTreeMap::new();
    for seed in 0..40 {
        let mut pair = Pair::new(BUDGET);
        let digest = exercise(seed, 1000, &mut |request, bulk| pair.ask(request, bulk))
            .unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        pair.assert_clean();
        (asked, refused) = (asked + digest.asked, refused + digest.refused);
        peak = peak.max(pair.peak);
        for (end, count) in pair.ends {
            *ends.entry(end).or_insert(0) += count;
        }
    }
    println!("{asked} requests, {refused} refused, at most {peak} bytes");
    // Every operation succeeds often, and every error occurs that a single ramfs can return.
    let ours = [Op::Mount, Op::NextIo, Op::IoDone, Op::NextJob, Op::JobDone, Op::Mounts];
    let others = [&ours[..], &[Op::Statfs, Op::Terminal, Op::Unmount]].concat();
    for op in Op::ALL.iter().filter(|op| !others.contains(op)) {
        println!("{op:?}: {:?}", ends_of(*op, &ends));
        assert!(ends.get(&(*op as u16, 0)).is_some_and(|count| *count > 20), "{op:?}");
    }
    let elsewhere = [
        Errno::Nospc, // in the next test
        Errno::Mlink,
        Errno::Nfile,
        Errno::Restarted,
        Errno::Xdev, // in paths.rs
        Errno::Nomem,
        Errno::Io,
        Errno::Nosys,
        Errno::Notsup,
        Errno::Rofs, // never of a ramfs
    ];
    for error in Errno::ALL.iter().filter(|e| !elsewhere.contains(e)) {
        assert!(ends.keys().any(|(_, end)| *end == *error as u16), "{error:?} never came");
    }
    assert!(asked > 40_000 && refused > asked / 10 && refused < asked / 2);
    assert!(peak < ROOM);
}

#[test]
fn a_full_file_system_matches_the_model() {
    let mut nospc = 0;
    for seed in 100..130 {
        let mut pair = Pair::new(40_000);
        exercise(seed, 1000, &mut |request, bulk| pair.ask(request, bulk))
            .unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        pair.assert_clean();
        nospc += pair.nospc;
    }
    println!("{nospc} times no space");
    assert!(nospc > 500);
}

#[test]
fn a_digest_is_the_same_from_the_service_and_from_the_model() {
    for seed in [1, 2, 77] {
        let mut solo = Solo::new(BUDGET);
        let one = exercise(seed, 2000, &mut |request, bulk| solo.ask(request, bulk));
        let mut pair = Pair::new(BUDGET / 2);
        let two = exercise(seed, 2000, &mut |request, bulk| pair.ask(request, bulk));
        assert_eq!(one, two);
        assert_ne!(
            one.map(|d| d.hash),
            exercise(3, 2000, &mut |r, b| solo.ask(r, b)).map(|d| d.hash)
        );
    }
    // To be compared with what the monitor of a board prints.
    let mut solo = Solo::new(BUDGET);
    let digest = exercise(1, 1000, &mut |request, bulk| solo.ask(request, bulk));
    println!("seed 1, 1000 operations: {digest:x?}");
}

#[test]
fn a_wrong_model_is_noticed() {
    for wrong in 0..3 {
        let caught = (0..20).any(|seed| {
            let mut model = Pair::new(BUDGET);
            model.wrong = Some(wrong);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                exercise(seed, 1000, &mut |request, bulk| model.ask(request, bulk))
            }))
            .is_err()
        });
        assert!(caught, "planted mistake {wrong}");
    }
}

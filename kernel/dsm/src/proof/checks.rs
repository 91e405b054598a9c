//! Exhaustive exploration of small models: values, invariants, bounds, progress.

use super::Mutant;
use super::graph::{Graph, explore};
use super::model::World;
use super::program::{Op, Programs, one_core};
use crate::types::Protocol::{self, ThreeState, TwoState};

pub(super) const BOTH: [Protocol; 2] = [TwoState, ThreeState];

fn graph<const D: usize, const C: usize>(world: &World<D, C>) -> Graph {
    explore(world, |state| world.is_done(state))
}

pub(super) fn check<const D: usize, const C: usize>(name: &str, world: World<D, C>) {
    let start = std::time::Instant::now();
    let graph = graph(&world);
    println!("{name}, {:?}: {} states, {:?}", world.protocol, graph.states, start.elapsed());
    assert!(graph.is_fine(), "{name}: {graph:#?}");
}

const INC: &[Op] = &[Op::Add(0), Op::Add(0), Op::Load(0)];
const CROSS: &[Op] = &[Op::AddBoth(0), Op::AddBoth(0)];

#[test]
fn two_domains_lose_no_store_and_every_schedule_ends() {
    for protocol in BOTH {
        let world = |pages, programs| World::<2, 1>::new(protocol, pages, programs);
        check("add", world(1, one_core(&[INC, INC])));
        check("add, evictions", World { evict: true, ..world(1, one_core(&[INC, INC])) });
        check("add, hold time", World { hold: 1, ..world(1, one_core(&[INC, INC])) });
        check("cross", world(2, one_core(&[CROSS, CROSS])));
        let mixed: &[Op] = &[Op::Add(1), Op::AddBoth(0), Op::Load(1)];
        check("cross, hold time", World { hold: 1, ..world(2, one_core(&[CROSS, mixed])) });
        let device: &[Op] = &[Op::Add(0), Op::Device(0), Op::Add(0)];
        check("device", world(1, one_core(&[device, INC])));
    }
}

fn two_cores(a: &[Op], b: &[Op], c: &[Op], d: &[Op]) -> Programs {
    vec![vec![a.to_vec(), b.to_vec()], vec![c.to_vec(), d.to_vec()]]
}

#[test]
fn two_cores_per_domain_lose_no_store_and_every_schedule_ends() {
    for protocol in BOTH {
        let world = |pages, programs| World::<2, 2>::new(protocol, pages, programs);
        let (add, load): (&[Op], &[Op]) = (&[Op::Add(0)], &[Op::Load(0)]);
        check("cores, add", world(1, two_cores(add, add, add, load)));
        let cross: &[Op] = &[Op::AddBoth(0)];
        let device: &[Op] = &[Op::Device(0)];
        check("cores, cross", world(2, two_cores(cross, add, cross, &[Op::Add(1)])));
        check("cores, device", world(1, two_cores(device, add, add, load)));
    }
}

#[test]
fn weak_tlb_entries_hold_up_no_core() {
    for protocol in BOTH {
        let world =
            |pages, programs| World::<2, 2> { weak: true, ..World::new(protocol, pages, programs) };
        let (add, load): (&[Op], &[Op]) = (&[Op::Add(0)], &[Op::Load(0)]);
        let upgrade: &[Op] = &[Op::Load(0), Op::Add(0)];
        check("weak, add", world(1, two_cores(add, add, add, load)));
        check("weak, upgrade", world(1, two_cores(upgrade, upgrade, load, &[])));
        check("weak, cross", world(2, two_cores(&[Op::AddBoth(0)], add, &[Op::Add(1)], &[])));
        let sleep: &[Op] = &[Op::Add(0), Op::Sleep, Op::Add(0)];
        check("weak, sleep", world(1, two_cores(sleep, &[], upgrade, add)));
    }
}

#[test]
fn three_domains_lose_no_store_and_every_schedule_ends() {
    for protocol in BOTH {
        let world = |pages, programs| World::<3, 1>::new(protocol, pages, programs);
        let add: &[Op] = &[Op::Add(0), Op::Load(0)];
        check("3: add", world(1, one_core(&[add, add, add])));
        let cross: &[Op] = &[Op::AddBoth(0)];
        check("3: cross", world(2, one_core(&[cross, cross, cross])));
    }
}

#[test]
fn sleep_is_published_late() {
    for protocol in BOTH {
        let sleep: &[Op] = &[Op::Add(0), Op::Sleep, Op::Add(0)];
        let slow = |programs| World { slow: true, ..World::<2, 1>::new(protocol, 1, programs) };
        check("slow sleep, one", slow(one_core(&[sleep, INC])));
        check("slow sleep, other", slow(one_core(&[INC, sleep])));
        check("slow sleep, both", slow(one_core(&[sleep, sleep])));
        let twice: &[Op] = &[Op::Sleep, Op::Add(0), Op::Sleep, Op::Add(0)];
        check("slow sleep, one twice", slow(one_core(&[twice, sleep])));
        check("slow sleep, other twice", slow(one_core(&[sleep, twice])));
    }
}

#[test]
fn sleep_loses_no_store() {
    for protocol in BOTH {
        let sleep: &[Op] = &[Op::Add(0), Op::Sleep, Op::Add(0)];
        let rest: &[Op] = &[Op::Add(0), Op::Sleep];
        let world = |programs| World::<2, 1>::new(protocol, 1, programs);
        check("sleep, one", world(one_core(&[sleep, INC])));
        check("sleep, other", world(one_core(&[INC, sleep])));
        check("sleep, both", world(one_core(&[sleep, sleep])));
        check("sleep, no wake", world(one_core(&[rest, rest])));
        let world = |programs| World::<3, 1>::new(protocol, 1, programs);
        let add: &[Op] = &[Op::Add(0)];
        check("3: sleep home", world(one_core(&[sleep, add, &[]])));
        check("3: sleep two", world(one_core(&[rest, rest, add])));
    }
}

#[test]
fn a_death_loses_only_exclusive_pages_and_nothing_hangs() {
    for protocol in BOTH {
        let world = |kills, restarts, programs| World::<2, 1> {
            kills,
            restarts,
            ..World::new(protocol, 1, programs)
        };
        let add: &[Op] = &[Op::Add(0), Op::Load(0)];
        check("death", world(1, 0, one_core(&[add, add])));
        check("death, restart", world(1, 1, one_core(&[add, add])));
        check("two deaths, restart", world(2, 1, one_core(&[add, add])));
    }
}

#[test]
fn a_hang_is_traced_to_the_domain_that_hangs_and_holds_up_no_other() {
    for protocol in BOTH {
        let two = |pages, programs: &[&[Op]]| World::<2, 1> {
            hang: true,
            ..World::new(protocol, pages, one_core(programs))
        };
        let add: &[Op] = &[Op::Add(0), Op::Load(0)];
        check("hang, add", two(1, &[add, add]));
        check("hang, cross", two(2, &[CROSS, CROSS]));
        check("hang, sleep", two(1, &[SLEEP, add]));
        check("hang, sleep of the other", two(1, &[add, SLEEP]));
        check("hang, restart", World { restarts: 1, ..two(1, &[add, add]) });
        let cores =
            |pages, programs| World::<2, 2> { hang: true, ..World::new(protocol, pages, programs) };
        check("hang, cores", cores(1, two_cores(ADD, ADD, ADD, &[Op::Load(0)])));
        let cross: &[Op] = &[Op::AddBoth(0)];
        check("hang, cores, cross", cores(2, two_cores(cross, ADD, cross, &[Op::Add(1)])));
        let three = |programs: &[&[Op]]| World { hang: true, ..deaths(protocol, 0, 0, programs) };
        check("3: hang, cross", World { protocol, ..hang_of_three() });
        check("3: hang", three(&[TWO, ADD, ADD]));
        check("3: hang, sleep of another", three(&[ADD, REST, ADD]));
        check("3: hang, death", World { kills: 1, ..three(&[ADD, ADD, ADD]) });
    }
}

/// Domains that need two pages at once, one of which may hang.
fn hang_of_three() -> World<3, 1> {
    let cross: &[Op] = &[Op::AddBoth(0)];
    World { hang: true, ..World::new(ThreeState, 2, one_core(&[cross, cross, cross])) }
}

#[test]
fn every_mutant_is_found() {
    let world = |mutant, pages, programs: &[&[Op]]| World::<2, 1> {
        mutant: Some(mutant),
        ..World::new(ThreeState, pages, one_core(programs))
    };
    let found = |name: &str, graph: Graph| {
        let Graph { wrong, stuck, cycle, path, .. } = &graph;
        println!("{name}: {wrong:?} stuck {stuck} cycle {cycle} after {} steps", path.len());
        assert!(!graph.is_fine(), "no check found the mutant {name}");
    };
    found("no clean", graph(&world(Mutant::NoClean, 1, &[INC, INC])));
    found("no invalidate", graph(&world(Mutant::NoInvalidate, 1, &[INC, INC])));
    found("no pin", graph(&world(Mutant::NoPin, 1, &[INC, INC])));
    found("descending", graph(&world(Mutant::Descending, 2, &[CROSS, CROSS])));
    found("readers", graph(&world(Mutant::ForgetReaders, 1, &[INC, INC])));
    let weak = World { weak: true, ..world(Mutant::KeepEntry, 1, &[INC, INC]) };
    found("weaker entry kept", graph(&weak));
    found("blame for pins", graph(&World { mutant: Some(Mutant::BlamePins), ..hang_of_three() }));
}

const ADD: &[Op] = &[Op::Add(0)];
const TWO: &[Op] = &[Op::Add(0), Op::Load(0)];
const REST: &[Op] = &[Op::Add(0), Op::Sleep];
const SLEEP: &[Op] = &[Op::Add(0), Op::Sleep, Op::Add(0)];

pub(super) fn deaths(
    protocol: Protocol,
    kills: u8,
    restarts: u8,
    programs: &[&[Op]],
) -> World<3, 1> {
    World { kills, restarts, ..World::new(protocol, 1, one_core(programs)) }
}

#[test]
fn three_domains_survive_death_beside_sleep() {
    for protocol in BOTH {
        check("3: death", deaths(protocol, 1, 0, &[TWO, ADD, ADD]));
        check("3: two deaths", deaths(protocol, 2, 0, &[ADD, ADD, ADD]));
        check("3: death, sleep of another", deaths(protocol, 1, 0, &[ADD, REST, ADD]));
    }
}

/// Takes minutes: `cargo test --release -p kernel-dsm -- --ignored --nocapture`.
#[test]
#[ignore = "millions of states; nightly"]
fn three_domains_survive_death_sleep_and_restart() {
    for protocol in [ThreeState, TwoState] {
        check("3: sleep of two", deaths(protocol, 0, 0, &[SLEEP, SLEEP, ADD]));
        check("3: death, sleep", deaths(protocol, 1, 0, &[REST, ADD, ADD]));
        check("3: death, sleep, wake", deaths(protocol, 1, 0, &[SLEEP, ADD, ADD]));
        check("3: death, restart", deaths(protocol, 1, 1, &[ADD, ADD, ADD]));
    }
}

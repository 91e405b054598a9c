//! Model check of the gate and the group: a strong kernel with two cores and two normal threads, a
//! weak one with one or two light threads, messages in any order, deaths, restarts and rest.
//! Threads compute, make kernel calls, fault, block, and end, each in any order within a budget.
//!
//! The budgets are finite, so progress is checked without fairness: the graph of states has no
//! cycle, and each state without successors is one where every thread has ended.

#[path = "../../../dsm/src/proof/graph.rs"]
mod graph;
mod state;
mod strong;
mod weak;
mod world;

use base::prng::Prng;
use graph::{Graph, explore};
use state::{Budget, Mistake};
use stateright::{Checker, Model};
use world::{Action, REACHED, World};

/// Two normal threads, with two stays in program code each but the last; one light thread.
const DUO: World = World {
    budget: Budget { normal: [1, 1], light: [1, 0], lights: 1, ..Budget::NONE },
    first: u32::MAX - 1,
    mistake: None,
};

fn with(budget: Budget) -> World {
    World { budget, ..DUO }
}

fn graph(world: &World) -> Graph {
    explore(world, |state| world.is_done(state))
}

fn check(name: &str, world: World) -> usize {
    let start = std::time::Instant::now();
    let graph = graph(&world);
    println!("{name}: {} states, {:?}", graph.states, start.elapsed());
    assert!(graph.is_fine(), "{name}: {graph:#?}");
    graph.states
}

#[test]
fn all_threads_end_and_no_two_kernels_run_program_code() {
    check("one light thread", DUO);
    check("preemption", with(Budget { preemptions: 2, ..DUO.budget }));
    check("repeated messages", with(Budget { repeats: 1, ..DUO.budget }));
}

#[test]
fn two_light_threads_stop_before_the_answer() {
    check("two light threads", with(Budget { light: [1, 1], lights: 2, ..DUO.budget }));
}

#[test]
fn many_turns() {
    let long = Budget { normal: [3, 0], light: [2, 0], ..DUO.budget };
    check("many turns", with(Budget { preemptions: 1, ..long }));
}

#[test]
fn the_wrap_of_the_numbers_changes_nothing() {
    let far = check("far from the wrap", World { first: 1000, ..DUO });
    for first in [u32::MAX - 3, u32::MAX - 2, u32::MAX - 1, u32::MAX, i32::MAX as u32 - 1] {
        assert_eq!(check("at the wrap", World { first, ..DUO }), far);
    }
}

#[test]
fn a_rest_of_the_strong_kernel_lets_light_threads_run() {
    check("rests", with(Budget { rests: 2, ..DUO.budget }));
}

#[test]
fn a_weak_kernel_that_rests_need_not_answer() {
    check("weak rests", with(Budget { weak_rests: 2, ..DUO.budget }));
    check("both rest", with(Budget { rests: 1, weak_rests: 1, ..DUO.budget }));
}

#[test]
fn the_end_of_the_process_ends_light_threads_before_memory_is_freed() {
    check("end", with(Budget { ends: 1, ..DUO.budget }));
    let two = Budget { normal: [1, 0], light: [0, 0], lights: 2, ..DUO.budget };
    check("end, two light threads", with(Budget { ends: 1, preemptions: 1, ..two }));
}

#[test]
fn the_death_of_either_kernel_ends_the_process() {
    let one = Budget { normal: [1, 0], ..DUO.budget };
    check("death", with(Budget { deaths: 1, ..DUO.budget }));
    check("death, end, rest", with(Budget { deaths: 1, ends: 1, rests: 1, ..one }));
    let short = Budget { normal: [0, 0], light: [0, 0], ..DUO.budget };
    check("death, restart", with(Budget { deaths: 1, restarts: 1, lives: 1, ..short }));
    check(
        "death, restart, ends",
        with(Budget { deaths: 1, restarts: 1, lives: 1, ends: 2, ..short }),
    );
    let two = Budget { deaths: 2, restarts: 2, lives: 1, ..short };
    check("two deaths, two restarts", with(two));
}

#[test]
fn the_model_reaches_what_it_is_for() {
    let world = with(Budget { rests: 1, weak_rests: 1, ..DUO.budget });
    let checker = world.checker().threads(2).spawn_bfs().join();
    for name in REACHED {
        assert!(checker.discovery(name).is_some(), "never: {name}");
    }
}

#[test]
fn two_light_threads_beside_all_else() {
    let two = Budget { light: [1, 1], lights: 2, ..DUO.budget };
    check("two, preemption", with(Budget { preemptions: 1, ..two }));
    check("two, the weak kernel rests", with(Budget { weak_rests: 1, ..two }));
}

#[test]
fn all_at_once() {
    let all = Budget { rests: 1, weak_rests: 1, ends: 1, deaths: 1, ..DUO.budget };
    check("rests, end, death", with(Budget { normal: [1, 0], ..all }));
}

/// Takes minutes: `cargo test -p kernel-light -- --ignored --nocapture`.
#[test]
#[ignore = "millions of states"]
fn more_at_once() {
    let all = Budget { rests: 1, weak_rests: 1, ends: 1, deaths: 1, ..DUO.budget };
    check("rests, end, death", with(all));
    check("rests, end, preemption", with(Budget { preemptions: 1, deaths: 0, ..all }));
    let two = Budget { light: [1, 1], lights: 2, ends: 1, ..DUO.budget };
    check("two, both rest", with(Budget { rests: 1, weak_rests: 1, ends: 0, ..two }));
    check("two, preemption, end", with(Budget { preemptions: 1, ..two }));
    check("two, end, death", with(Budget { deaths: 1, ..two }));
    let short = Budget { normal: [1, 0], deaths: 2, restarts: 2, lives: 2, ..DUO.budget };
    check("two deaths, two restarts", with(short));
}

/// Threads with long lives, in schedules from seeds, until all have ended.
#[test]
fn long_lives() {
    let long = Budget {
        normal: [200; 2],
        light: [100; 2],
        lights: 2,
        preemptions: 50,
        rests: 50,
        weak_rests: 50,
        repeats: 50,
        ..Budget::NONE
    };
    let (mut steps, mut actions) = (0, vec![]);
    for seed in 0..2000 {
        let ends = (seed % 4 == 3).into();
        let world = with(Budget { ends, deaths: 2 * ends, restarts: 2, lives: 2, ..long });
        let mut random = Prng::new(seed);
        let mut state = world.init_states().remove(0);
        loop {
            world.actions(&state, &mut actions);
            // A kernel seldom dies.
            let is_rare = |action: &Action| matches!(action, Action::Die(_) | Action::Kill);
            if actions.len() > 1 && random.below(1000) > 0 {
                actions.retain(|action| !is_rare(action));
            }
            if actions.is_empty() {
                break;
            }
            let action = actions[random.below(actions.len() as u64) as usize];
            state = world.next_state(&state, action).expect("each action has a next state");
            assert_eq!(state.broken, None, "seed {seed}, step {steps}");
            (steps, actions) = (steps + 1, vec![]);
        }
        assert!(world.is_done(&state), "seed {seed}: {state:#?}");
    }
    println!("long lives: {steps} steps");
}

#[test]
fn every_mistake_is_found() {
    for mistake in Mistake::ALL {
        let world = World { mistake: Some(mistake), ..with(mistake.budget()) };
        let found = match mistake.breaks() {
            Some(_) => explore(&world, |_| true),
            None => graph(&world),
        };
        let Graph { wrong, stuck, path, .. } = &found;
        println!("{mistake:?}: {wrong:?} stuck {stuck} after {} steps", path.len());
        assert_eq!((*wrong, *stuck), (mistake.breaks(), mistake.breaks().is_none()), "{path:#?}");
        // The same world without it is fine, so the mistake is what was found.
        check("    without it", World { mistake: None, ..world });
    }
}

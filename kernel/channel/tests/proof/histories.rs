//! Random histories of three kernels, with deaths and restarts, until nothing is on its way.

use base::prng::Prng;

use super::actions::Action;
use super::world::{Budget, State, World};
use crate::channels::Limits;

const STEPS: usize = 120;
const CHANNELS: usize = 8;

/// A step that the exhaustive models do not have: a new channel, or an end for another kernel.
fn extra(world: &World, state: &State, prng: &mut Prng) -> Option<Action> {
    let k = prng.below(3) as usize;
    let kernel = &state.kernels[k];
    if !kernel.is_alive {
        return None;
    }
    if prng.chance(1, 2) && state.tracked.len() < CHANNELS {
        return Some(Action::Create(k, prng.below(3) as u8));
    }
    let end = *kernel.held.get(prng.below(kernel.held.len().max(1) as u64) as usize)?;
    let to = (k + 1 + prng.below(2) as usize) % 3;
    let told = world.who(state, k, end).is_some_and(|(a, b)| state.tracked[a].ends[b].is_told);
    (kernel.known[to] != 0 && !told).then_some(Action::Hand(k, end, to))
}

fn choose(actions: &mut Vec<Action>, prng: &mut Prng, salt: u64) -> Option<Action> {
    // A kernel seldom dies; some links are slow throughout a history.
    let is_rare = |action: &Action| match action {
        Action::Die(_) | Action::Exit(_) => true,
        Action::Deliver(a, b) | Action::Notice(a, b) => salt >> (a * 3 + b) & 1 != 0,
        _ => false,
    };
    if actions.len() > 1 && !prng.chance(1, 16) {
        let rare: Vec<bool> = actions.iter().map(is_rare).collect();
        if rare.iter().any(|it| !it) {
            let mut at = rare.iter();
            actions.retain(|_| at.next() == Some(&false));
        }
    }
    let count = actions.len() as u64;
    (count > 0).then(|| actions[prng.below(count) as usize])
}

/// Returns the number of steps. `ring`: messages in a ring, 0 for no limit.
fn history(seed: u64, ring: usize) -> usize {
    let mut prng = Prng::new(seed);
    let deaths = prng.below(3) as u8;
    let exits = prng.below(3) as u8;
    let budget = Budget { sends: 60, moves: 30, closes: 4, exits, deaths, restarts: deaths };
    let is_scarce = prng.chance(1, 3);
    let arrivals = if is_scarce { 3 } else { 2 * CHANNELS as u16 };
    let ends = 2 * arrivals + if is_scarce { 14 } else { 4 * CHANNELS as u16 };
    let limits = Limits { ends, queue: 3, arrivals };
    let world = World { limits, ring, ..World::new(3, &[], budget) };
    let (mut state, salt) = (world.start(), prng.next());
    let (mut path, mut actions) = (vec![], vec![]);
    loop {
        actions.clear();
        world.list_actions(&state, &mut actions);
        if path.len() > STEPS {
            // Let everything come to rest.
            actions.retain(|it| {
                matches!(it, Action::Fetch(..) | Action::Deliver(..) | Action::Notice(..))
            });
        }
        let more = path.len() <= STEPS && prng.chance(1, 6);
        let extra = more.then(|| self::extra(&world, &state, &mut prng)).flatten();
        let chosen = extra.or_else(|| choose(&mut actions, &mut prng, salt));
        let idle = path.len() <= STEPS && chosen.is_none();
        let new = || (0..4).find_map(|_| self::extra(&world, &state, &mut prng));
        let Some(action) = chosen.or_else(|| idle.then(new).flatten()) else { break };
        path.push(action);
        world.step(&mut state, action);
        assert!(state.wrong.is_none(), "{:?} seed {seed}, ring {ring}, {path:?}", state.wrong);
        assert!(path.len() < 10 * STEPS, "seed {seed}: no end");
    }
    path.len()
}

fn histories(seeds: core::ops::Range<u64>) {
    let (start, mut steps) = (std::time::Instant::now(), 0);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        steps += history(seed, [0, 1, 3][seed as usize % 3]);
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{count} histories, {steps} steps, {:.0} histories a second", count as f64 / seconds);
}

#[test]
fn random_histories_end_well() {
    histories(0..3_000);
}

/// Histories that found mistakes of the protocol.
#[test]
fn histories_that_failed_once_end_well() {
    // A life of a kernel that another one never heard of.
    const UNHEARD_LIFE: [u64; 2] = [1_032_446, 1_522_727];
    // A broken end that returns to its stand-in.
    const BROKEN_RETURN: [u64; 1] = [1_554_103];
    // An end that finds no room on a kernel that has just started.
    const NO_ROOM_YET: [u64; 1] = [1_034_366];
    // An end that retires its stand-ins, and whose kernel dies with its last News unsent.
    const UNSENT_NEWS: [u64; 3] = [1_084_262, 1_580_185, 1_345_444];
    // An end that retires its stand-ins, and whose kernel dies with one Retire unsent.
    const UNSENT_RETIRE: [u64; 2] = [1_243_080, 1_659_790];
    // A Retire that is sent only after the end has been on that kernel again.
    const LATE_RETIRE: [u64; 1] = [1_907_842];
    let seeds = [&UNHEARD_LIFE[..], &BROKEN_RETURN, &NO_ROOM_YET].concat();
    let seeds = [&seeds[..], &UNSENT_NEWS, &UNSENT_RETIRE, &LATE_RETIRE].concat();
    seeds.into_iter().for_each(|seed| histories(seed..seed + 1));
}

#[test]
#[ignore = "a million histories"]
fn a_million_random_histories_end_well() {
    const PART: u64 = 50_000;
    let parts = |first: u64| {
        (first..first + 10).for_each(|part| histories(part * PART..(part + 1) * PART));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| parts(20));
        scope.spawn(|| parts(30));
    });
}

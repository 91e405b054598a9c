//! The exhaustive models. The graph of states must have no cycle, and no end but one in which
//! nothing is on its way.

use super::graph::{Graph, explore};
use super::world::{Budget, Setup, World};

pub fn setup(level: u8, at: [usize; 2], sends: [u8; 2]) -> Setup {
    Setup { level, at, sends }
}

pub const NONE: Budget =
    Budget { sends: 0, moves: 0, closes: 0, exits: 0, deaths: 0, restarts: 0 };

/// Explores a model. Every state without successors is checked as one in which nothing is on its
/// way ([`super::checks`]), so none is stuck.
pub fn graph(world: &World) -> Graph {
    explore(world, |state| state.links.iter().all(|link| link.is_empty()))
}

fn check(name: &str, world: &World) -> usize {
    let start = std::time::Instant::now();
    let graph = graph(world);
    println!("{name}: {} states, {:?}", graph.states, start.elapsed());
    assert!(graph.is_fine(), "{name}: {graph:#?}");
    graph.states
}

/// A channel between kernels 0 and 1, over which ends of a second one can be sent.
fn pair(second: [usize; 2], sends: [u8; 2]) -> [Setup; 2] {
    [setup(1, [0, 1], [1, 1]), setup(0, second, sends)]
}

#[test]
fn messages_arrive_once_and_in_order() {
    let both = [setup(0, [0, 1], [2, 2])];
    check("remote", &World::new(2, &both, Budget { sends: 4, closes: 2, ..NONE }));
    let local = [setup(0, [0, 0], [2, 2])];
    check("local", &World::new(2, &local, Budget { sends: 4, closes: 2, ..NONE }));
}

#[test]
fn an_end_moves_while_both_send() {
    let budget = Budget { sends: 4, moves: 2, closes: 1, ..NONE };
    check("move from a local peer", &World::new(2, &pair([0, 0], [2, 2]), budget));
    check("move to a local peer", &World::new(2, &pair([0, 1], [2, 2]), budget));
    check("move past a third kernel", &World::new(3, &pair([0, 2], [2, 2]), budget));
}

#[test]
fn kernels_die_around_a_move() {
    let budget = Budget { sends: 3, moves: 1, deaths: 1, ..NONE };
    check("death, local peer", &World::new(2, &pair([0, 0], [1, 1]), budget));
    check("death, third kernel", &World::new(3, &pair([0, 2], [1, 1]), budget));
}

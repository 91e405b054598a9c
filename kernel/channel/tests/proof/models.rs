//! The exhaustive models. The graph of states must have no cycle, and no end but one in which
//! nothing is on its way.

use super::graph::{Graph, explore};
use super::world::{Budget, Setup, World};

pub fn setup(level: u8, at: [usize; 2], sends: [u8; 2]) -> Setup {
    Setup { level, at, sends }
}

pub const NONE: Budget = Budget { sends: 0, moves: 0, closes: 0, exits: 0, deaths: 0, restarts: 0 };

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
    let budget = Budget { sends: 4, closes: 2, ..NONE };
    check("remote", &World::new(2, &[setup(0, [0, 1], [2, 2])], budget));
    check("local", &World::new(2, &[setup(0, [0, 0], [2, 2])], budget));
}

#[test]
fn an_end_moves_while_both_send() {
    let budget = Budget { sends: 3, moves: 1, closes: 1, ..NONE };
    check("from a local peer", &World::new(2, &pair([0, 0], [1, 1]), budget));
    check("to a local peer", &World::new(2, &pair([0, 1], [1, 1]), budget));
    check("past a third kernel", &World::new(3, &pair([0, 2], [1, 1]), budget));
}

/// Its ends go from kernels 0 and 2 to kernel 1, over a channel each.
fn both() -> [Setup; 3] {
    [setup(1, [0, 1], [1, 0]), setup(1, [2, 1], [1, 0]), setup(0, [0, 2], [1, 1])]
}

#[test]
fn both_ends_move_at_once() {
    check("both ends", &World::new(3, &both(), Budget { sends: 3, moves: 2, ..NONE }));
    let swap = [setup(1, [0, 1], [1, 1]), setup(0, [0, 1], [1, 1])];
    let budget = Budget { sends: 4, moves: 2, ..NONE };
    check("ends change places", &World::new(2, &swap, budget));
}

#[test]
fn ends_in_queues_of_ends_that_move() {
    let nested = [setup(2, [0, 1], [1, 0]), setup(1, [0, 0], [1, 0]), setup(0, [0, 0], [0, 1])];
    let budget = Budget { sends: 3, moves: 2, closes: 1, ..NONE };
    check("nested", &World::new(2, &nested, budget));
}

#[test]
fn programs_die_around_a_move() {
    let budget = Budget { sends: 3, moves: 1, exits: 1, ..NONE };
    check("exit, local peer", &World::new(2, &pair([0, 0], [1, 1]), budget));
    let budget = Budget { sends: 2, ..budget };
    check("exit, third kernel", &World::new(3, &pair([0, 2], [1, 1]), budget));
}

#[test]
fn kernels_die_around_a_move() {
    let budget = Budget { sends: 2, moves: 1, deaths: 1, ..NONE };
    check("death, local peer", &World::new(2, &pair([0, 0], [1, 1]), budget));
    check("death, third kernel", &World::new(3, &pair([0, 2], [1, 1]), budget));
    let budget = Budget { restarts: 1, ..budget };
    check("death, restart", &World::new(2, &pair([0, 0], [1, 1]), budget));
}

#[test]
fn rings_that_are_full_delay_and_lose_nothing() {
    let budget = Budget { sends: 2, moves: 1, closes: 1, ..NONE };
    check("ring", &World { ring: 1, ..World::new(2, &pair([0, 0], [1, 1]), budget) });
}

#[test]
fn an_end_without_room_on_the_other_kernel_is_refused_or_closed() {
    let budget = Budget { sends: 2, moves: 2, closes: 1, ..NONE };
    check("scarce", &scarce([setup(1, [0, 1], [2, 0]), setup(0, [0, 0], [1, 0])], budget));
}

/// There is room for one end on the other kernel.
fn scarce(channels: [Setup; 2], budget: Budget) -> World {
    let mut world = World::new(2, &channels, budget);
    world.limits.arrivals = 1;
    world
}

const LONG: Budget = Budget { sends: 4, moves: 2, closes: 1, ..NONE };
const DEATH: Budget = Budget { sends: 3, moves: 2, deaths: 1, ..NONE };

// The larger models: `cargo test --release -p kernel-channel -- --ignored --nocapture`.

#[test]
#[ignore = "a large model"]
fn two_moves_past_a_third_kernel() {
    check("past a third kernel", &World::new(3, &pair([0, 2], [2, 2]), LONG));
}

#[test]
#[ignore = "a large model"]
fn both_ends_move_at_once_and_close() {
    check("both ends, close", &World::new(3, &both(), LONG));
}

#[test]
#[ignore = "a large model"]
fn kernels_die_while_both_ends_move() {
    check("both ends, death", &World::new(3, &both(), DEATH));
}

#[test]
#[ignore = "a large model"]
fn kernels_die_around_two_moves() {
    check("two moves, death", &World::new(3, &pair([0, 2], [1, 1]), DEATH));
}

#[test]
#[ignore = "a large model"]
fn kernels_die_and_return_around_a_move() {
    let restart = Budget { restarts: 1, moves: 1, ..DEATH };
    check("death, restart", &World::new(3, &pair([0, 2], [1, 1]), restart));
}

#[test]
#[ignore = "a large model"]
fn two_kernels_die_around_a_move() {
    let two = Budget { sends: 2, moves: 1, deaths: 2, ..NONE };
    check("two deaths", &World::new(3, &pair([0, 2], [1, 1]), two));
}

#[test]
#[ignore = "a large model"]
fn kernels_die_around_ends_in_queues() {
    let nested = [setup(2, [0, 1], [1, 0]), setup(1, [0, 0], [1, 0]), setup(0, [0, 1], [1, 1])];
    check("nested, death", &World::new(2, &nested, DEATH));
}

#[test]
#[ignore = "a large model"]
fn ends_in_queues_close() {
    let nested = [setup(2, [0, 1], [1, 0]), setup(1, [0, 0], [1, 0]), setup(0, [0, 0], [1, 1])];
    check("nested, close", &World::new(2, &nested, LONG));
}

#[test]
#[ignore = "a large model"]
fn three_moves_with_scarce_room() {
    let budget = Budget { moves: 3, ..LONG };
    let channels = [setup(1, [0, 1], [2, 1]), setup(0, [0, 0], [1, 1])];
    check("scarce, three moves", &scarce(channels, budget));
}

#[test]
#[ignore = "a large model"]
fn full_rings_among_three_kernels() {
    let ring = World::new(3, &pair([0, 2], [1, 1]), Budget { sends: 3, moves: 1, ..LONG });
    check("ring, third kernel", &World { ring: 1, ..ring });
}

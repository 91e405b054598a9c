//! Model check of `kernel_mem::blocks` and `transfer`: two and three kernels claim and release
//! blocks over weak memory; one dies at any access and boots again. No block is cacheable in two
//! kernels or lost; at rest the table and the kernels agree. For each rule there is a model that
//! breaks it.

mod blocks;

use std::time::Instant;

use blocks::{BOOKS, Board, Bug, CLEAN, FLOORS, ONCE};
use sim::explore::none;
use sim::machine::Access;
use stateright::{Checker, Model};

const DUO: Board = Board {
    kernels: 2,
    blocks: 1,
    rounds: 2,
    deaths: 1,
    locked: true,
    shared: false,
    early: false,
    missing: none,
    bug: Bug::None,
};

fn check(name: &str, board: Board) {
    let begin = Instant::now();
    let checker = board.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states, {:?}", checker.unique_state_count(), begin.elapsed());
    checker.assert_properties();
}

fn finds(board: Board, property: &'static str) {
    let bug = board.bug;
    let checker = board.checker().threads(2).spawn_bfs().join();
    assert!(checker.discovery(property).is_some(), "{bug:?} breaks nothing?");
}

#[test]
fn two_kernels_die_twice() {
    check("two kernels", Board { deaths: 2, ..DUO });
}

#[test]
fn two_blocks() {
    check("two blocks", Board { blocks: 2, rounds: 1, ..DUO });
}

#[test]
fn three_kernels() {
    check("three kernels", Board { kernels: 3, rounds: 1, ..DUO });
}

#[test]
fn without_the_lock_no_block_has_two_owners_either() {
    check("without lock", Board { locked: false, ..DUO });
    check("three without lock", Board { locked: false, kernels: 3, rounds: 1, deaths: 0, ..DUO });
}

#[test]
fn loads_may_be_early() {
    check("early loads", Board { early: true, rounds: 1, ..DUO });
    check("early without lock", Board { early: true, locked: false, rounds: 1, ..DUO });
}

#[test]
fn shared_blocks_outlive_their_keeper() {
    check("keepers", Board { shared: true, ..DUO });
}

#[test]
#[ignore = "ten minutes: for changes of the protocol"]
fn for_longer() {
    check("two kernels", Board { rounds: 3, deaths: 2, ..DUO });
    check("two blocks", Board { blocks: 2, ..DUO });
    check("early loads", Board { early: true, ..DUO });
    check("three keepers", Board { shared: true, kernels: 3, rounds: 1, ..DUO });
    check("three without lock", Board { locked: false, kernels: 3, rounds: 1, ..DUO });
    check("three kernels", Board { kernels: 3, ..DUO });
}

#[test]
fn every_rule_is_needed() {
    let with = |bug| Board { bug, ..DUO };
    finds(with(Bug::ReleaseFirst), ONCE);
    finds(with(Bug::Dirty), CLEAN);
    finds(with(Bug::NoLives), BOOKS);
    finds(with(Bug::NoRecovery), BOOKS);
    let word = |access| matches!(access, Access::Store(at) if at < FLOORS);
    finds(Board { missing: word, locked: false, ..with(Bug::None) }, ONCE);
    finds(with(Bug::LateFence), BOOKS);
}

//! The boards that are checked, and the mistakes that are found.

use super::*;
use stateright::Checker;

const DUO: Board = Board {
    domains: 2,
    rests: 2,
    completions: 1,
    wakes: 1,
    deaths: 0,
    stops: 0,
    moves: 0,
    bug: Bug::None,
};

fn check(board: Board) {
    let checker = board.checker().threads(2).spawn_bfs().join();
    println!("{} domains: {} states", board.domains, checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn two_domains_serve_a_device() {
    check(DUO);
}

/// The weak domain dies and boots again while the strong one runs, begins to rest or rests.
#[test]
fn a_domain_that_dies_and_boots_leaves_no_completion() {
    check(Board { deaths: 1, wakes: 0, ..DUO });
}

/// A domain that is powered off or INACTIVE cannot serve, and the other one may not listen.
#[test]
fn a_domain_that_is_stopped_leaves_no_completion() {
    check(Board { stops: 1, wakes: 0, ..DUO });
    check(Board { stops: 1, rests: 1, ..DUO });
}

/// The driver moves while kernels rest, return, die and are stopped.
#[test]
fn a_driver_that_moves_leaves_no_completion() {
    check(Board { moves: 2, wakes: 0, ..DUO });
    check(Board { moves: 2, rests: 1, ..DUO });
    check(Board { moves: 1, deaths: 1, rests: 1, wakes: 0, ..DUO });
    check(Board { moves: 1, stops: 1, rests: 1, wakes: 0, ..DUO });
}

#[test]
fn three_domains_serve_a_device() {
    check(Board { domains: 3, rests: 1, wakes: 0, ..DUO });
}

#[test]
fn every_rule_of_duty_is_needed() {
    for bug in [
        Bug::NoLook,
        Bug::OnlyServerLooks,
        Bug::NoWake,
        Bug::EarlyLook,
        Bug::NoFreshStart,
        Bug::AllListen,
    ] {
        let broken = if bug == Bug::AllListen { STRONG_SLEEPS } else { NOTHING_LEFT };
        let checker = Board { bug, ..DUO }.checker().threads(2).spawn_bfs().join();
        assert!(checker.discovery(broken).is_some(), "{bug:?} breaks nothing?");
    }
    for (bug, wakes) in [(Bug::HomeAlways, 0), (Bug::OldHome, 1)] {
        let checker =
            Board { bug, moves: 1, rests: 1, wakes, ..DUO }.checker().threads(2).spawn_bfs().join();
        assert!(checker.discovery(NOTHING_LEFT).is_some(), "{bug:?} breaks nothing?");
    }
}

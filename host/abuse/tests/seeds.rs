//! Bytes from seeds: a few in every run of the tests, many in a nightly one (`cargo run -p abuse --
//! --seeds N`).

use kernel_process::FUNCTIONS;

/// Number of seeds.
const SEEDS: u64 = 2000;

#[test]
fn whatever_a_program_does_all_is_as_it_must_be() {
    let worked = (0..SEEDS).fold(0, |all, seed| all | abuse::exercise(&abuse::bytes_of(seed)));
    let not = FUNCTIONS.iter().enumerate().filter(|(place, _)| worked & 1 << place == 0);
    let not: Vec<&str> = not.map(|(_, function)| function.name).collect();
    // Every function succeeds at some point, except those that do not return, that do not exist
    // yet, and that need a terminal.
    let never = ["proc_exit", "sock_accept", "sock_recv", "sock_send", "sock_shutdown", "terminal"];
    assert!(not.iter().all(|name| never.contains(name)), "never worked: {not:?}");
}

#[test]
fn no_bytes_are_no_deeds() {
    assert_eq!(abuse::exercise(&[]), 0);
}

//! Bytes of seeds: a few of them in every run of the tests, many in a nightly one
//! (`cargo run -p abuse -- --seeds N`).

use kernel_process::FUNCTIONS;

/// How many.
const SEEDS: u64 = 2000;

#[test]
fn whatever_a_program_does_all_is_as_it_must_be() {
    let worked = (0..SEEDS).fold(0, |all, seed| all | abuse::exercise(&abuse::bytes_of(seed)));
    let not = FUNCTIONS.iter().enumerate().filter(|(place, _)| worked & 1 << place == 0);
    let not: Vec<&str> = not.map(|(_, function)| function.name).collect();
    // Not only refused: what does not come back, what there is not yet, and what wants a terminal
    // cannot work.
    let never = ["proc_exit", "sock_accept", "sock_recv", "sock_send", "sock_shutdown", "terminal"];
    assert!(not.iter().all(|name| never.contains(name)), "never worked: {not:?}");
}

#[test]
fn no_bytes_are_no_deeds() {
    assert_eq!(abuse::exercise(&[]), 0);
}

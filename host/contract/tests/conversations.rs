//! Conversations by generated code, over a transport that checks what a kernel will check.
//!
//! The files in `generated/` are what the generator prints. After a change of it:
//! `./pen contract rust contracts/ping.v1.toml >host/contract/tests/generated/ping_v1.rs`, and
//! `every_v1.rs` likewise from `host/contract/tests/contracts/every.v1.toml`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod every;
mod memory;

#[rustfmt::skip]
#[path = "generated/ping_v1.rs"]
#[allow(dead_code, reason = "the tests use a part of it")]
mod ping_v1;

use contract::Contract;
use every::{all, every_v1};
use penumbra::channel::Error;
use std::path::Path;

const EVERY: &str = "host/contract/tests/contracts/every.v1.toml";
const PING: &str = "contracts/ping.v1.toml";

fn read(path: &str) -> Contract {
    Contract::read(&Path::new("../..").join(path)).unwrap()
}

#[test]
fn generated_code_is_what_the_generator_prints() {
    const ECHO: &str = "tests/contracts/echo.v1.toml";
    const GIVE: &str = "tests/contracts/give.v1.toml";
    const GREET: &str = "examples/greet.v1.toml";
    const SCAN: &str = "contracts/scan.v1.toml";
    const MAIL_STORE: &str = "contracts/mail_store.v1.toml";
    const PNG: &str = "contracts/png.v1.toml";
    const SOLVER: &str = "contracts/solver.v1.toml";
    const LARGE: &str = "tests/contracts/large.v1.toml";
    const PIECE: &str = "tests/contracts/piece.v1.toml";
    const STREAM: &str = "tests/contracts/stream.v1.toml";
    const RUST: &str = "tests/programs/channels/src/contracts";
    const C: &str = "tests/programs/channels-c";
    let checked_in = |path: &str| std::fs::read_to_string(Path::new("../..").join(path)).unwrap();
    let same = |source: &str, file: &str, now: String| {
        let language = if file.ends_with(".h") { "c" } else { "rust" };
        let command = format!("./pen contract {language} {source} >{file}");
        assert!(now == checked_in(file), "other code is checked in: `{command}`");
    };
    for (source, file) in [
        (EVERY, "host/contract/tests/generated/every_v1.rs"),
        (PING, "host/contract/tests/generated/ping_v1.rs"),
        (LARGE, "tests/programs/channels/src/contracts/large_v1.rs"),
        (GREET, "examples/greet/src/greet_v1.rs"),
        (SCAN, "tests/programs/mail-contracts/src/scan_v1.rs"),
        (PNG, "tests/programs/png/src/png_v1.rs"),
        (SOLVER, "tests/programs/sat/src/solver_v1.rs"),
        (STREAM, "tests/programs/windows/src/stream_v1.rs"),
        (MAIL_STORE, "tests/programs/mail-contracts/src/mail_store_v1.rs"),
    ] {
        same(source, file, contract::module(&read(source), source));
    }
    let header = contract::header(&read(STREAM), STREAM);
    same(STREAM, "tests/programs/windows-c/stream_v1.h", header);
    same(GREET, "examples/greet-server/greet_v1.h", contract::header(&read(GREET), GREET));
    let both = [(PING, "ping_v1"), (ECHO, "echo_v1"), (GIVE, "give_v1"), (PIECE, "piece_v1")];
    for (source, name) in both {
        let contract = read(source);
        same(source, &format!("{RUST}/{name}.rs"), contract::module(&contract, source));
        same(source, &format!("{C}/{name}.h"), contract::header(&contract, source));
    }
}

#[test]
fn a_client_pings_and_leaves() {
    use ping_v1::client::received::Asked;
    use ping_v1::server::received::Idle;
    use ping_v1::{client, message, server};
    let contract = read(PING);
    assert_eq!((ping_v1::NAME, ping_v1::HASH), ("ping.v1", contract.hash().0));
    let automaton = kernel_contract::Automaton::parse(ping_v1::CONTRACT).unwrap();
    assert_eq!(automaton.hash(), contract.hash(), "the automaton in the program's image");
    let (here, there) = memory::channel(&contract);
    let (mut client, mut server) = (client::start(here), server::start(there));
    for sequence in 0..3 {
        let asked = client.send_ping(&message::Ping { sequence }).unwrap();
        let Idle::Ping { message, next } = server.receive().unwrap() else { panic!("no ping") };
        let pong = message::Pong { sequence: message.sequence, time: 1 << 40 };
        server = next.send_pong(&pong).unwrap();
        let Asked::Pong { message, next } = asked.receive().unwrap();
        assert_eq!(message, pong);
        client = next;
    }
    let client = client.send_bye(&message::Bye {}).unwrap();
    let Idle::Bye { next, .. } = server.receive().unwrap() else { panic!("no bye") };
    client.close();
    next.close();
}

/// The answer is in the queue before the call: the only thread could not give it later.
#[test]
fn a_call_sends_and_receives() {
    use ping_v1::client::received::Asked;
    use ping_v1::{client, message, server};
    let (here, there) = memory::channel(&read(PING));
    let pong = message::Pong { sequence: 5, time: 7 };
    there.forge(message::Pong::TAG, &pong.encode());
    let answer = client::start(here).call_ping(&message::Ping { sequence: 5 }).unwrap();
    let Asked::Pong { message, .. } = answer;
    assert_eq!(message, pong);
    let server::received::Idle::Ping { message, .. } = server::start(there).receive().unwrap()
    else {
        panic!("no ping")
    };
    assert_eq!(message.sequence, 5);
}

#[test]
fn a_side_closes_where_it_may_and_breaks_the_channel_elsewhere() {
    use ping_v1::{client, message, server};
    let (here, there) = memory::channel(&read(PING));
    client::start(here).close();
    let received = server::start(there).receive().unwrap();
    assert!(matches!(received, server::received::Idle::Closed));

    let (here, there) = memory::channel(&read(PING));
    let asked = client::start(here).send_ping(&message::Ping { sequence: 1 }).unwrap();
    let server::received::Idle::Ping { next, .. } = server::start(there).receive().unwrap() else {
        panic!("no ping")
    };
    drop(next);
    assert_eq!(asked.receive().err(), Some(Error::Broken), "the server owes an answer");
}

#[test]
fn a_wrong_transport_is_an_error() {
    use ping_v1::server;
    for (tag, bytes, error) in [
        (1, 16, Error::Malformed(1)),
        (1, 8, Error::Unexpected(1)),
        (9, 0, Error::Unexpected(9)),
        (0, 7, Error::Malformed(0)),
    ] {
        let (here, there) = memory::channel(&read(PING));
        here.forge(tag, &[0; 16][..bytes]);
        assert_eq!(server::start(there).receive().err(), Some(error), "{tag} of {bytes}");
    }
}

#[test]
fn messages_have_blocks_and_endpoints() {
    use every_v1::{client, message, server};
    let contract = read(EVERY);
    let other = read("host/contract/tests/contracts/other.v2.toml");
    let (here, there) = memory::channel(&contract);
    let (_client, served) = memory::channel(&other);
    let (other_client, _server) = memory::channel(&other);
    let sending = client::start(here);
    let answering = sending.send_all(&all(), vec![5; 3072], served, other_client).unwrap();
    let received = server::start(there).receive().unwrap();
    let server::received::Sending::All { message, block, served, other, next } = received else {
        panic!("closed")
    };
    assert_eq!((message, block.len()), (all(), 3072));
    assert_eq!(format!("{served:?} {other:?}"), "Server Client");
    let between = next.send_first(&message::First {}).unwrap();
    // A server may be ahead of its client: two messages are in the queue now.
    let over = between.send_second(&message::Second {}, vec![1; 7]).unwrap();
    let client::received::Answering::First { next, .. } = answering.receive().unwrap();
    let client::received::Between::Second { block, next, .. } = next.receive().unwrap() else {
        panic!("closed")
    };
    assert_eq!(block, [1; 7]);
    next.close();
    over.close();
}

#[test]
fn what_the_types_do_not_catch_is_refused() {
    let contract = read(EVERY);
    let other = read("host/contract/tests/contracts/other.v2.toml");
    let send = |block: usize, swap: bool| {
        let (here, _there) = memory::channel(&contract);
        let ((client, served), (other, _server)) =
            (memory::channel(&other), memory::channel(&other));
        let served = if swap { client } else { served };
        let sent = every_v1::client::start(here).send_all(&all(), vec![0; block], served, other);
        sent.map(|_| ()).err()
    };
    assert_eq!(send(3072, false), None);
    assert_eq!(send(3073, false), Some(Error::Refused(0)), "a long block");
    assert_eq!(send(3072, true), Some(Error::Refused(0)), "the wrong end of a channel");
}

#[test]
fn decoding_reverses_encoding_and_accepts_no_other_lengths() {
    use every_v1::message::All;
    let bytes = all().encode();
    assert_eq!(All::decode(&bytes), Some(all()));
    assert_eq!(All::decode(&bytes[1..]), None);
    assert_eq!(All::decode(&[&bytes[..], &[0]].concat()), None);
    let mut long = bytes;
    long[4] = 6;
    assert_eq!(All::decode(&long), None, "the name has room for 5 bytes");
}

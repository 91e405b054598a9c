//! The next message of a stream, taken by a thread that waits for just that one: the same message,
//! and the same state afterwards, as if it had been received in the usual way.

mod common;

use abi::msg::{
    CONSUMER, LAYOUT, MAX_PAYLOAD, PRODUCER, SLOT, kind, pack_header, pack_session, pack_tag,
};
use base::prng::Prng;
use common::{A, Access, B, Flat, Pair, poll};
use kernel_msg::ring::{WORDS, producer_word};
use kernel_msg::{CallError, Class, Payload, Server};

const RING: usize = LAYOUT.stream_ring();
const TAIL: usize = PRODUCER + 2 * SLOT;
const HEAD: usize = CONSUMER + 2 * SLOT;

/// Sends a message in A's stream to B.
fn send(pair: &mut Pair, words: &[u64], bytes: &[u8]) -> Result<(), CallError> {
    let peer = pair.a.peer_mut(B).expect("B is a peer");
    peer.caller.notice(&peer.wires, Class::Stream, 0, Payload { words, bytes })
}

fn server(pair: &mut Pair) -> &mut kernel_msg::endpoint::Peer<Flat> {
    pair.b.peer_mut(A).expect("A is a peer")
}

/// Takes the front of the stream as B, if it has `N` words. Returns them and the other bytes.
fn take<const N: usize>(pair: &mut Pair) -> Option<([u64; N], Vec<u8>)> {
    let peer = server(pair);
    let word = producer_word(&peer.wires, Class::Stream);
    let front = peer.server.front::<N>(&peer.wires, word)?;
    let mut bytes = vec![0; front.0.length - 8 * N];
    peer.server.take::<N>(&peer.wires, &front.0, &mut bytes);
    Some((front.1, bytes))
}

/// Receives as a copy of B would, in the usual way. Returns the copy, and the message.
fn received(pair: &mut Pair) -> (Server, Vec<u8>) {
    let peer = server(pair);
    let (mut other, mut buffer) = (peer.server.clone(), [0; MAX_PAYLOAD]);
    let request = other.receive(&peer.wires, Class::Stream, &mut buffer);
    let request = request.expect("no fault").expect("there is a message");
    (other, buffer[..request.bytes].to_vec())
}

/// Sends a message, takes it, and compares with what would have been received.
fn pass<const N: usize>(pair: &mut Pair, prng: &mut Prng, bytes: usize) {
    let words: [u64; N] = core::array::from_fn(|_| prng.next());
    let bytes: Vec<u8> = (0..bytes).map(|_| prng.next() as u8).collect();
    send(pair, &words, &bytes).expect("there is room");
    let (usual, message) = received(pair);
    let head: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(message, [&head[..], &bytes].concat(), "{N} words");
    assert_eq!(take::<N>(pair), Some((words, bytes)), "{N} words");
    let peer = server(pair);
    assert_eq!(peer.server, usual);
    assert_eq!(take::<0>(pair), None, "it was taken");
}

#[test]
fn messages_of_every_size_are_taken_across_the_end_of_the_ring() {
    let (mut pair, mut prng) = (Pair::new(), Prng::new(1));
    for bytes in (0..200).chain([MAX_PAYLOAD - 8 * WORDS]) {
        pass::<0>(&mut pair, &mut prng, bytes);
        pass::<1>(&mut pair, &mut prng, bytes);
        pass::<4>(&mut pair, &mut prng, bytes);
        pass::<WORDS>(&mut pair, &mut prng, bytes);
    }
    assert_eq!(send(&mut pair, &[0; WORDS + 1], &[]), Err(CallError::TooLarge));
    assert_eq!(send(&mut pair, &[0], &[0; MAX_PAYLOAD]), Err(CallError::TooLarge));
}

#[test]
fn what_is_not_taken_is_received() {
    let mut pair = Pair::new();
    send(&mut pair, &[], &[1, 2, 3]).expect("there is room");
    let before = server(&mut pair).server.clone();
    assert_eq!(take::<1>(&mut pair), None, "it has three bytes");
    let peer = server(&mut pair);
    let word = producer_word(&peer.wires, Class::Stream);
    assert!(peer.server.front::<0>(&peer.wires, word).is_some(), "and is not taken");
    assert_eq!(peer.server, before);
    assert_eq!(poll(&mut pair.b).requests[0].1, [1, 2, 3]);
}

#[test]
fn room_that_was_made_by_taking_is_notified() {
    let mut pair = Pair::new();
    while send(&mut pair, &[7], &[]).is_ok() {}
    assert_eq!(take::<1>(&mut pair), Some(([7], vec![])));
    let peer = server(&mut pair);
    assert!(peer.server.must_notify(&peer.wires), "the sender has stalled");
    assert!(poll(&mut pair.a).room);
}

#[test]
fn a_word_that_is_not_that_of_this_message_takes_nothing() {
    let (mut pair, mut prng) = (Pair::new(), Prng::new(2));
    let word_now = |pair: &mut Pair| producer_word(&server(pair).wires, Class::Stream);
    let empty = word_now(&mut pair);
    send(&mut pair, &[1], &[]).expect("there is room");
    let older = word_now(&mut pair);
    assert_eq!(take::<1>(&mut pair), Some(([1], vec![])));
    send(&mut pair, &[2], &[]).expect("there is room");
    let before = server(&mut pair).server.clone();
    let foreign = pack_session(2, 1, 2);
    let random = (0..100).map(|_| prng.next());
    for word in [empty, older, foreign, 0, u64::MAX].into_iter().chain(random) {
        let peer = server(&mut pair);
        assert!(peer.server.front::<1>(&peer.wires, word).is_none(), "{word:x}");
        assert_eq!(peer.server, before);
    }
    assert_eq!(take::<1>(&mut pair), Some(([2], vec![])));
}

#[test]
fn what_is_against_the_protocol_is_left_to_the_usual_way() {
    let wrong = [
        (pack_header(kind::CALL, 0, 8, 0, 0), pack_tag(0, 1), 1),
        (pack_header(kind::NOTICE, 0, 8, 0, 0), pack_tag(1, 0), 1),
        (pack_header(kind::NOTICE, 0, 5000, 0, 0), pack_tag(0, 0), 200),
        (pack_header(kind::NOTICE, 0, 8, 0, 0), pack_tag(0, 0), LAYOUT.stream_slots + 1),
    ];
    for (header, tag, tail) in wrong {
        let mut pair = Pair::new();
        pair.ab.poke(RING, header);
        pair.ab.poke(RING + 8, tag);
        pair.ab.poke(TAIL, pack_session(1, 1, tail));
        assert_eq!(take::<1>(&mut pair), None);
        assert_eq!(poll(&mut pair.b).faults, 1);
        assert_eq!(take::<1>(&mut pair), None, "the session is over");
    }
}

/// The litmus tests check this same order.
#[test]
fn the_slots_are_freed_after_their_last_load() {
    use Access::{Barrier, Load, Store};
    let mut pair = Pair::new();
    send(&mut pair, &[1, 2], &[3; 8]).expect("there is room");
    pair.ab.log.borrow_mut().clear();
    pair.ba.log.borrow_mut().clear();
    assert!(take::<2>(&mut pair).is_some());
    let slots = [0, 8, 16, 24, 32].map(|at| Load(RING + at));
    assert_eq!(*pair.ab.log.borrow(), [&[Load(TAIL)], &slots[..]].concat());
    assert_eq!(*pair.ba.log.borrow(), [Barrier, Barrier, Store(HEAD)]);
}

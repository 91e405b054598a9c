//! Streams between two kernels over plain memory: sizes, order, a full ring, the stalled word, a
//! hostile peer.

mod common;

use abi::msg::{
    CONSUMER, LAYOUT, LEVELS, MAX_PAYLOAD, PRODUCER, SLOT, STALLED, kind, pack_header,
    pack_session, pack_tag, slots_for,
};
use base::id::Epoch;
use common::{A, Access, B, Pair, poll};
use kernel_msg::{Busy, CallError, Class, Level};

const RING: usize = LAYOUT.stream_ring();
const TAIL: usize = PRODUCER + 2 * SLOT;
const HEAD: usize = CONSUMER + 2 * SLOT;
const FULL: CallError = CallError::Busy(Busy::RingFull);

fn send(pair: &mut Pair, payload: &[u8]) -> Result<(), CallError> {
    pair.a.notice(B, Class::Stream, 0, payload)
}

fn has_room(pair: &mut Pair, bytes: usize) -> bool {
    let peer = pair.a.peer_mut(B).expect("B is a peer");
    peer.caller.has_room(&peer.wires, Class::Stream, bytes)
}

/// Sends messages with these numbers until one finds no room.
fn fill(pair: &mut Pair, numbers: impl Iterator<Item = u32>, bytes: usize) -> Vec<u32> {
    let message = |number: u32| [&number.to_le_bytes()[..], &vec![7; bytes - 4]].concat();
    numbers.take_while(|number| send(pair, &message(*number)).is_ok()).collect()
}

fn numbers(polled: &common::Polled) -> Vec<u32> {
    let number = |bytes: &Vec<u8>| u32::from_le_bytes(*bytes.first_chunk().expect("four bytes"));
    polled.requests.iter().map(|(_, bytes)| number(bytes)).collect()
}

fn clear_logs(pair: &Pair) {
    pair.ab.log.borrow_mut().clear();
    pair.ba.log.borrow_mut().clear();
}

#[test]
fn messages_of_every_size_arrive_in_order_across_the_end_of_the_ring() {
    let mut pair = Pair::new();
    let sizes = || (0..200).chain((200..MAX_PAYLOAD).step_by(97)).chain([MAX_PAYLOAD]);
    let payload = |size: usize| -> Vec<u8> { (0..size).map(|i| (i * 7 + size) as u8).collect() };
    let mut got = vec![];
    for size in sizes() {
        while send(&mut pair, &payload(size)) == Err(FULL) {
            let polled = poll(&mut pair.b);
            assert!(polled.notify && poll(&mut pair.a).room, "size {size}");
            got.extend(polled.requests);
        }
    }
    got.extend(poll(&mut pair.b).requests);
    assert!(got.iter().map(|(_, bytes)| bytes).eq(&sizes().map(payload).collect::<Vec<_>>()));
    assert!(got.iter().all(|(it, _)| it.class == Class::Stream && it.reply.is_none()));
    assert_eq!(send(&mut pair, &[0; MAX_PAYLOAD + 1]), Err(CallError::TooLarge));
}

#[test]
fn a_full_ring_delays_and_loses_nothing() {
    for bytes in [4, 48, 49, 400, MAX_PAYLOAD] {
        let (mut pair, mut sent, mut got) = (Pair::new(), vec![], vec![]);
        for _ in 0..5 {
            sent.extend(fill(&mut pair, sent.len() as u32.., bytes));
            let polled = poll(&mut pair.b);
            assert_eq!(polled.requests.len(), (LAYOUT.stream_slots / slots_for(bytes)) as usize);
            assert!(polled.notify, "the sender had stalled");
            got.extend(numbers(&polled));
            assert!(pair.a.is_waiting(), "the look before sleep finds room");
            assert!(poll(&mut pair.a).room);
            assert!(!pair.a.is_waiting() && !poll(&mut pair.a).room, "it is notified once");
            assert!(!poll(&mut pair.b).notify, "and is rung for once");
        }
        assert_eq!(got, sent);
    }
}

#[test]
fn streams_and_calls_do_not_delay_each_other() {
    let mut pair = Pair::new();
    fill(&mut pair, 0.., 4);
    pair.a.notice(B, Class::Urgent, 1, &[1]).unwrap();
    pair.a.begin(B, Class::Blockable, Level(0), 2, &[2], 0).unwrap();
    let mut buffer = [0; MAX_PAYLOAD];
    let mut seen = vec![];
    pair.b.poll(false, &mut buffer, &mut |event| {
        if let kernel_msg::Event::Request(request, _) = event {
            seen.push(request.class);
        }
    });
    assert_eq!(seen[..2], [Class::Urgent, Class::Stream]);
    assert!(!seen.contains(&Class::Blockable), "a poll without threads takes streams only");
    assert_eq!(seen.len(), 1 + LAYOUT.stream_slots as usize);
    let while_empty = fill(&mut pair, 0.., 4).len();
    assert_eq!(while_empty, LAYOUT.stream_slots as usize);
    while pair.a.notice(B, Class::Urgent, 1, &[1]).is_ok() {}
    assert_eq!(poll(&mut pair.b).requests.len(), while_empty + LAYOUT.urgent_slots as usize + 1);
}

#[test]
fn a_stream_has_no_calls() {
    let mut pair = Pair::new();
    for level in 0..=LEVELS as u8 {
        let call = pair.a.begin(B, Class::Stream, Level(level), 1, &[], 0);
        assert_eq!(call, Err(CallError::TooDeep));
    }
    assert!(poll(&mut pair.b).requests.is_empty());
}

#[test]
fn a_sender_that_needs_more_room_than_was_made_stalls_again() {
    let mut pair = Pair::new();
    let small = fill(&mut pair, 0.., 4).len();
    let (mut rounds, mut buffer) = (0, [0; MAX_PAYLOAD]);
    while !has_room(&mut pair, MAX_PAYLOAD) {
        assert!(pair.a.peer(B).unwrap().caller.is_stalled() && !pair.a.is_waiting());
        let b = pair.b.peer_mut(A).unwrap();
        b.server.receive(&b.wires, Class::Stream, &mut buffer).unwrap().expect("one message");
        assert!(b.server.must_notify(&b.wires));
        let a = pair.a.peer_mut(B).unwrap();
        assert!(a.caller.take_room(&a.wires));
        rounds += 1;
    }
    assert_eq!(rounds, slots_for(MAX_PAYLOAD), "one slot each");
    assert!(rounds < small as u32);
}

#[test]
fn a_second_stall_does_not_hide_the_room_made_since_the_first() {
    let mut pair = Pair::new();
    fill(&mut pair, 0.., 4);
    assert!(!has_room(&mut pair, 4));
    let (b, mut buffer) = (pair.b.peer_mut(A).unwrap(), [0; MAX_PAYLOAD]);
    b.server.receive(&b.wires, Class::Stream, &mut buffer).unwrap().expect("one message");
    // There is room for the first now, not for the second. Both are to be tried again.
    assert!(!has_room(&mut pair, MAX_PAYLOAD));
    assert!(pair.a.is_waiting());
    let polled = poll(&mut pair.a);
    assert!(polled.room && has_room(&mut pair, 4));
}

#[test]
fn a_sender_stalls_until_the_peer_opens_the_session() {
    let mut pair = Pair::new();
    pair.a.peer_changed(B, Some(Epoch(2)));
    assert_eq!(send(&mut pair, &[1]), Err(CallError::Busy(Busy::NoSession)));
    assert!(!pair.a.is_waiting(), "the stalled sender may sleep");
    pair.restart_b(Epoch(2));
    assert!(poll(&mut pair.b).notify, "the peer rings after it has opened the session");
    assert!(pair.a.is_waiting() && poll(&mut pair.a).room);
    send(&mut pair, &[1]).unwrap();
    assert_eq!(poll(&mut pair.b).requests[0].1, [1]);
}

#[test]
fn a_stalled_word_of_an_older_session_rings_no_bell() {
    let mut pair = Pair::new();
    fill(&mut pair, 0.., 4);
    assert_eq!(pair.ab.peek(STALLED), pack_session(1, 1, 0));
    // A has died and started again. In its new life it does not stall.
    pair.a = common::end(Epoch(2), B, &pair.ab, &pair.ba);
    pair.a.peer_changed(B, Some(Epoch(1)));
    pair.b.peer_changed(A, Some(Epoch(2)));
    assert!(!poll(&mut pair.b).notify);
    assert!(!pair.a.is_waiting() && !poll(&mut pair.a).room);
    send(&mut pair, &[1]).unwrap();
    let polled = poll(&mut pair.b);
    assert_eq!((polled.requests.len(), polled.notify), (1, false), "it has passed head 0");
    // The peer's death ends a stall: there is nothing to wait for.
    fill(&mut pair, 0.., 4);
    assert!(pair.a.peer(B).unwrap().caller.is_stalled());
    pair.a.peer_changed(B, None);
    assert!(!pair.a.peer(B).unwrap().caller.is_stalled() && !pair.a.is_waiting());
    assert_eq!(send(&mut pair, &[1]), Err(CallError::PeerLost));
    pair.a.peer_changed(B, Some(Epoch(2)));
    pair.restart_b(Epoch(2));
    pair.b.peer_changed(A, Some(Epoch(2)));
    assert_eq!(poll(&mut pair.b).requests.len(), 0, "what was in the ring is void");
    assert!(!poll(&mut pair.b).notify, "and so is the stalled word");
}

/// The litmus tests check this same order.
#[test]
fn a_stall_stores_its_word_before_it_looks_again() {
    use Access::{Barrier, Load, Store};
    let mut pair = Pair::new();
    fill(&mut pair, 0..LAYOUT.stream_slots, 4);
    clear_logs(&pair);
    assert!(!has_room(&mut pair, 4));
    // Each look at the head ends with a barrier.
    assert_eq!(*pair.ab.log.borrow(), [Barrier, Store(STALLED), Barrier, Barrier]);
    assert_eq!(*pair.ba.log.borrow(), [Load(HEAD), Load(HEAD)]);
    clear_logs(&pair);
    assert!(!has_room(&mut pair, 4));
    assert_eq!(*pair.ab.log.borrow(), [Barrier], "it has stalled already");
    poll(&mut pair.b);
    let stores = pair.ba.log.borrow();
    assert_eq!(stores[stores.len() - 3..], [Barrier, Store(HEAD), Barrier]);
    assert_eq!(pair.ab.log.borrow().iter().filter(|at| **at == Load(STALLED)).count(), 1);
}

#[test]
fn a_hostile_peer_is_found_out() {
    let notice = |kind, bytes| pack_header(kind, 0, bytes, 0, 0);
    let wrong = [
        (notice(kind::CALL, 8), pack_tag(0, 1), 1, "a call"),
        (notice(3, 8), pack_tag(0, 0), 1, "of no kind"),
        (notice(kind::NOTICE, 8), pack_tag(1, 0), 1, "of another place in the ring"),
        (notice(kind::NOTICE, 5000), pack_tag(0, 0), 200, "longer than a message"),
        (notice(kind::NOTICE, 200), pack_tag(0, 0), 1, "longer than what was published"),
        (notice(kind::NOTICE, 8), pack_tag(0, 0), LAYOUT.stream_slots + 1, "longer than the ring"),
    ];
    for (header, tag, tail, why) in wrong {
        let mut pair = Pair::new();
        pair.ba.poke(RING, header);
        pair.ba.poke(RING + 8, tag);
        pair.ba.poke(TAIL, pack_session(1, 1, tail));
        let polled = poll(&mut pair.a);
        assert_eq!((polled.faults, polled.requests.len()), (1, 0), "{why}");
        assert_eq!(send(&mut pair, &[1]), Err(CallError::PeerLost), "{why}");
        assert_eq!(poll(&mut pair.a).faults, 0, "{why}: reported once");
    }
}

#[test]
fn a_head_that_was_never_sent_is_a_fault_and_no_stall() {
    let mut pair = Pair::new();
    fill(&mut pair, 0..LAYOUT.stream_slots, 4);
    pair.ba.poke(HEAD, pack_session(1, 1, LAYOUT.stream_slots + 1));
    assert_eq!(send(&mut pair, &[1]), Err(CallError::PeerLost));
    assert!(!pair.a.peer(B).unwrap().caller.is_stalled());
}

#[test]
fn any_stalled_word_rings_at_most_our_own_bell() {
    for word in [0, u64::MAX, pack_session(1, 1, u32::MAX), pack_session(1, 1, 1 << 31)] {
        let mut pair = Pair::new();
        pair.ba.poke(STALLED, word);
        pair.b.notice(A, Class::Stream, 0, &[1]).unwrap();
        let polled = poll(&mut pair.a);
        assert_eq!((polled.requests.len(), polled.faults), (1, 0), "{word:x}");
        assert!(!poll(&mut pair.a).notify, "{word:x}: once at most");
    }
}

#[test]
fn a_receiver_that_finds_a_malformed_message_loses_the_peer_in_that_epoch_only() {
    let mut pair = Pair::new();
    pair.a.peer_mut(B).unwrap().server.lose(Epoch(3));
    for number in 0..2 {
        pair.b.notice(A, Class::Stream, 0, &[number]).unwrap();
    }
    assert_eq!(poll(&mut pair.a).requests.len(), 2, "another epoch was meant");
    pair.b.notice(A, Class::Stream, 0, &[2]).unwrap();
    let a = pair.a.peer_mut(B).unwrap();
    a.server.lose(Epoch(1));
    a.caller.lose(Epoch(1));
    assert!(!pair.a.is_waiting());
    assert_eq!(poll(&mut pair.a).requests.len(), 0);
    pair.restart_b(Epoch(2));
    pair.a.peer_changed(B, Some(Epoch(2)));
    pair.b.notice(A, Class::Stream, 0, &[3]).unwrap();
    assert_eq!(poll(&mut pair.a).requests[0].1, [3]);
}

//! A hostile peer that writes anything anywhere in its links: no panic, no read past a buffer, and
//! our calls to it still end.

mod common;

use abi::msg::{
    CONSUMER, LINK_SIZE, MAX_PAYLOAD, PRODUCER, REPLIES, RINGS, pack_header, pack_session, pack_tag,
};
use base::id::Epoch;
use base::prng::Prng;
use common::{A, B, Pair, poll};
use kernel_msg::{CallError, Class, Level};

#[test]
fn garbage_in_a_link_is_reported_as_a_fault_and_the_next_epoch_works() {
    let mut faults = 0;
    for seed in 0..400 {
        let mut prng = Prng::new(seed);
        let mut pair = Pair::new();
        let mut buffer = [0; MAX_PAYLOAD];
        let mut open = vec![];
        for _ in 0..40 {
            let class = if prng.chance(1, 2) { Class::Urgent } else { Class::Blockable };
            let payload = vec![1; prng.below(300) as usize];
            open.extend(pair.a.begin(B, class, Level(0), 1, &payload, 0));
            for (request, _) in poll(&mut pair.b).requests {
                let _ = pair.b.reply(request.reply.unwrap(), Ok(&[0; 9]));
            }
            let _ = pair.b.begin(A, class, Level(1), 1, &payload, 0);
            let near =
                [PRODUCER, 64, CONSUMER, CONSUMER + 64, REPLIES, REPLIES + 8, RINGS, RINGS + 8];
            let at = match prng.below(3) {
                0 => 8 * prng.below(LINK_SIZE / 8) as usize,
                _ => near[prng.below(8) as usize],
            };
            let value = match prng.below(4) {
                0 => prng.next(),
                1 => pair.ba.peek(at) ^ 1 << prng.below(64),
                2 => pack_session(1, 1, prng.below(300) as u32),
                _ => pair.ba.peek(at).wrapping_add(prng.below(3)),
            };
            pair.ba.poke(at, value);
            faults += poll(&mut pair.a).faults;
            open.retain(|call| pair.a.finish(B, *call, &mut buffer).is_none());
        }
        pair.a.peer_changed(B, Some(Epoch(2)));
        for call in open {
            let end = pair.a.finish(B, call, &mut buffer);
            assert_eq!(end, Some(Err(CallError::PeerLost)), "seed {seed}");
        }
        pair.restart_b(Epoch(2));
        let call = pair.a.begin(B, Class::Urgent, Level(0), 1, &[5], 0).unwrap();
        let (request, _) = poll(&mut pair.b).requests.remove(0);
        pair.b.reply(request.reply.unwrap(), Ok(&[6])).unwrap();
        assert_eq!(pair.a.finish(B, call, &mut buffer), Some(Ok(1)), "seed {seed}");
    }
    assert!(faults > 100, "only {faults} faults");
}

#[test]
fn every_invalid_header_is_refused() {
    let call = |bytes, slot, level| pack_header(1, 1, bytes, slot, level);
    let wrong = [
        (call(8, 0, 0), pack_tag(1, 1), "of another place in the ring"),
        (call(5000, 0, 0), pack_tag(0, 1), "longer than a message"),
        (call(200, 0, 0), pack_tag(0, 1), "longer than what was published"),
        (call(8, 40, 0), pack_tag(0, 1), "no such reply slot"),
        (call(8, 9, 0), pack_tag(0, 1), "a slot of the other class"),
        (pack_header(3, 1, 8, 0, 0), pack_tag(0, 1), "of no kind"),
    ];
    for (header, tag, why) in wrong {
        let mut pair = Pair::new();
        pair.ba.poke(RINGS, header);
        pair.ba.poke(RINGS + 8, tag);
        pair.ba.poke(PRODUCER, pack_session(1, 1, 1));
        let polled = poll(&mut pair.a);
        assert_eq!((polled.faults, polled.requests.len()), (1, 0), "{why}");
        assert_eq!(poll(&mut pair.a).faults, 0, "{why}: reported once");
        let refused = pair.a.begin(B, Class::Urgent, Level(0), 1, &[], 0);
        assert_eq!(refused, Err(CallError::PeerLost), "{why}");
    }
}

#[test]
fn losing_an_epoch_does_not_affect_the_next_one() {
    let mut pair = Pair::new();
    // One core found a fault in epoch 1; before it could report it, another learned of epoch 2.
    pair.a.peer_changed(B, Some(Epoch(2)));
    pair.restart_b(Epoch(2));
    let call = pair.a.begin(B, Class::Urgent, Level(0), 1, &[5], 0).unwrap();
    pair.a.peer_mut(B).unwrap().caller.lose(Epoch(1));
    let (request, _) = poll(&mut pair.b).requests.remove(0);
    pair.b.reply(request.reply.unwrap(), Ok(&[6])).unwrap();
    assert_eq!(pair.a.finish(B, call, &mut [0; 8]), Some(Ok(1)));
    pair.a.peer_mut(B).unwrap().caller.lose(Epoch(2));
    let refused = pair.a.begin(B, Class::Urgent, Level(0), 1, &[], 0);
    assert_eq!(refused, Err(CallError::PeerLost));
}

#[test]
fn a_request_for_a_reply_slot_in_use_is_a_fault() {
    let mut pair = Pair::new();
    for index in 0..2 {
        pair.ba.poke(RINGS + index * 64, pack_header(1, 1, 0, 3, 0));
        pair.ba.poke(RINGS + index * 64 + 8, pack_tag(index as u32, 1 + index as u32));
    }
    pair.ba.poke(PRODUCER, pack_session(1, 1, 2));
    let polled = poll(&mut pair.a);
    assert_eq!((polled.requests.len(), polled.faults), (1, 1));
}

//! Tests of `returns`: over a channel that loses, repeats and reorders messages, and with deaths,
//! each frame returns once or becomes void with its block.

use std::collections::BTreeSet;
use std::vec::Vec;

use base::prng::Prng;

use super::*;

fn frame(number: u64) -> PhysAddr {
    PhysAddr(number * PAGE)
}

#[test]
fn a_full_outbox_refuses_and_keeps_its_frames() {
    let mut outbox = Outbox::new(Epoch(1));
    (0..CAPACITY as u64).for_each(|n| outbox.put(frame(n), 3).unwrap());
    assert_eq!(outbox.put(frame(999), 0), Err(Full));
    let batch = outbox.due().unwrap();
    assert_eq!((batch.number, batch.frames.len(), unpack(batch.frames[2])), (1, 31, (frame(2), 3)));
    outbox.acknowledged(7);
    assert_eq!(outbox.put(frame(999), 0), Err(Full), "another batch's");
    outbox.acknowledged(1);
    outbox.acknowledged(1);
    assert_eq!((outbox.len(), outbox.put(frame(999), 0)), (CAPACITY - MAX_BATCH, Ok(())));
    assert_eq!(unpack(outbox.due().unwrap().frames[0]), (frame(31), 3));
}

/// A message in flight.
#[derive(Clone)]
enum Message {
    Batch { from: Epoch, to: Epoch, number: u64, frames: Vec<u64> },
    Acknowledged { to: Epoch, number: u64 },
}

#[test]
fn every_frame_returns_exactly_once() {
    let mut full = 0;
    for seed in 0..200 {
        let mut prng = Prng::new(seed);
        let (mut here, mut there) = (Epoch(1), Epoch(1));
        let (mut outbox, mut inbox) = (Outbox::new(there), Inbox::new(there, here));
        // Frames of the peer's current life: lent out, and returned.
        let (mut out, mut home) = (BTreeSet::new(), BTreeSet::new());
        let (mut wire, mut next) = (Vec::new(), 1);
        for step in 0..3000 {
            let draining = step > 2500;
            match prng.below(if draining { 9 } else { 20 }) {
                0..3 => {
                    let batch = outbox.due().map(|b| (b.number, b.to, b.frames.to_vec()));
                    let message =
                        |(number, to, frames)| Message::Batch { from: here, to, number, frames };
                    wire.extend(batch.map(message));
                }
                3..9 if !wire.is_empty() => {
                    let nth = prng.below(wire.len() as u64) as usize;
                    // Some messages stay in flight and are delivered again.
                    let again = prng.chance(1, 4);
                    let message = if again { wire[nth].clone() } else { wire.remove(nth) };
                    if prng.chance(1, 6) {
                        continue;
                    }
                    match message {
                        Message::Acknowledged { to, number } if to == here => {
                            outbox.acknowledged(number);
                        }
                        Message::Acknowledged { .. } => {}
                        Message::Batch { from, to, number, frames } => {
                            let verdict = inbox.receive(from, to, number);
                            if verdict == Verdict::Take {
                                for word in frames {
                                    let at = unpack(word).0;
                                    assert!(
                                        out.remove(&at),
                                        "seed {seed}: {at:?} was not lent out"
                                    );
                                    assert!(home.insert(at), "seed {seed}: {at:?} returned twice");
                                }
                            }
                            if verdict != Verdict::Stale {
                                wire.push(Message::Acknowledged { to: from, number });
                            }
                        }
                    }
                }
                9..19 => {
                    for _ in 0..prng.below(9) {
                        match outbox.put(frame(next), 0) {
                            Ok(()) => assert!(out.insert(frame(next))),
                            Err(Full) => full += 1,
                        }
                        next += 1;
                    }
                }
                19 if prng.chance(1, 30) => {
                    // The peer's blocks return to the pool with all of their frames.
                    there = Epoch(there.0 + 1);
                    inbox = Inbox::new(there, here);
                    let void = outbox.restart(there);
                    assert!(void <= CAPACITY);
                    (out, home) = (BTreeSet::new(), BTreeSet::new());
                }
                19 if prng.chance(1, 30) => {
                    // When the peers hear of this kernel's death, they take back what it had of
                    // theirs.
                    inbox.over(here);
                    here = Epoch(here.0 + 1);
                    outbox = Outbox::new(there);
                    out.clear();
                }
                _ => {}
            }
        }
        for _ in 0..20 {
            let Some(batch) = outbox.due() else { break };
            let (number, to, frames) = (batch.number, batch.to, batch.frames.to_vec());
            if inbox.receive(here, to, number) == Verdict::Take {
                frames.iter().for_each(|&word| assert!(out.remove(&unpack(word).0)));
            }
            outbox.acknowledged(number);
        }
        assert!(out.is_empty() && outbox.is_empty(), "seed {seed}: {} lost", out.len());
    }
    assert!(full > 1000, "it was full only {full} times");
}

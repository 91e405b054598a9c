//! Calls between kernels. Kernel A has two peers: B has gone mad and writes anything into its link
//! and its domain page, C is well. Rules:
//! - nothing panics, and no access is outside the links;
//! - a poll takes a bounded number of messages;
//! - calls between A and C have the right results, whatever B does;
//! - when B is dead, A's calls to it have ended, and its next epoch can be called.

use crate::bytes::Bytes;
use crate::words::Flat;
use crate::{Target, mutate};
use abi::msg::{
    CONSUMER, LAYOUT, LINK_SIZE, MAX_PAYLOAD, PRODUCER, REPLIES, RINGS, SLOT, STALLED, pack_header,
    pack_session,
};
use abi::soc::DomainPage;
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use kernel_msg::notify::must_ring;
use kernel_msg::{CallError, CallId, Class, Endpoint, Event, Level, LinkPair, Request};

pub const TARGET: Target = Target {
    name: "rpc",
    about: "calls between kernels, with a peer that writes anything into its link",
    daily: 2000,
    nightly: 200_000,
    run: |bytes| World::new().run(bytes),
    seed: |seed| mutate::noise(&mut Prng::new(seed), 20, 600),
    outcomes: || {
        vec![(0, "a fault"), (1, "a forged request"), (2, "an answered call"), (3, "no room")]
    },
};

/// Bytes of an input that is used.
const LONGEST: usize = 4096;
const A: DomainId = DomainId(0);
const B: DomainId = DomainId(1);
const C: DomainId = DomainId(2);
/// Messages of one poll at most: a ring of each class from each peer.
const MOST: usize = 4 * LAYOUT.blockable_slots as usize;

struct World {
    a: Endpoint<Flat>,
    b: Endpoint<Flat>,
    c: Endpoint<Flat>,
    /// The link from B to A, and back.
    mad: Flat,
    back: Flat,
    page: Flat,
    open: Vec<CallId>,
    outcomes: u64,
}

#[derive(Default)]
struct Polled {
    requests: Vec<(Request, Vec<u8>)>,
    faults: usize,
}

fn end(epoch: u16, peers: &[(DomainId, &Flat, &Flat)]) -> Endpoint<Flat> {
    let mut end = Endpoint::new(&LAYOUT, Epoch(epoch));
    for (peer, mine, theirs) in peers {
        end.add(*peer, LinkPair { mine: (*mine).clone(), theirs: (*theirs).clone() });
        end.peer_changed(*peer, Some(Epoch(1)));
    }
    end
}

/// Only faults of `suspect` may be found.
fn poll(end: &mut Endpoint<Flat>, suspect: DomainId) -> Polled {
    let (mut polled, mut buffer, mut count) = (Polled::default(), [0; MAX_PAYLOAD], 0);
    end.poll(true, &mut buffer, &mut |event| {
        count += 1;
        match event {
            Event::Request(request, bytes) => polled.requests.push((request, bytes.to_vec())),
            Event::Ended(..) | Event::Room(_) | Event::Notify(_) => {}
            Event::Fault(peer, _) => {
                assert_eq!(peer, suspect, "a fault of a kernel that is well");
                polled.faults += 1;
            }
        }
    });
    assert!(count <= MOST, "{count} events in one poll");
    polled
}

impl World {
    fn new() -> World {
        let [mad, back, ac, ca] = [(); 4].map(|()| Flat::new(LINK_SIZE as usize));
        World {
            a: end(1, &[(B, &back, &mad), (C, &ac, &ca)]),
            b: end(1, &[(A, &mad, &back)]),
            c: end(1, &[(A, &ca, &ac)]),
            page: Flat::new(size_of::<DomainPage>()),
            mad,
            back,
            open: vec![],
            outcomes: 0,
        }
    }

    fn run(mut self, bytes: &[u8]) -> u64 {
        let mut input = Bytes::new(bytes, LONGEST);
        while !input.is_empty() {
            match input.below(8) {
                0 => self.call(&mut input),
                1 => self.answer(&mut input),
                2 => self.poll_a(),
                3 => self.honest(&mut input),
                4 => {
                    self.page.poke(8 * input.below(512), input.number(64));
                    must_ring(&self.page, input.below(20));
                }
                _ => self.mad(&mut input),
            }
        }
        self.finish()
    }

    /// A calls B.
    fn call(&mut self, input: &mut Bytes<'_>) {
        let class = if input.once_in(2) { Class::Urgent } else { Class::Blockable };
        let payload = vec![1; input.below(MAX_PAYLOAD + 9)];
        if input.once_in(4) {
            let sent = self.a.notice(B, Class::Stream, 0, &payload);
            self.outcomes |= 8 * u64::from(sent.is_err());
            return;
        }
        match self.a.begin(B, class, Level(input.byte() % 3), 1, &payload, 0) {
            Ok(call) => self.open.push(call),
            Err(_) => self.outcomes |= 8,
        }
    }

    /// B answers as it should, or calls.
    fn answer(&mut self, input: &mut Bytes<'_>) {
        // What B has written over its own words makes A look wrong.
        for (request, _) in poll(&mut self.b, A).requests {
            if let Some(to) = request.reply {
                let _ = self.b.reply(to, Ok(&[5; 9]));
            }
        }
        if input.once_in(2) {
            let _ = self.b.begin(A, Class::Blockable, Level(0), 2, input.take(40), 0);
            let _ = self.b.notice(A, Class::Stream, 0, input.take(40));
        }
    }

    /// B writes a word.
    fn mad(&mut self, input: &mut Bytes<'_>) {
        let near = [
            PRODUCER,
            PRODUCER + SLOT,
            PRODUCER + 2 * SLOT,
            CONSUMER,
            CONSUMER + 2 * SLOT,
            STALLED,
            REPLIES,
            REPLIES + 8,
            RINGS,
            RINGS + 8,
            RINGS + SLOT,
            RINGS + SLOT + 8,
            LAYOUT.stream_ring(),
            LAYOUT.stream_ring() + 8,
        ];
        let at = match input.below(3) {
            0 => 8 * input.below(LINK_SIZE as usize / 8),
            _ => near[input.below(near.len())],
        };
        let old = self.mad.peek(at);
        let value = match input.below(6) {
            0 => input.number(64),
            1 => old ^ 1 << input.below(64),
            2 => pack_session(1, 1, input.number(32) as u32),
            3 => old.wrapping_add(input.number(64)),
            4 => pack_header(1 + input.byte() % 3, 1, input.number(16) as u16, input.byte(), 0),
            _ => old.rotate_left(8),
        };
        self.mad.poke(at, value);
    }

    fn poll_a(&mut self) {
        let polled = poll(&mut self.a, B);
        self.outcomes |= u64::from(polled.faults > 0);
        for (request, bytes) in polled.requests {
            assert!(bytes.len() <= MAX_PAYLOAD);
            assert_eq!(request.from, B, "nothing was asked by C");
            self.outcomes |= 2;
            if let Some(to) = request.reply {
                let _ = self.a.reply(to, Ok(&bytes));
            }
        }
        let mut buffer = [0; MAX_PAYLOAD];
        let (a, outcomes) = (&mut self.a, &mut self.outcomes);
        self.open.retain(|call| match a.finish(B, *call, &mut buffer) {
            None => true,
            Some(end) => {
                *outcomes |= u64::from(end.is_ok()) << 2;
                false
            }
        });
    }

    /// A and C call each other.
    fn honest(&mut self, input: &mut Bytes<'_>) {
        let payload = input.take(60).to_vec();
        let call = self.a.begin(C, Class::Urgent, Level(0), 7, &payload, 0).expect("C is well");
        let (request, bytes) = poll(&mut self.c, B).requests.pop().expect("C got it");
        assert_eq!((request.from, request.proc, &bytes), (A, 7, &payload));
        let answer: Vec<u8> = bytes.iter().rev().copied().collect();
        self.c.reply(request.reply.expect("it is a call"), Ok(&answer)).expect("A is there");
        self.c.notice(A, Class::Stream, 9, &payload).expect("A takes them");
        let call_back = self.c.begin(A, Class::Blockable, Level(0), 8, &answer, 0).unwrap();
        let found = poll(&mut self.a, B).requests.into_iter().filter(|(it, _)| it.from == C);
        let mut found: Vec<_> = found.collect();
        let (message, bytes) = found.pop().expect("A got the message of the stream");
        assert_eq!((message.proc, message.reply, &bytes), (9, None, &payload));
        let (request, bytes) = found.pop().expect("A got it");
        assert_eq!((request.proc, &bytes, found.len()), (8, &answer, 0));
        self.a.reply(request.reply.expect("it is a call"), Ok(&payload)).expect("C is there");
        let mut buffer = [0; MAX_PAYLOAD];
        let end = self.a.finish(C, call, &mut buffer);
        assert_eq!((end, &buffer[..answer.len()]), (Some(Ok(answer.len())), &answer[..]));
        poll(&mut self.c, B);
        let end = self.c.finish(A, call_back, &mut buffer);
        assert_eq!((end, &buffer[..payload.len()]), (Some(Ok(payload.len())), &payload[..]));
    }

    /// B dies and starts again.
    fn finish(mut self) -> u64 {
        self.a.peer_changed(B, None);
        poll(&mut self.a, B);
        for call in std::mem::take(&mut self.open) {
            let end = self.a.finish(B, call, &mut [0; MAX_PAYLOAD]);
            let end = end.expect("the call has ended");
            let is_error = |error: &CallError| {
                matches!(error, CallError::PeerLost | CallError::Refused(_) | CallError::TooLarge)
            };
            assert!(end.as_ref().err().is_none_or(is_error), "{end:?}");
        }
        self.a.peer_changed(B, Some(Epoch(2)));
        self.b = end(2, &[(A, &self.mad, &self.back)]);
        let call = self.a.begin(B, Class::Urgent, Level(0), 1, &[5], 0).expect("a new life");
        let (request, _) = poll(&mut self.b, A).requests.pop().expect("it got the call");
        self.b.reply(request.reply.expect("it is a call"), Ok(&[6])).expect("A is there");
        assert_eq!(self.a.finish(B, call, &mut [0; MAX_PAYLOAD]), Some(Ok(1)));
        self.outcomes
    }
}

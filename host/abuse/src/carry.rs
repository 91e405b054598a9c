//! Requests to a service of another kernel, and its answers, as messages. Rules:
//! - nothing panics, and a request in the name of another kernel is refused;
//! - the service changes no more of the bulk than its reply reports;
//! - an answer survives the way back, and changes no more of the caller's bulk than it reports;
//! - forged answers give an error or a reply whose bulk is there, and an error changes nothing.

use crate::bytes::Bytes;
use crate::{Target, mutate};
use abi::msg::MAX_PAYLOAD;
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use fs::Vfs;
use processes::Processes;
use share::codec::{self, Head, kind};
use share::{Answer, Event, Outbox, Service, Token};
use std::fmt::Debug;
use zerocopy::IntoBytes;

pub const TARGET: Target = Target {
    name: "carry",
    about: "requests to services of another kernel, and their answers",
    daily: 1000,
    nightly: 100_000,
    run: |bytes| {
        let mut input = Bytes::new(bytes, LONGEST);
        match input.below(2) {
            0 => Attack::<Vfs>::new(input).run(40),
            _ => Attack::<Processes>::new(input).run(12),
        }
    },
    seed: |seed| mutate::noise(&mut Prng::new(seed), 100, 3000),
    outcomes: || {
        vec![
            (0, "a refusal"),
            (1, "an answer"),
            (2, "a wait"),
            (3, "success"),
            (4, "an impostor"),
            (5, "a forged answer"),
            (6, "a broken answer"),
        ]
    },
};

/// Bytes of an input that is used.
const LONGEST: usize = 8192;
/// The kernel that sends.
const PEER: DomainId = DomainId(1);
const OURS: u8 = 0xa5;

struct Attack<'a, S> {
    input: Bytes<'a>,
    service: S,
    now: u64,
    /// Numbers from replies, which are often handles.
    numbers: Vec<u64>,
    outcomes: u64,
}

impl<'a, S: Service> Attack<'a, S>
where
    S::Reply: Debug + PartialEq,
{
    fn new(input: Bytes<'a>) -> Self {
        Attack { input, service: S::start(3), now: 1000, numbers: vec![], outcomes: 0 }
    }

    /// Sends requests with the operations 1 to `count`.
    fn run(mut self, count: u8) -> u64 {
        while !self.input.is_empty() {
            match self.input.below(8) {
                0 => self.forge(),
                1 => {
                    let event = Event::Gone(PEER, Epoch(self.input.below(3) as u16));
                    self.service.step(self.now, event, &mut Outbox::new());
                }
                _ => self.request(count),
            }
        }
        self.outcomes
    }

    /// Returns a message: a head and a request that are almost valid, and bulk.
    fn message(&mut self, count: u8) -> Vec<u8> {
        let input = &mut self.input;
        let kernel = if input.once_in(16) { DomainId(input.byte()) } else { PEER };
        let token = Token::new(kernel, Epoch(1), input.byte().into(), input.byte().into());
        let names: &[u8] = [&b"a"[..], b"b/c", b"..", b"/", b"a/b", b"c"][input.below(6)];
        let mut request = vec![0; size_of::<S::Request>()];
        let (head, rest) = request.split_at_mut(8);
        head[0] = 1 + input.byte() % count;
        head[2] = 1 << (input.byte() % 8) & input.byte();
        head[4] = if input.once_in(2) { names.len() as u8 } else { 0 };
        head[6] = input.byte() % 2;
        for word in rest.chunks_exact_mut(8) {
            let number = match input.below(4) {
                0 => input.number(64),
                1 => input.below(70) as u64,
                2 => 0,
                _ => self.numbers.get(input.below(8)).copied().unwrap_or(0),
            };
            word.copy_from_slice(&number.to_le_bytes());
        }
        let bulk = [names, input.take(20)].concat();
        let sent = if input.once_in(16) { input.u32() } else { bulk.len() as u32 };
        let more = input.number(10) as u32;
        let room = if input.once_in(16) { input.u32() } else { sent.saturating_add(more) };
        let kind = if input.once_in(8) { input.byte().into() } else { kind::REQUEST };
        let head = Head { service: 0, kind, token, room, sent };
        let mut message = [head.as_bytes(), &request, &bulk].concat();
        if input.once_in(16) {
            let at = input.below(message.len());
            message.truncate(at);
        }
        message
    }

    /// Does with a message what a kernel does.
    fn request(&mut self, count: u8) {
        let message = self.message(count);
        let Some((head, request, sent)) = codec::unpack_from::<S>(&message, PEER, MAX_PAYLOAD)
        else {
            self.outcomes |= 1;
            let other =
                codec::unpack::<S>(&message).is_some_and(|(it, ..)| it.token.kernel != PEER.0);
            self.outcomes |= u64::from(other) << 4;
            return;
        };
        assert_eq!(head.token.kernel(), PEER, "an impostor");
        let mut bulk = vec![OURS; head.room as usize];
        bulk[..sent.len()].copy_from_slice(sent);
        let before = bulk.clone();
        let event = match head.kind {
            kind::CANCEL => Event::Cancel(head.token),
            kind::AGAIN => Event::Again { token: head.token, request: &request, bulk: &mut bulk },
            _ => Event::Request { token: head.token, request: &request, bulk: &mut bulk },
        };
        self.now += 10;
        let answer = self.service.step(self.now, event, &mut Outbox::new());
        let filled = match &answer {
            Answer::Done(reply) => {
                self.outcomes |= 2 | u64::from(reply.as_bytes()[..2] == [0; 2]) << 3;
                let words = reply.as_bytes().chunks_exact(8);
                self.numbers
                    .splice(0..0, words.map(|it| u64::from_le_bytes(it.try_into().unwrap())));
                self.numbers.truncate(8);
                S::filled(reply)
            }
            _ => 0,
        };
        self.outcomes |= u64::from(answer == Answer::Parked) << 2;
        assert!(filled <= bulk.len() && bulk[filled..] == before[filled..], "{answer:?}");
        returned::<S>(&answer, &bulk);
    }

    /// The other kernel answers with any bytes.
    fn forge(&mut self) {
        let input = &mut self.input;
        let mut message = vec![1 + input.byte() % 4, 0, 0, 0, input.byte() % 40, 0, 0, 0];
        let reply = if input.once_in(2) { size_of::<S::Reply>() } else { input.below(200) };
        message.extend((0..reply).map(|_| if input.once_in(3) { input.byte() } else { 0 }));
        message.extend(input.take(40));
        let mut bulk = vec![OURS; input.below(64)];
        let before = bulk.clone();
        match codec::unpack_answer::<S>(&message, &mut bulk) {
            Some(Answer::Done(reply)) => {
                assert!(S::filled(&reply) <= bulk.len(), "{reply:?}: so much bulk did not come");
                self.outcomes |= 1 << 5;
            }
            Some(_) => assert_eq!(bulk, before),
            None => {
                assert_eq!(bulk, before, "a broken answer has changed the bulk");
                self.outcomes |= 1 << 6;
            }
        }
    }
}

/// Checks that the caller gets the answer as it was given.
fn returned<S: Service>(answer: &Answer<S::Reply>, bulk: &[u8])
where
    S::Reply: Debug + PartialEq,
{
    let mut message = vec![0; MAX_PAYLOAD];
    let bytes = codec::pack_answer::<S>(answer, bulk, &mut message).expect("it fits a message");
    let mut back = vec![OURS; bulk.len()];
    let found = codec::unpack_answer::<S>(&message[..bytes], &mut back);
    assert_eq!(found.as_ref(), Some(answer));
    let filled = if let Answer::Done(reply) = answer { S::filled(reply) } else { 0 };
    assert!(back[..filled] == bulk[..filled] && back[filled..].iter().all(|it| *it == OURS));
}

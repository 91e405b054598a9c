//! Random bit patterns as requests. Each is answered, and the answer depends only on the bytes that
//! are sent.

use crate::common::{Solo, Woken, token};
use abi::fs::{Op, Reply, Request, source};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use fs::Vfs;
use share::{Answer, Event, Service, Token};
use zerocopy::{FromBytes, IntoBytes};

const BUDGET: u64 = 1 << 20;

fn fill(random: &mut Prng, bytes: &mut [u8]) {
    for piece in bytes.chunks_mut(8) {
        let word = random.next().to_le_bytes();
        piece.copy_from_slice(&word[..piece.len()]);
    }
}

/// Returns a number near a boundary.
fn edge(random: &mut Prng) -> u64 {
    let around = [0, 1 << 12, 1 << 16, 1 << 31, 1 << 32, 1 << 63, u64::MAX];
    let at = around[random.below(around.len() as u64) as usize];
    at.wrapping_add(random.below(20)).wrapping_sub(10)
}

struct Attack {
    random: Prng,
    handles: Vec<u64>,
}

impl Attack {
    fn handle(&mut self) -> u64 {
        let known = !self.handles.is_empty() && self.random.chance(9, 10);
        if known {
            self.handles[self.random.below(self.handles.len() as u64) as usize]
        } else {
            self.random.next() >> self.random.below(64)
        }
    }

    /// Returns a random request; most are valid enough to get past the first checks.
    fn request(&mut self) -> Request {
        let mut bytes = [0; size_of::<Request>()];
        fill(&mut self.random, &mut bytes);
        let mut request = Request::read_from_bytes(&bytes).unwrap();
        if self.random.chance(1, 20) {
            return request;
        }
        request.op = 1 + self.random.below(35) as u16;
        if request.op == Op::Mount as u16 && self.random.chance(99, 100) {
            request.op = Op::Root as u16;
        }
        (request.handle, request.second) = (self.handle(), self.handle());
        match Op::from_code(request.op) {
            Some(Op::Mount) => {
                let from = [0, source::DEVICES, source::SERVED][self.random.below(3) as usize];
                request.second = from + self.random.below(4);
            }
            Some(Op::NextJob) => request.handle = self.random.below(4),
            Some(Op::JobDone) => {
                let number = (1 + self.random.below(3)) << 56 | 3 << 32;
                request.handle = number + self.random.below(8);
            }
            Some(Op::NextIo) => {
                let number = 3 << 32 | self.random.below(4);
                request.handle = self.random.below(4);
                request.second = if self.random.chance(1, 2) { 0 } else { number };
            }
            Some(Op::IoDone) => request.handle = 3 << 32 | self.random.below(8),
            _ => {}
        }
        if self.random.chance(3, 4) {
            request.flags &= 1 << self.random.below(16) | 1 << self.random.below(16) | 3;
        }
        if self.random.chance(9, 10) {
            (request.name, request.other) =
                (self.random.below(12) as u16, self.random.below(12) as u16);
        }
        (request.offset, request.length) = (edge(&mut self.random), edge(&mut self.random));
        request
    }

    fn bulk(&mut self) -> Vec<u8> {
        let length = match self.random.below(50) {
            0..10 => 0,
            49 => 70_000,
            _ => self.random.below(400),
        };
        let mut bulk = vec![0; length as usize];
        fill(&mut self.random, &mut bulk);
        if self.random.chance(3, 4) {
            for byte in &mut bulk {
                *byte = b"ab/./..\0"[usize::from(*byte) % 8];
            }
        }
        // A list of handles, so that some polls are valid.
        if self.random.chance(1, 4) {
            for at in (0..bulk.len() / 24).map(|n| n * 24) {
                let handle = self.handle();
                bulk[at..at + 8].copy_from_slice(handle.as_bytes());
            }
        }
        bulk
    }
}

fn step(
    solo: &mut Solo,
    token: Token,
    again: bool,
    request: Request,
    bulk: &mut [u8],
) -> Answer<Reply> {
    let event = match again {
        true => Event::Again { token, request: &request, bulk },
        false => Event::Request { token, request: &request, bulk },
    };
    solo.vfs.step(solo.now, event, &mut solo.woken)
}

/// Two services get the same requests, with different bytes in the part of the bulk that is not
/// sent. They must do the same.
#[test]
fn two_hundred_thousand_hostile_requests_depend_only_on_what_is_sent() {
    for seed in 0..20 {
        let mut attack = Attack { random: Prng::new(seed), handles: Vec::new() };
        let (mut one, mut two) = (Solo::new(BUDGET), Solo::new(BUDGET));
        for number in 0..10_000 {
            let (kernel, thread) = (attack.random.below(3) as u8, attack.random.below(5));
            if attack.random.chance(1, 100) {
                let events = [
                    Event::Cancel(token(kernel, thread)),
                    Event::Gone(DomainId(kernel), Epoch(attack.random.below(2) as u16)),
                    Event::Timer,
                ];
                for event in events {
                    if attack.random.chance(1, 8) {
                        let copy = match event {
                            Event::Cancel(token) => Event::Cancel(token),
                            Event::Gone(kernel, epoch) => Event::Gone(kernel, epoch),
                            _ => Event::Timer,
                        };
                        one.tell(event);
                        two.tell(copy);
                    }
                }
            }
            let (request, mut bulk) = (attack.request(), attack.bulk());
            let sent = request.sent(bulk.len());
            let (before, mut other) = (bulk.clone(), bulk.clone());
            fill(&mut attack.random, &mut other[sent..]);
            let again = attack.random.chance(1, 10);
            (one.now, two.now) = (number, number);
            let answer = step(&mut one, token(kernel, thread), again, request, &mut bulk);
            let same = step(&mut two, token(kernel, thread), again, request, &mut other);
            assert_eq!(answer, same, "seed {seed}, {number}: {request:?}");
            assert_eq!(one.take_woken(), two.take_woken());
            let filled = match answer {
                Answer::Done(reply) => {
                    keep(&mut attack, &reply);
                    reply.filled as usize
                }
                Answer::Parked => 0,
                Answer::NoReply => panic!("no reply"),
            };
            assert_eq!(bulk[..filled], other[..filled]);
            assert_eq!(
                bulk[filled..],
                before[filled..],
                "it writes only what it reports: {request:?}"
            );
        }
        for kernel in 0..3 {
            one.tell(Event::Gone(DomainId(kernel), Epoch(1)));
        }
        assert_eq!(one.vfs.census(), (0, 0), "seed {seed}");
    }
}

fn keep(attack: &mut Attack, reply: &Reply) {
    if reply.handle >> 40 == 3 {
        attack.handles.push(reply.handle);
    }
    if reply.other >> 40 == 3 {
        attack.handles.push(reply.other);
    }
    if attack.handles.len() > 60 {
        attack.handles.remove(0);
    }
}

#[test]
fn handles_are_valid_in_the_first_and_the_last_life() {
    for lives in [0, 1, u32::MAX] {
        let mut vfs = Vfs::start(lives);
        let request = Request::new(Op::Root, 0);
        let event = Event::Request { token: token(0, 0), request: &request, bulk: &mut [] };
        let Answer::Done(reply) = vfs.step(0, event, &mut Woken::default()) else { panic!() };
        assert_ne!(reply.handle, 0);
    }
}

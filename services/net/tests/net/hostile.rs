//! Random bit patterns as requests. Each is answered, and all tables stay within their limits.

use crate::common::{Solo, token};
use abi::net::{ANY, ANY_V4, HANDLES, LOCALHOST, LOCALHOST_V6, Op, Request, WAITS};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use net::budget::SOCKETS;
use share::Event;
use zerocopy::FromBytes;

struct Attack {
    random: Prng,
    handles: Vec<u64>,
}

impl Attack {
    fn handle(&mut self) -> u64 {
        if self.handles.is_empty() || self.random.chance(1, 12) {
            return self.random.next() >> self.random.below(64);
        }
        self.handles[self.random.below(self.handles.len() as u64) as usize]
    }

    /// Returns a random request; most are valid enough to get past the first checks.
    fn request(&mut self) -> Request {
        let mut bytes = [0; size_of::<Request>()];
        bytes.iter_mut().for_each(|byte| *byte = self.random.next() as u8);
        let mut request = Request::read_from_bytes(&bytes).unwrap();
        if self.random.chance(1, 20) {
            return request;
        }
        request.op = 1 + self.random.below(Op::ALL.len() as u64) as u16;
        request.handle = self.handle();
        request.flags &= [0, 1, 3, 4, 8][self.random.below(5) as usize];
        request.option &= 15;
        request.tree &= 3;
        if self.random.chance(3, 4) {
            let known = [LOCALHOST, LOCALHOST, LOCALHOST_V6, ANY, ANY_V4];
            request.address = known[self.random.below(5) as usize];
            request.port = self.random.below(6) as u16;
        }
        request.backlog = self.random.below(12) as u16;
        request.length = match self.random.below(8) {
            0 => request.length,
            1 => 0,
            _ => self.random.below(4000) as u32,
        };
        request
    }
}

#[test]
fn hostile_requests_are_answered_within_bounds() {
    for seed in 0..10 {
        let (mut solo, mut given) = (Solo::new(), 0);
        let mut attack = Attack { random: Prng::new(seed), handles: Vec::new() };
        for round in 0..10_000u64 {
            let request = attack.request();
            let mut bulk = vec![round as u8; attack.random.below(4000) as usize];
            let token = token(attack.random.below(3) as u8, attack.random.below(400));
            let reply = match attack.random.below(20) {
                0 => solo.again(token, request, &mut bulk),
                1 => solo.event(Event::Cancel(token)),
                2 => solo.event(Event::Timer),
                3 if round % 50 == 0 => solo.event(Event::Gone(DomainId(token.kernel), Epoch(1))),
                _ => solo.ask(token, request, &mut bulk),
            };
            if let Some(reply) = reply {
                assert!(reply.filled as usize <= bulk.len());
                given += u32::from(reply.handle != 0);
                attack.handles.extend((reply.handle != 0).then_some(reply.handle));
            }
            let excess = attack.handles.len().saturating_sub(80);
            attack.handles.drain(..excess);
            let [handles, sockets, ending, parked] = solo.net.census();
            assert!(handles <= HANDLES as usize && sockets <= SOCKETS && ending <= sockets);
            assert!(parked <= WAITS);
        }
        assert!(given > 200, "seed {seed}: {given} handles");
        for kernel in 0..3 {
            solo.event(Event::Gone(DomainId(kernel), Epoch(1)));
        }
        assert_eq!(solo.net.census(), [0, 0, 0, 0], "seed {seed}");
    }
}

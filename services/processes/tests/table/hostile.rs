//! Requests of random bits with random bulks. Each gets an answer, none causes a panic, and nothing
//! is written beyond the bytes that the reply reports.

use crate::common::*;
use abi::process::{PROCESSES, Reply, Request};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use processes::Processes;
use processes::service::{SPAWNS, WAITS};
use share::{Event, Service, Token};

/// Returns a random number, often a small or otherwise special one.
fn number(random: &mut Prng) -> u64 {
    match random.below(8) {
        0 => random.next(),
        1 => u64::MAX - random.below(3),
        2 => 1 << random.below(64),
        _ => random.below(12),
    }
}

fn request(random: &mut Prng) -> Request {
    let mut n = || number(random);
    Request {
        op: n() as u16,
        flags: n() as u16 & 7,
        kernel: n() as u16 & 3,
        signal: n() as u16,
        pid: n() as i32,
        parent: n() as u32,
        group: n() as u32,
        kind: n() as u32,
        status: n() as u32,
        length: n() as u32,
        cpu: n(),
        memory: n(),
        messages: n(),
        reserved: if n() == 5 { n() } else { 0 },
    }
}

fn check(random: &mut Prng, world: &mut World) {
    let token = Token::new(
        DomainId(random.below(4) as u8),
        Epoch(1),
        random.below(8),
        number(random) as u32,
    );
    let request = request(random);
    let mut bulk: Vec<u8> = (0..random.below(300)).map(|_| number(random) as u8).collect();
    let before = bulk.clone();
    let reply = match random.chance(1, 4) {
        true => world.again(token, request, &mut bulk),
        false => world.ask(token, request, &mut bulk),
    };
    let filled = Processes::filled(&reply.unwrap_or_default());
    assert!(filled <= bulk.len() && bulk[filled..] == before[filled..], "{request:?}");
    let sent = Processes::sent(&request, bulk.len());
    assert!(sent <= bulk.len());
    if let Some(reply) = reply.filter(|reply| reply.error != 0) {
        assert_eq!(Reply::error(reply.errno()), reply);
    }
    match random.below(200) {
        0 => {
            world.tell(Event::Gone(DomainId(random.below(5) as u8), Epoch(random.below(3) as u16)))
        }
        1..10 => world.tell(Event::Cancel(token)),
        _ => {}
    }
    let (records, asks) = world.table.census();
    assert!(records <= PROCESSES && asks <= WAITS + SPAWNS);
}

#[test]
fn any_request_is_answered() {
    for seed in 0..40 {
        let (mut random, mut world) = (Prng::new(seed), World::of_life(seed as u32));
        for _ in 0..2500 {
            check(&mut random, &mut world);
        }
        (0..4).for_each(|kernel| world.tell(Event::Gone(DomainId(kernel), Epoch(1))));
        assert_eq!(world.table.census().1, 0, "seed {seed}: nothing is parked for a dead kernel");
    }
}

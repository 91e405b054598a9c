//! A request carried by messages has the same result as a direct one.

use abi::fs::{Errno, Reply, Request};
use abi::msg::MAX_PAYLOAD;
use fs::Vfs;
use fs::exercise::{Digest, PIECE, exercise_in};
use share::{Answer, Event, Outbox, Service, Token, codec};

fn direct(service: &mut Vfs, now: u64, request: Request, bulk: &mut [u8]) -> Reply {
    let event = Event::Request { token: Token::default(), request: &request, bulk };
    match service.step(now, event, &mut Outbox::new()) {
        Answer::Done(reply) => reply,
        _ => Reply::error(Errno::Io),
    }
}

/// Carries the request and the reply in messages.
fn carried(service: &mut Vfs, now: u64, request: Request, bulk: &mut [u8]) -> Reply {
    let mut message = [0; MAX_PAYLOAD];
    let head = (0, codec::kind::REQUEST, Token::default());
    let bytes = codec::pack::<Vfs>(head, &request, bulk, &mut message).expect("it fits");
    let (head, request, sent) = codec::unpack::<Vfs>(&message[..bytes]).expect("a request");
    let mut there = vec![0; head.room as usize];
    there[..sent.len()].copy_from_slice(sent);
    let answer = Answer::Done(direct(service, now, request, &mut there));
    let bytes = codec::pack_answer::<Vfs>(&answer, &there, &mut message).expect("it fits");
    match codec::unpack_answer::<Vfs>(&message[..bytes], bulk) {
        Some(Answer::Done(reply)) => reply,
        other => panic!("{other:?}"),
    }
}

type Way = fn(&mut Vfs, u64, Request, &mut [u8]) -> Reply;

fn digest(seed: u64, way: Way) -> Digest {
    let (mut service, mut now) = (Vfs::start(1), 0);
    let mut ask = |request: Request, bulk: &mut [u8]| {
        now += 1;
        let reply = way(&mut service, now, request, bulk);
        if std::env::var("SHOW").is_ok() {
            println!("{request:?} {} -> {reply:?}", bulk.len());
        }
        reply
    };
    exercise_in(PIECE, seed, 2000, &mut ask).expect("the exercise itself does not fail")
}

#[test]
fn carried_requests_have_the_same_digest() {
    for seed in 0..20 {
        assert_eq!(digest(seed, direct), digest(seed, carried), "seed {seed}");
    }
}

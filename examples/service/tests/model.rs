//! The service against a model: random requests of callers on two kernels, with cancellations and
//! deaths. The model is a number and a set of waiting callers, and nothing can be simpler.

use base::id::{DomainId, Epoch};
use base::prng::Prng;
use permits::{Client, MOST, Permits, Reply, Request, WAITING, kind, status};
use share::{Answer, Effects, Event, Service, Token};
use std::collections::BTreeSet;

/// Tokens that a step woke.
#[derive(Default)]
struct Woken(Vec<Token>);

impl Effects for Woken {
    fn wake(&mut self, token: Token) {
        self.0.push(token);
    }
    fn wake_all(&mut self) {
        unreachable!("no state is lost here")
    }
    fn timer(&mut self, _at: u64) {
        unreachable!("it has no timers")
    }
}

fn step(service: &mut Permits, event: Event<'_, Request>, woken: &mut Woken) -> Answer<Reply> {
    service.step(0, event, woken)
}

fn ask(service: &mut Permits, token: Token, request: Request, woken: &mut Woken) -> Answer<Reply> {
    step(service, Event::Request { token, request: &request, bulk: &mut [] }, woken)
}

#[test]
fn permits_agree_with_their_model() {
    for seed in 0..200 {
        run(seed);
    }
}

fn run(seed: u64) {
    let mut random = Prng::new(seed);
    let (mut service, mut woken) = (Permits::start(1), Woken::default());
    let (mut left, mut waiting, mut sequence) = (0u64, BTreeSet::new(), 0);
    for _ in 0..400 {
        let kernel = DomainId(random.below(2) as u8);
        sequence += 1;
        let token = Token::new(kernel, Epoch(1), 7, sequence);
        match random.below(10) {
            0..4 => {
                let answer =
                    ask(&mut service, token, Request { kind: kind::TAKE, count: 0 }, &mut woken);
                let expected = match (left, waiting.len()) {
                    (1.., _) => {
                        left -= 1;
                        Answer::Done(Reply { status: status::DONE, left })
                    }
                    (0, WAITING) => Answer::Done(Reply { status: status::CROWDED, left }),
                    _ => {
                        waiting.insert(token);
                        Answer::Parked
                    }
                };
                assert_eq!(answer, expected, "seed {seed}");
            }
            4..7 => {
                let count = [0, 1, 3, u64::MAX][random.below(4) as usize];
                let answer =
                    ask(&mut service, token, Request { kind: kind::ADD, count }, &mut woken);
                left = left.saturating_add(count).min(MOST);
                assert_eq!(answer, Answer::Done(Reply { status: status::DONE, left }));
                // All are woken, once; the callers ask again in that order.
                let all: BTreeSet<Token> = woken.0.iter().copied().collect();
                assert_eq!((all.len(), &all), (woken.0.len(), &waiting), "seed {seed}");
                for token in std::mem::take(&mut woken.0) {
                    let request = Request { kind: kind::TAKE, count: 0 };
                    let again = Event::Again { token, request: &request, bulk: &mut [] };
                    if step(&mut service, again, &mut woken) != Answer::Parked {
                        waiting.remove(&token);
                        left -= 1;
                    }
                }
                // Tests with many permits would never wait again.
                if left > 8 {
                    (service, left) = (Permits::start(2), 0);
                    waiting.clear();
                }
            }
            7 => {
                if let Some(token) = waiting.pop_first() {
                    assert_eq!(
                        step(&mut service, Event::Cancel(token), &mut woken),
                        Answer::NoReply
                    );
                }
            }
            8 => {
                step(&mut service, Event::Gone(kernel, Epoch(1)), &mut woken);
                waiting.retain(|token| token.kernel() != kernel);
            }
            _ => {
                let request = Request { kind: 3 + random.below(9), count: 0 };
                let known =
                    if request.kind == kind::COUNT { status::DONE } else { status::UNKNOWN };
                let answer = ask(&mut service, token, request, &mut woken);
                assert_eq!(answer, Answer::Done(Reply { status: known, left }));
            }
        }
        assert!(woken.0.is_empty(), "seed {seed}: woken for nothing");
    }
}

#[test]
fn a_client_of_permits_counts() {
    let (mut service, mut woken) = (Permits::start(1), Woken::default());
    let token = Token::new(DomainId(0), Epoch(1), 1, 1);
    let mut carry = |request| match ask(&mut service, token, request, &mut woken) {
        Answer::Done(reply) => reply,
        other => panic!("{other:?}"),
    };
    let mut client = Client(&mut carry);
    assert_eq!((client.add(2), client.take(), client.count()), (Ok(2), Ok(1), Ok(1)));
}

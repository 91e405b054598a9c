//! Wait queues against a simple list of waits, and what their operations cost.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use base::id::{DomainId, Epoch};
use base::prng::Prng;
use share::{Effects, Parked, Token};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Woken(Vec<Token>);

impl Effects for Woken {
    fn wake(&mut self, token: Token) {
        self.0.push(token);
    }
    fn wake_all(&mut self) {
        unreachable!("a wait queue wakes tokens")
    }
    fn timer(&mut self, _: u64) {
        unreachable!("a wait queue sets no timer")
    }
}

fn token(number: u64) -> Token {
    Token::new(DomainId(number as u8 % 2), Epoch(1 + number as u16 % 3), number, number as u32)
}

fn tree(token: Token) -> u32 {
    token.thread as u32 % 4
}

/// What waits, in order of arrival.
#[derive(Default)]
struct Model(Vec<(Token, u32)>);

impl Model {
    fn park(&mut self, token: Token, key: u32) {
        if !self.0.contains(&(token, key)) {
            self.0.push((token, key));
        }
    }

    /// Returns the tokens that are woken when these keys are ready, the lowest key first.
    fn wake(&mut self, ready: impl Fn(u32) -> bool) -> Vec<Token> {
        let mut keys: Vec<u32> = self.0.iter().map(|wait| wait.1).filter(|&it| ready(it)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut woken = Vec::new();
        for key in keys {
            for wait in self.0.iter().filter(|wait| wait.1 == key) {
                if !woken.contains(&wait.0) {
                    woken.push(wait.0);
                }
            }
        }
        self.0.retain(|wait| !woken.contains(&wait.0));
        woken
    }

    fn held_by(&self, wanted: u32) -> usize {
        self.0.iter().filter(|wait| tree(wait.0) == wanted).count()
    }
}

const MOST: usize = 60;

fn run(seed: u64) -> usize {
    let (mut random, mut model, mut all) = (Prng::new(seed), Model::default(), 0);
    let mut parked: Parked<u32> = Parked::new(MOST);
    for _ in 0..400 {
        let who = token(random.below(12));
        let key = random.below(20) as u32;
        let mut woken = Woken::default();
        match random.below(16) {
            0..4 => {
                // A request waits for one key.
                parked.forget(who);
                model.0.retain(|wait| wait.0 != who);
                let done = parked.park_all(who, &mut [key], tree(who));
                assert_eq!(done.is_some(), model.0.len() < MOST);
                done.inspect(|()| model.park(who, key));
            }
            4..9 => {
                parked.forget(who);
                model.0.retain(|wait| wait.0 != who);
                let count = random.below(12);
                let mut keys: Vec<u32> = (0..count).map(|_| random.below(20) as u32).collect();
                let mut one_each = keys.clone();
                one_each.sort_unstable();
                one_each.dedup();
                let done = parked.park_all(who, &mut keys, tree(who));
                assert_eq!(done.is_some(), model.0.len() + one_each.len() <= MOST);
                done.inspect(|()| one_each.iter().for_each(|&key| model.park(who, key)));
            }
            9 | 10 => {
                parked.forget(who);
                model.0.retain(|wait| wait.0 != who);
            }
            11 | 12 => {
                parked.wake(key, &mut woken);
                assert_eq!(woken.0, model.wake(|it| it == key), "seed {seed}");
            }
            13 | 14 => {
                let ready = |it: u32| it.is_multiple_of(7) || it == key;
                parked.wake_ready(ready, &mut woken);
                assert_eq!(woken.0, model.wake(ready), "seed {seed}");
            }
            _ => {
                parked.gone(who.kernel(), who.epoch());
                let is_lost = |it: Token| (it.kernel, it.epoch) == (who.kernel, who.epoch);
                model.0.retain(|wait| !is_lost(wait.0));
            }
        }
        all += woken.0.len();
        let mut tokens: Vec<Token> = model.0.iter().map(|wait| wait.0).collect();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(parked.count(), tokens.len(), "seed {seed}");
        assert_eq!(parked.left(), MOST - model.0.len(), "seed {seed}");
        (1..4).for_each(|of| assert_eq!(parked.held_by(of), model.held_by(of), "seed {seed}"));
        let alone: Vec<Token> = model.0.iter().filter(|it| it.1 == key).map(|it| it.0).collect();
        let only = (alone.len() == 1).then(|| alone[0]);
        assert_eq!(parked.only(key).map(|it| it.0), only, "seed {seed}");
    }
    all
}

#[test]
fn random_waits_are_woken_as_a_simple_list_says() {
    let woken: usize = (0..500).map(run).sum();
    assert!(woken > 10_000, "{woken}");
}

#[test]
fn the_system_is_charged_to_no_tree() {
    let mut parked: Parked<u32> = Parked::new(4);
    parked.park(token(1), 7).unwrap();
    parked.park_with(token(1), 7, 100).unwrap();
    parked.park_with(token(2), 8, 100).unwrap();
    assert_eq!((parked.held_by(0), parked.left()), (0, 2));
    assert_eq!(parked.only(8), Some((token(2), 100)));
}

/// Returns the shortest of several times that `work` took.
fn shortest(mut work: impl FnMut() -> Duration) -> Duration {
    (0..7).map(|_| work()).min().unwrap()
}

/// Checks that 16 times as many waits take less than 16 times 5 as long: 256 times, if each wait
/// moves all others.
fn grows_like_its_waits(what: &str, time: impl Fn(u32) -> Duration) {
    let [few, many] = [2_000, 32_000].map(|count| shortest(|| time(count)));
    assert!(many < few * 80, "{what}: {few:?} for 2,000 waits, {many:?} for 32,000");
}

#[test]
fn the_cost_of_a_call_grows_like_the_waits_that_it_adds_or_removes() {
    let full = |keys: u32, callers: u64| {
        let mut parked: Parked<u32> = Parked::new(2 * keys as usize);
        let each = keys / callers as u32;
        for caller in 0..callers {
            let mut own: Vec<u32> = (0..each).map(|at| at * callers as u32).collect();
            parked.park_all(token(caller), &mut own, 1).unwrap();
        }
        parked
    };
    let timed = |work: &mut dyn FnMut()| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    };
    grows_like_its_waits("a poll begins", |count| {
        let mut parked = full(count / 2, 1);
        let mut keys: Vec<u32> = (0..count / 2).map(|at| 2 * at + 1).collect();
        timed(&mut || parked.park_all(token(9), &mut keys, 1).unwrap())
    });
    grows_like_its_waits("a poll ends", |count| {
        let mut parked = full(count, 2);
        timed(&mut || parked.forget(token(0)))
    });
    grows_like_its_waits("all are woken", |count| {
        let mut parked = full(count, u64::from(count));
        timed(&mut || parked.wake(0, &mut Woken::default()))
    });
}

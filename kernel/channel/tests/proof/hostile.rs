//! A kernel that sends anything: words, and its own messages with words changed. The tables of the
//! others endure it, and channels that it never had are as if it did not exist.

use base::id::Epoch;
use base::prng::Prng;

use super::actions::Action;
use super::models::{NONE, setup};
use super::world::{Budget, Log, State, Token, World};
use crate::bounds::CARRIED;
use crate::message::{Cargo, Data, Message};
use crate::name::{EndName, Life};
use crate::wire::{self, WORDS};

/// The hostile kernel, and the channel that it has. The channels before that are among others.
const HOSTILE: usize = 2;
const CHANNELS: usize = 3;

fn world() -> World {
    let channels = [
        setup(1, [0, 1], [3, 3]),
        setup(0, [0, 1], [3, 3]),
        setup(0, [1, 1], [3, 3]),
        setup(2, [0, 2], [3, 3]),
        setup(1, [2, 1], [3, 3]),
    ];
    World::new(3, &channels, Budget { sends: 18, moves: 6, closes: 2, ..NONE })
}

/// Words near those of a message: the fields that matter are small numbers.
fn word(prng: &mut Prng) -> u64 {
    match prng.below(4) {
        0 => prng.next(),
        1 => u64::MAX >> prng.below(64),
        _ => prng.below(5),
    }
}

fn change(words: &mut Vec<u64>, prng: &mut Prng) {
    for _ in 0..prng.below(4) {
        let at = prng.below(words.len() as u64) as usize;
        words[at] = word(prng);
    }
    if prng.chance(1, 16) {
        words.truncate(prng.below(words.len() as u64) as usize);
    }
}

fn words(samples: &[Vec<u64>], prng: &mut Prng) -> Vec<u64> {
    if prng.chance(1, 8) || samples.is_empty() {
        return (0..prng.below(WORDS as u64)).map(|_| word(prng)).collect();
    }
    let mut words = samples[prng.below(samples.len() as u64) as usize].clone();
    change(&mut words, prng);
    words
}

/// Messages of kernel 2 in all kinds, for its own channels.
fn samples(state: &State) -> Vec<Vec<u64>> {
    let table = &state.kernels[HOSTILE].channels.table;
    let mut messages: Vec<Message<()>> = vec![Message::Room { ends: 1 }];
    for end in (0..table.len()).filter_map(|index| table.get(index)) {
        let (record, mut clone) = (end.record, state.kernels[HOSTILE].channels.clone());
        let index = table.find(end.name()).expect("it is there");
        let news = clone.news(index).expect("it is there");
        let to = end.name().peer();
        let cargo = Cargo::End(record);
        let carried = [cargo, Cargo::Nothing];
        let data = Data { sequence: 0, tag: 0, state: 0, payload: (), carried };
        let plain = [Cargo::Nothing; 2];
        let plain = Data { carried: plain, ..data.clone() };
        messages.extend([
            Message::Data { to, data },
            Message::Data { to, data: plain },
            Message::News { to, news },
            Message::Retire { end: to, moves: 3, last: None },
            Message::Retire { end: to, moves: 3, last: Some(news) },
            Message::Hand { record, ticket: 1 },
        ]);
    }
    messages.iter().map(encode).collect()
}

fn encode(message: &Message<()>) -> Vec<u64> {
    let mut words = [0; WORDS];
    let used = wire::encode(message, &mut words);
    assert_eq!(wire::decode(&words[..used]).as_ref(), Some(message));
    words[..used].to_vec()
}

/// Kernel 2 sends words and a payload to kernel 0 or 1. Returns whether they were a message, and no
/// fault.
fn attack(state: &mut State, samples: &[Vec<u64>], payload: Token, prng: &mut Prng) -> bool {
    let victim = prng.below(2) as usize;
    let words = words(samples, prng);
    let from = state.kernels[HOSTILE].life(HOSTILE);
    let from = Life { epoch: Epoch(state.kernels[victim].known[HOSTILE]), ..from };
    let message = wire::decode(&words).and_then(|message| message.with(|_| Some(payload)));
    let few = core::array::from_fn(|at| words.get(at).copied().unwrap_or_else(|| prng.next()));
    let message = message.or_else(|| Some(wire::Plain::of_words(few)?.with(payload)));
    let (mut log, kernel) = (Log::default(), &mut state.kernels[victim]);
    let fine =
        message.is_some_and(|message| kernel.channels.handle(from, message, &mut log).is_ok());
    if !fine && prng.chance(1, 8) {
        // The session ends, and its next life is as hostile.
        kernel.channels.kernel_died(from, &mut log);
        kernel.known[HOSTILE] += 1;
        let epoch = Epoch(kernel.known[HOSTILE]);
        kernel.channels.kernel_started(Life { epoch, ..from }, &mut log);
    }
    let arrived = core::mem::take(&mut log.arrived);
    for (_, end) in arrived {
        let _ = kernel.channels.close(end, &mut log);
    }
    kernel.asleep.retain(|end| !log.woken.contains(end));
    let _ = kernel.channels.next(base::id::DomainId(HOSTILE as u8), &mut log);
    fine
}

/// Returns whether an action is one of kernels 0 and 1 with a channel among them.
fn is_ours(world: &World, state: &State, action: Action) -> bool {
    let ours = |k: usize, end| {
        k != HOSTILE && world.who(state, k, end).is_some_and(|(channel, _)| channel < CHANNELS)
    };
    match action {
        Action::Send(k, end, cargo) => ours(k, end) && cargo.is_none_or(|it| ours(k, it)),
        Action::Receive(k, end) | Action::Close(k, end) => ours(k, end),
        Action::Deliver(a, b) => a != HOSTILE && b != HOSTILE,
        _ => false,
    }
}

/// Everything among kernels 0 and 1 has arrived.
fn check_rest(state: &State, seed: u64) {
    let mut names: Vec<EndName> = vec![];
    for kernel in &state.kernels[..HOSTILE] {
        let table = &kernel.channels.table;
        for end in (0..table.len()).filter_map(|index| table.get(index)) {
            let name = end.name();
            let Some(at) = state.tracked[..CHANNELS].iter().position(|it| it.name == name.channel)
            else {
                continue;
            };
            let seen = state.tracked[at].ends[name.side.other().index()];
            assert!(end.is_live(), "seed {seed}: a stand-in is left");
            assert_eq!(end.received(), u64::from(seen.sent), "seed {seed}: {name:?}");
            assert!(!end.record.is_broken, "seed {seed}: {name:?}");
            names.push(name);
        }
    }
    for (at, channel) in state.tracked[..CHANNELS].iter().enumerate() {
        for (side, seen) in channel.ends.iter().enumerate() {
            let here = names.iter().filter(|it| it.channel == channel.name);
            let count = here.filter(|it| it.side.index() == side).count();
            assert_eq!(count, usize::from(!seen.is_closed), "seed {seed}: channel {at}");
        }
    }
}

fn run(seed: u64) -> (usize, usize) {
    let (mut prng, world) = (Prng::new(seed), world());
    let mut state = world.start();
    let samples = samples(&state);
    let (mut attacks, mut taken) = (0, 0);
    loop {
        let mut actions = vec![];
        world.list_actions(&state, &mut actions);
        actions.retain(|action| is_ours(&world, &state, *action));
        for _ in 0..prng.below(8) {
            // A payload that differs from all others.
            let [number, side] = u16::to_le_bytes(attacks as u16);
            let payload = Token { channel: 99, side, number, carries: None };
            taken += usize::from(attack(&mut state, &samples, payload, &mut prng));
            attacks += 1;
        }
        if actions.is_empty() {
            break;
        }
        let action = actions[prng.below(actions.len() as u64) as usize];
        world.act(&mut state, action);
        for kernel in [0, 1] {
            world.link(&mut state, kernel, HOSTILE).clear();
        }
        assert_eq!(state.wrong, None, "seed {seed}");
    }
    check_rest(&state, seed);
    (attacks, taken)
}

fn runs(seeds: core::ops::Range<u64>) {
    let (mut attacks, mut taken) = (0, 0);
    for seed in seeds {
        let (more, fine) = run(seed);
        (attacks, taken) = (attacks + more, taken + fine);
    }
    println!("{attacks} hostile messages, {taken} of them taken");
    assert!(taken * 20 > attacks, "too few are messages at all");
}

#[test]
fn a_message_fits_with_all_ends_that_it_may_carry() {
    let state = world().start();
    let table = &state.kernels[HOSTILE].channels.table;
    let record = (0..table.len()).find_map(|index| table.get(index)).expect("an end").record;
    let carried = [Cargo::End(record); CARRIED];
    let data = Data { sequence: 0, tag: 0, state: 0, payload: (), carried };
    encode(&Message::Data { to: record.name, data });
}

#[test]
fn channels_among_others_endure_a_hostile_kernel() {
    runs(0..1_000);
}

#[test]
#[ignore = "a hundred thousand runs"]
fn channels_among_others_endure_a_hostile_kernel_for_long() {
    runs(1_000..100_000);
}

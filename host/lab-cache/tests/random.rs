//! Compares the model with the reference, in both directions, over thousands of seeded programs:
//! what can go wrong has been reported by then, and what is reported can go wrong.

mod common;
#[path = "common/reference.rs"]
mod reference;

use base::prng::Prng;
use common::{BASE, domain, words};
use lab_cache::{Access, Kind, Model, Violation};
use reference::{DOMAINS, Event, Reference, WORDS};
use std::collections::BTreeMap;

const SEEDS: u64 = 6_000;

/// One line's history in a seed.
struct Track {
    reference: Reference,
    over: bool,
}

/// Applies `event` to line `line` of the model. Returns the reports.
fn step(model: &mut Model, line: u64, event: Event, pc: u64) -> Vec<Violation> {
    let start = BASE + line * 64;
    let at = |word: usize| start + word as u64 * 16;
    let by = |d: usize, word| Access { domain: domain(d as u8), pa: at(word), len: 8, pc };
    let mut told = Vec::new();
    let report = &mut |violation: &Violation| told.push(*violation);
    match event {
        Event::Read(d, word) => model.read(by(d, word), report),
        Event::Write(d, word) => model.write(by(d, word), report),
        Event::Fetch(d, word) => model.fetch(domain(d as u8), at(word), 4, report),
        Event::UncachedRead(d, word) => model.uncached_read(by(d, word), report),
        Event::UncachedWrite(d, word) => model.uncached_write(by(d, word), report),
        Event::DeviceRead(word) => model.device_read(at(word), 8, pc, report),
        Event::DeviceWrite(word) => model.device_write(at(word), 8, pc, report),
        Event::Clean(d) => model.clean(domain(d as u8), start),
        Event::Invalidate(d) => model.invalidate(domain(d as u8), start),
        Event::CleanInvalidate(d) => model.clean_invalidate(domain(d as u8), start + 63),
        Event::Death(_) => {}
    }
    told
}

fn access(random: &mut Prng, domains: u64) -> Event {
    let d = random.below(domains) as usize;
    let word = random.below(WORDS as u64) as usize;
    match random.below(16) {
        0..5 => Event::Read(d, word),
        5..10 => Event::Write(d, word),
        10 => Event::Fetch(d, word),
        11 => Event::UncachedRead(d, word),
        12 => Event::UncachedWrite(d, word),
        13 => Event::DeviceRead(word),
        _ => Event::DeviceWrite(word),
    }
}

fn maintenance(random: &mut Prng, domains: u64) -> Event {
    let d = random.below(domains) as usize;
    match random.below(7) {
        0 | 1 => Event::Clean(d),
        2 | 3 => Event::Invalidate(d),
        4 | 5 => Event::CleanInvalidate(d),
        _ => Event::Death(d),
    }
}

/// Returns the maintenance that makes `event` correct, whatever came before: holders of changes
/// clean (or invalidate, if a device overwrites the line), then the domain that accesses the line
/// through its cache invalidates. An invalidate drops own changes, so an own dirty line is cleaned
/// first.
fn preparations(event: Event, random: &mut Prng) -> Vec<Event> {
    let clean = |d| Event::Clean(d);
    let mut all: Vec<Event> = Vec::new();
    match event {
        Event::Read(d, _) | Event::Write(d, _) | Event::Fetch(d, _) => {
            all.extend((0..DOMAINS).filter(|other| *other != d).map(clean));
            all.push(if random.chance(1, 2) { Event::CleanInvalidate(d) } else { clean(d) });
            all.push(Event::Invalidate(d));
        }
        Event::UncachedRead(..) | Event::UncachedWrite(..) | Event::DeviceRead(_) => {
            all.extend((0..DOMAINS).map(clean));
        }
        Event::DeviceWrite(_) => {
            all.extend((0..DOMAINS).map(|d| match random.below(2) {
                0 => Event::Clean(d),
                _ => Event::CleanInvalidate(d),
            }));
        }
        _ => {}
    }
    all
}

/// Returns a program of `length` events for one line. `careful` of 8 accesses are prepared.
fn program(random: &mut Prng, domains: u64, careful: u64, length: u64) -> Vec<Event> {
    let mut all = Vec::new();
    for _ in 0..length {
        let event = match random.below(4) {
            0 => maintenance(random, domains),
            _ => access(random, domains),
        };
        if random.chance(careful, 8) {
            all.extend(preparations(event, random));
        }
        all.push(event);
    }
    all
}

/// The lines lost in a death must be exactly those that may be dirty.
fn death(model: &mut Model, tracks: &mut [Track], d: usize, seed: u64) {
    let dead: Vec<u64> = model.death(domain(d as u8)).map(|lost| lost.pa).collect();
    for (line, track) in tracks.iter_mut().enumerate().filter(|(_, track)| !track.over) {
        let expected = track.reference.may_be_dirty(d);
        let found = dead.contains(&(BASE + line as u64 * 64));
        assert_eq!(found, expected, "seed {seed}: line {line} at the death of {d}");
        track.reference.apply(Event::Death(d));
    }
}

/// Runs a seed. Returns each line's first report.
fn run(seed: u64, careful: u64) -> Vec<Option<Kind>> {
    let mut random = Prng::new(seed);
    let domains = 2 + random.below(2);
    let lines = 1 + random.below(3);
    let words = words(4096);
    let mut model = Model::attach(&words, BASE, 4096).expect("words fit");
    let mut tracks: Vec<Track> =
        (0..lines).map(|_| Track { reference: Reference::new(), over: false }).collect();
    let mut programs: Vec<_> =
        (0..lines).map(|_| program(&mut random, domains, careful, 40).into_iter()).collect();
    let mut first = vec![None; lines as usize];
    let mut trace = Vec::new();
    for pc in 1.. {
        let line = random.below(lines) as usize;
        let Some(event) = programs[line].next() else { break };
        trace.push((line, event));
        if let Event::Death(d) = event {
            death(&mut model, &mut tracks, d, seed);
            continue;
        }
        let told = step(&mut model, line as u64, event, pc);
        assert!(told.iter().all(|v| v.line == BASE + line as u64 * 64), "seed {seed}");
        let track = &mut tracks[line];
        if track.over {
            continue;
        }
        let wrong = track.reference.apply(event);
        assert_eq!(!told.is_empty(), wrong.line, "seed {seed}: {told:?} {wrong:?} {trace:?}");
        assert!(!wrong.value || !told.is_empty(), "seed {seed}: {trace:?}");
        first[line] = told.first().map(|v| v.kind);
        track.over = !told.is_empty();
    }
    first
}

#[test]
fn reports_are_exactly_what_some_eviction_makes_wrong() {
    let mut kinds: BTreeMap<Option<Kind>, u64> = BTreeMap::new();
    for seed in 0..SEEDS {
        for first in run(seed, seed % 8) {
            *kinds.entry(first).or_default() += 1;
        }
    }
    println!("lines by their first report: {kinds:?}");
    for kind in Kind::ALL.into_iter().filter(|k| !matches!(k, Kind::SharedAtomic | Kind::WideStore))
    {
        assert!(
            kinds.get(&Some(kind)).is_some_and(|n| *n > 200),
            "{kind:?} hardly ever: {kinds:?}"
        );
    }
}

#[test]
fn programs_that_follow_the_discipline_are_never_reported() {
    for seed in 0..SEEDS {
        let mut random = Prng::new(seed);
        let words = words(4096);
        let mut model = Model::attach(&words, BASE, 4096).expect("words fit");
        let mut reference = Reference::new();
        let events = disciplined(&mut random);
        for (pc, event) in events.iter().enumerate() {
            if let Event::Death(d) = *event {
                drop(model.death(domain(d as u8)));
            }
            let told = step(&mut model, 0, *event, pc as u64);
            assert!(told.is_empty(), "seed {seed}: {told:?} by {:?}", &events[..=pc]);
            assert!(!reference.apply(*event).value, "seed {seed}: the reference disagrees");
        }
    }
}

/// One owner after another; in between readers, devices and deaths.
fn disciplined(random: &mut Prng) -> Vec<Event> {
    let mut all = Vec::new();
    for _ in 0..12 {
        let owner = random.below(DOMAINS as u64) as usize;
        let word = |random: &mut Prng| random.below(WORDS as u64) as usize;
        all.push(Event::Invalidate(owner));
        for _ in 0..random.below(6) {
            all.push(match random.chance(1, 2) {
                true => Event::Read(owner, word(random)),
                false => Event::Write(owner, word(random)),
            });
        }
        if random.chance(1, 8) {
            all.push(Event::Death(owner));
        }
        all.push(match random.chance(1, 2) {
            true => Event::Clean(owner),
            false => Event::CleanInvalidate(owner),
        });
        for reader in 0..DOMAINS {
            if random.chance(1, 2) {
                all.extend([Event::Invalidate(reader), Event::Read(reader, word(random))]);
            }
        }
        match random.below(6) {
            0 => all.push(Event::DeviceWrite(word(random))),
            1 => all.push(Event::DeviceRead(word(random))),
            2 => all.push(Event::UncachedRead(owner, word(random))),
            3 => all.push(Event::UncachedWrite(owner, word(random))),
            _ => {}
        }
    }
    all
}

//! Random and hostile arguments for every function.

use crate::common::*;
use abi::process;
use base::prng::Prng;
use kernel_process::functions::Type;
use kernel_process::{FUNCTIONS, Stop};

/// A hostile number.
fn number(prng: &mut Prng, size: Type) -> u64 {
    let edge = MEMORY as u64;
    let value = match prng.below(12) {
        0 => prng.next(),
        1 => prng.below(8),
        2 => u64::MAX - prng.below(40),
        3 => edge - prng.below(100),
        4 => edge + prng.below(4),
        5 => (1 << 31) - prng.below(2),
        6 => u64::from(u32::MAX) - prng.below(40),
        7 => prng.below(64),
        8 => (1 << prng.below(64)) - prng.below(2),
        _ => [PATH, OTHER, LIST, RESULT, BUFFER, 0x5000][prng.below(6) as usize],
    };
    if size == Type::I32 { value & u64::from(u32::MAX) } else { value }
}

/// A plausible number.
fn likely(prng: &mut Prng) -> u64 {
    match prng.below(3) {
        0 => [PATH, OTHER, LIST, RESULT, BUFFER, 0x5000][prng.below(6) as usize],
        1 => prng.below(3),
        _ => [3, 3, 4, 5][prng.below(4) as usize],
    }
}

/// Memory with some data of the kind that functions expect.
fn scatter(program: &mut Program, prng: &mut Prng) {
    for base in [PATH, OTHER, LIST, RESULT, BUFFER, 0x5000] {
        for word in 0..24 {
            let value = number(prng, Type::I64);
            program.put(base + 8 * word, &value.to_le_bytes());
        }
        let texts: [&[u8]; 8] =
            [b"fil", b"../..", b"/", b"sub/..//sub", b"a\0", b"sub", b"lnk", b"\xff"];
        if prng.chance(1, 2) {
            program.put(base, texts[prng.below(8) as usize]);
        }
        if prng.chance(1, 2) {
            let list = [BUFFER as u32, prng.below(300) as u32, LIST as u32, 32];
            program.put(base, &list.map(u32::to_le_bytes).concat());
        }
    }
}

/// Calls one function with arguments from a seed. Waits end at once; nothing may panic.
fn one(program: &mut Program, prng: &mut Prng, place: usize) -> Result<u16, Stop> {
    let function = &FUNCTIONS[place];
    let sane = prng.chance(1, 2);
    let choose = |size: &Type| if sane { likely(prng) } else { number(prng, *size) };
    let numbers: Vec<_> = function.parameters.iter().map(choose).collect();
    if prng.chance(1, 2) {
        let filled = (prng.next() as u32).min(program.memory.len() as u32);
        let reply = process::Reply { filled, ..Default::default() };
        program.world.answers.push_back(reply);
    }
    let answer = program.run(function.name, &numbers);
    program.world.answers.clear();
    program.world.asked.clear();
    program.world.requests.clear();
    if let Ok(error) = answer {
        assert!(error <= 76, "{} {numbers:x?}: {error}", function.name);
    }
    answer
}

/// The functions called, and their answers; last a sum over the memory.
type Calls = Vec<(usize, Result<u16, Stop>)>;

/// Makes random calls. With `keeps`, a call that fails changes no memory: a request that failed may
/// have used the program's own as its buffer.
fn session(seed: u64, calls: u32, mut program: Program, keeps: bool) -> Calls {
    let mut prng = Prng::new(seed);
    let mut all = Vec::new();
    if keeps {
        // A program with threads gets at most so much from one request.
        program.memory.truncate(abi::fs::STEP);
    }
    program.file("fil", b"some data");
    program.mkdir("sub");
    program.symlink("sub", "lnk");
    for _ in 0..calls {
        if prng.chance(1, 8) {
            scatter(&mut program, &mut prng);
        }
        let place = prng.below(FUNCTIONS.len() as u64) as usize;
        let before = keeps.then(|| program.memory.clone());
        let answer = one(&mut program, &mut prng, place);
        if let (Some(before), false) = (before, answer == Ok(0)) {
            program.memory = before;
        }
        all.push((place, answer));
    }
    all.push((calls as usize, Ok(sum(&program.memory))));
    program.end();
    all
}

fn sum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum: u16, byte| sum.rotate_left(3) ^ u16::from(*byte))
}

#[test]
fn random_calls_never_panic_or_leak_handles() {
    let mut ends = std::collections::BTreeSet::new();
    for seed in 0..3000 {
        let mut calls = session(seed, 100, Program::new(), false);
        calls.pop();
        ends.extend(calls.into_iter().map(|(place, answer)| (place, answer == Ok(0))));
    }
    // Not all calls were refused: most functions succeeded at some time.
    let useful = ends.iter().filter(|(_, good)| *good).count();
    assert!(useful >= 40, "{useful}");
    // Two always succeed: sched_yield and move_point.
    assert_eq!(ends.len() - useful, FUNCTIONS.len() - 2);
}

#[test]
fn memory_that_threads_share_changes_no_answer_and_no_result() {
    for seed in 0..200 {
        let one = session(seed, 100, Program::new(), true);
        assert_eq!(one, session(seed, 100, Program::with_threads(), true), "{seed}");
    }
}

#[test]
fn every_function_survives_an_empty_memory() {
    let mut prng = Prng::new(9);
    for place in 0..FUNCTIONS.len() {
        for _ in 0..200 {
            let shared = prng.chance(1, 2);
            let mut program = Program { shared, ..Program::new() };
            program.memory.clear();
            let _ = one(&mut program, &mut prng, place);
        }
    }
}

#[test]
fn addresses_at_the_end_of_memory_are_checked() {
    for (place, function) in FUNCTIONS.iter().enumerate() {
        for at in (MEMORY as u64 - 70)..=(MEMORY as u64) {
            let mut program = Program::new();
            let numbers = function.parameters.iter().enumerate().map(|(index, size)| match size {
                Type::I32 if index == 0 && function.name.starts_with("fd_") => DIR,
                Type::I32 => at,
                Type::I64 => 0,
            });
            let numbers: Vec<_> = numbers.collect();
            let _ = program.within(|process, memory, world| {
                kernel_process::call(place, process, memory, world, &numbers)
            });
        }
    }
}

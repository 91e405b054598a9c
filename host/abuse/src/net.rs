//! The network stack: frames from outside, socket calls of programs, deaths of a kernel, and time.
//! The service, its memory and its device's driver are those of a kernel; at the other end of the
//! cable are another stack, and hosts that keep to nothing. Rules:
//! - nothing panics or hangs: each call has an answer or waits, and a step leads to a bounded
//!   number of others;
//! - tables, and memory in an arena of the size that a board has, stay within their bounds;
//! - a bystander's connection and its UDP sockets on loopback continue to work, byte for byte;
//! - a caller that waits is woken when there is an answer for it;
//! - every frame that the chip sends is valid, in its own name, to a host outside;
//! - when all is closed and connections had their time, no socket, wait, port, buffer or timer is
//!   left.

mod board;
mod bystander;
pub mod cable;
pub mod packets;
mod programs;
mod strangers;

use crate::bytes::Bytes;
use crate::{Target, mutate};
use abi::net::{Errno, Op, Request, flag, option};
use base::prng::Prng;
pub use board::events;
use board::{Board, Cable};
use bystander::{Bystander, connection};
use cable::world::device;
use programs::Programs;
use std::cell::OnceCell;
use strangers::{PORTS, Strangers};

pub const TARGET: Target = Target {
    name: "net",
    about: "frames from outside and socket calls: the network stack of a kernel",
    daily: 400,
    nightly: 30_000,
    run: |bytes| judge(bytes, Mistake::None),
    seed: |seed| {
        let mut prng = Prng::new(seed);
        mutate::noise(&mut prng, 200, LONGEST as u64)
    },
    outcomes: || {
        vec![
            (0, "a connection from outside was accepted"),
            (1, "a connection to the outside was made"),
            (2, "a stream received"),
            (3, "a datagram from outside was received"),
            (4, "a connection was reset"),
            (5, "a connection was refused"),
            (6, "a connect timed out"),
            (7, "a table was full"),
            (8, "sockets were lost with a kernel"),
            (9, "a poll found something"),
            (16, "an answer of ARP"),
            (17, "an answer of ICMP"),
            (18, "a segment of TCP"),
            (19, "a datagram to the outside"),
            (20, "a caller was woken"),
            (21, "a timer fired"),
            (22, "the device was opened again"),
        ]
    },
};

/// Bytes of an input that is used.
const LONGEST: usize = 4000;
/// Memory by which tables may have grown in the end, in bytes.
const GROWTH: u64 = 300_000;
/// Most timer events until nothing is left to do.
const TIMERS: u64 = 3_000;

/// What a test plants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// A byte of the bystander changes.
    Changes,
    /// A program that ends leaves a handle.
    Forgets,
    /// The chip sends frames with wrong checksums.
    Spoils,
    /// No caller is woken.
    Sleeps,
}

fn judge(bytes: &[u8], mistake: Mistake) -> u64 {
    let (fake, mut input) = (device(), Bytes::new(bytes, LONGEST));
    let mut board = Board::new(&fake, input.u32().into());
    board.spoils = mistake == Mistake::Spoils;
    board.is_deaf = mistake == Mistake::Sleeps;
    let before = board.used();
    let mut bystander = Bystander::new(&mut board).expect("nothing is in its way");
    let mut programs = Programs::new(bystander.handles.clone());
    let mut strangers = Strangers::default();
    board.strangers_answer = input.once_in(2);
    let cables = [Cable::default(), Cable { loses: 20, forges: 0 }, Cable { loses: 4, forges: 60 }];
    board.cable = cables[input.below(3)];
    while !input.is_empty() {
        match input.below(8) {
            0..4 => programs.act(&mut board, &mut input),
            4..7 => strangers.act(&mut board, &mut input),
            _ => pass(&mut board, &mut input),
        }
        if input.once_in(4) {
            bystander.exchange(&mut board, mistake == Mistake::Changes);
        }
    }
    bystander.exchange(&mut board, mistake == Mistake::Changes);
    programs.none_is_forgotten(&mut board);
    programs.end(&mut board, &mut input, mistake == Mistake::Forgets);
    let had = programs.had | outcomes(&board);
    end(&mut board, &mut bystander, before);
    had
}

/// Lets time pass: a moment, seconds or minutes. Or the device fails meanwhile.
fn pass(board: &mut Board<'_>, input: &mut Bytes<'_>) {
    let time = match input.below(16) {
        0..8 => input.number(16) * 1000,
        8..14 => (1 + input.below(8) as u64) * 1_000_000_000,
        14 => 70_000_000_000,
        _ => {
            board.fake.fail();
            1_000_000
        }
    };
    board.pass(time);
}

fn outcomes(board: &Board<'_>) -> u64 {
    let sent = board.sent.iter().enumerate().map(|(kind, &count)| u64::from(count != 0) << kind);
    sent.sum::<u64>() << 16
        | u64::from(board.woken != 0) << 20
        | u64::from(board.timers != 0) << 21
        | u64::from(board.fake.resets.get() > 1) << 22
}

/// All programs have ended. After a while nothing of theirs is left.
fn end(board: &mut Board<'_>, bystander: &mut Bystander, before: u64) {
    assert!(board.waiting.is_empty(), "a caller waits at a closed socket: {:?}", board.waiting);
    let timers = board.rest();
    assert!(timers < TIMERS, "{timers} timer events after the end");
    let [handles, _, ending, waits] = board.census();
    let own = bystander.handles.len();
    assert_eq!([handles, ending, waits], [own, 0, 0], "handles, ending sockets, waits");
    bystander.exchange(board, false);
    for handle in bystander.handles.drain(..) {
        board.ask(Request::new(Op::Close, handle), &mut []).expect("it is open");
    }
    board.settle();
    assert_eq!(board.census(), [0; 4], "handles, sockets, ending sockets, waits");
    let used = board.used();
    assert!(used < before + GROWTH, "{before} bytes before, {used} bytes in the end");
    for port in PORTS {
        for (open, take) in [(Op::Tcp, Op::Listen), (Op::Udp, Op::Bind)] {
            // Of both families.
            let open = Request { flags: flag::V6, ..Request::new(open, 0) };
            let handle = board.ask(open, &mut []).expect("there is room").handle;
            let request = Request { port, ..Request::new(take, handle) };
            assert_eq!(board.ask(request, &mut []).map(|reply| reply.port), Ok(port));
            board.ask(Request::new(Op::Close, handle), &mut []).expect("it is open");
        }
    }
    thread_local!(static FRESH: OnceCell<usize> = const { OnceCell::new() });
    let buffers = large_connections(board);
    let fresh = FRESH.with(|it| {
        *it.get_or_init(|| {
            let fake = device();
            large_connections(&mut Board::new(&fake, 0))
        })
    });
    assert_eq!(buffers, fresh, "connections that get large buffers, as of a fresh service");
    assert_eq!(board.census(), [0; 4]);
}

/// Returns how many connections get large buffers, which tells how much memory is left for them.
fn large_connections(board: &mut Board<'_>) -> usize {
    let mut handles = Vec::new();
    loop {
        let [near, far] = connection(board).expect("there is room");
        handles.extend([near, far]);
        let size = Request { option: option::SNDBUF, ..Request::new(Op::GetOption, near) };
        let size: Result<u64, Errno> = board.ask(size, &mut []).map(|reply| reply.value);
        if size != Ok(net::budget::LARGEST as u64) {
            break;
        }
    }
    for &handle in &handles {
        board.ask(Request::new(Op::Close, handle), &mut []).expect("it is open");
    }
    handles.len() / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether one of a few inputs finds a mistake.
    fn finds(mistake: Mistake) -> bool {
        (0..20).any(|seed| {
            let input = (TARGET.seed)(seed);
            let one = std::panic::AssertUnwindSafe(|| judge(&input, mistake));
            std::panic::catch_unwind(one).is_err()
        })
    }

    #[test]
    fn each_planted_mistake_is_found() {
        assert!(!finds(Mistake::None));
        assert!(finds(Mistake::Changes), "a changed byte");
        assert!(finds(Mistake::Forgets), "a handle that is left");
        assert!(finds(Mistake::Spoils), "a wrong checksum");
        assert!(finds(Mistake::Sleeps), "a caller that is not woken");
    }
}

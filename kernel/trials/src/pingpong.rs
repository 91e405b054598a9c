//! `ping-pong`: measures round trips between this kernel and its first peer by the three means of
//! the chip: doorbells, polled words, and a lock. There is as little software in a
//! round trip as possible.
//!
//! Each domain writes only the `play` words of its own page: the number of rounds it has played.

use super::first_peer;
use super::{Command, Failure, Outcome, Session, number, record};
use abi::soc::DomainPage;
use arch::domain_lock::DomainLock;
use arch::shared::Window;
use base::addr::PhysAddr;
use base::id::DomainId;
use base::port::Words;
use core::fmt::Write;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_platform::peers::Procedure;
use kernel_sched::Scheduler;
use kernel_services::kernel::Kernel;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "ping-pong",
        arguments: "doorbell|words|lock [ROUNDS]",
        help: "round trips with the first peer, with little software; prints a record",
        run: play,
    },
    Command {
        name: "pong",
        arguments: "doorbell|words|lock ROUNDS",
        help: "the peer's side of `ping-pong`, which requests it",
        run: join_in,
    },
];

/// How often the peer's word is polled before giving up.
const PATIENCE: u64 = 20_000_000;
/// Number of the lock that is used.
const LOCK: usize = 0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Doorbell,
    Words,
    Lock,
}

impl Way {
    const ALL: [(Way, &str); 3] =
        [(Way::Doorbell, "doorbell"), (Way::Words, "words"), (Way::Lock, "lock")];

    fn named(arguments: &[&str]) -> Result<Way, Failure> {
        let found = Way::ALL.iter().find(|(_, name)| arguments.first() == Some(name));
        found.map(|&(way, _)| way).ok_or(Failure::Usage)
    }
}

/// Number of doorbells received.
static HEARD: AtomicU64 = AtomicU64::new(0);
/// Doorbell slot + 1 of the domain to ring back; 0 for none.
static ECHO: AtomicU64 = AtomicU64::new(0);

/// Handles the game's doorbell, with interrupts masked.
pub fn heard(kernel: &Kernel) {
    HEARD.fetch_add(1, Ordering::Relaxed);
    if let Some(slot) = ECHO.load(Ordering::Relaxed).checked_sub(1) {
        arch::doorbell::ring(slot as u32, kernel.blob.vector_dsm);
    }
}

/// The words and the lock of a game.
struct Board {
    own: Window,
    peer: Window,
    lock: DomainLock,
    scheduler: &'static Scheduler,
}

/// Returns word `index` of the `play` words in a domain's page, which are for tests. `None` if it
/// is not in the uncached window.
pub fn word(kernel: &Kernel, domain: DomainId, index: usize) -> Option<Window> {
    let at = size_of::<DomainPage>() * domain.index() + offset_of!(DomainPage, play) + 8 * index;
    Window::uncached(kernel.blob, PhysAddr(kernel.blob.window.domains + at as u64), 8)
}

impl Board {
    fn of(kernel: &'static Kernel) -> Result<Board, Failure> {
        let lock = DomainLock::of(kernel.blob, kernel.me, LOCK);
        let (own, peer) = (word(kernel, kernel.me, 0), word(kernel, first_peer(kernel)?, 0));
        match (own, peer, lock) {
            (Some(own), Some(peer), Some(lock)) => {
                Ok(Board { own, peer, lock, scheduler: &kernel.scheduler })
            }
            _ => Err(Failure::Failed("the board's window is too small")),
        }
    }

    /// Plays the rounds; the leader starts each. Returns false if the peer does not answer.
    fn play(&self, way: Way, rounds: u64, leads: bool) -> bool {
        (1..=rounds).all(|round| {
            // It is this side's turn once the peer has played this round.
            let before = round - u64::from(leads);
            match way {
                Way::Words => {
                    let turn = wait(|| self.peer.load(0) == before);
                    self.own.store(0, round);
                    turn
                }
                Way::Lock => {
                    wait(|| self.scheduler.unpreempted(|| self.locked_turn(before, round)))
                }
                Way::Doorbell => true,
            }
        })
    }

    /// Takes the lock and plays, if it is this side's turn. Returns whether it has played.
    fn locked_turn(&self, before: u64, round: u64) -> bool {
        let _guard = self.lock.acquire();
        let mine = self.peer.load(0) == before;
        if mine {
            self.own.store(0, round);
        }
        mine
    }
}

fn wait(mut ready: impl FnMut() -> bool) -> bool {
    (0..PATIENCE).any(|_| ready())
}

/// Plays rounds by doorbell: rings, and waits in WFI until the peer rings back.
fn ring(kernel: &Kernel, slot: u32, rounds: u64) -> bool {
    for _ in 0..rounds {
        let before = HEARD.load(Ordering::Relaxed);
        arch::doorbell::ring(slot, kernel.blob.vector_dsm);
        let mut waits = 0;
        while HEARD.load(Ordering::Relaxed) == before {
            let on = arch::cpu::irqs_off();
            if HEARD.load(Ordering::Relaxed) == before {
                arch::cpu::wait();
            }
            arch::cpu::irqs_restore(on);
            waits += 1;
            if waits > 1000 {
                return false;
            }
        }
    }
    true
}

fn play(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let way = Way::named(arguments)?;
    let rounds = number(arguments, 1, 1000)?.clamp(1, 1_000_000);
    let (board, peer) = (Board::of(kernel)?, first_peer(kernel)?);
    board.own.store(0, 0);
    let line = alloc::format!("pong {} {rounds}", arguments[0]);
    let mut answer = [0; 64];
    let bytes = session.call(peer, Procedure::Run, line.as_bytes(), &mut answer)?;
    if answer[..bytes] != *b"ready\n" {
        return Err(Failure::Failed("the peer does not join in"));
    }
    let slot = kernel.blob.domains()[peer.index()].slot;
    let start = arch::time::soc_time();
    let good = match way {
        Way::Doorbell => ring(kernel, slot, rounds),
        Way::Words | Way::Lock => board.play(way, rounds, true),
    };
    let took = arch::time::soc_time() - start;
    if !good {
        return Err(Failure::Failed("the peer stopped answering"));
    }
    write!(out, "record ping-pong.{} ", arguments[0])?;
    record(out, took, rounds)
}

/// Number of rounds of the thread that `pong` starts.
static GAME: AtomicU64 = AtomicU64::new(0);

fn join_in(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let way = Way::named(arguments)?;
    let rounds = number(arguments, 1, 0)?;
    Board::of(kernel)?.own.store(0, 0);
    let slot = kernel.blob.domains()[first_peer(kernel)?.index()].slot;
    let echo = if way == Way::Doorbell { u64::from(slot) + 1 } else { 0 };
    ECHO.store(echo, Ordering::Relaxed);
    GAME.store(rounds, Ordering::Relaxed);
    let entry = match way {
        Way::Doorbell => return Ok(writeln!(out, "ready")?),
        Way::Words => follow_words,
        Way::Lock => follow_lock,
    };
    let no_memory = |_| Failure::Failed("no memory for a thread");
    kernel.spawn("pong", None, entry, 0).map_err(no_memory)?;
    Ok(writeln!(out, "ready")?)
}

fn follow_words(_: usize) {
    follow(Way::Words);
}

fn follow_lock(_: usize) {
    follow(Way::Lock);
}

fn follow(way: Way) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    if let Ok(board) = Board::of(kernel) {
        // A peer that stops answering ends the game.
        board.play(way, GAME.load(Ordering::Relaxed), false);
    }
}

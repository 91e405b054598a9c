//! Memory that two kernels cache and hand to each other by the rules of software coherence. If the
//! image has a seeded bug (`arch::seeded`), one of the rules is broken, and the coherence sanitizer
//! must report it. Without one it must report nothing.
//!
//! ```text
//! wait for the other's word -> invalidate -> read, write -> clean -> own word
//! ```

use super::first_peer;
use super::{Command, Failure, Outcome, Session, number, pingpong};
use abi::boot::kind;
use arch::cache;
use arch::lock::Once;
use arch::seeded::page::{SharedPage, run_code};
use arch::seeded::{Seed, is};
use arch::shared::Window;
use base::addr::{PAGE, PhysAddr};
use base::port::Words;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_node::memory::{FRAMES, TABLE};
use kernel_platform::peers::Procedure;
use kernel_services::kernel::Kernel;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "handover",
        arguments: "code|ROUNDS",
        help: "pass cached memory back and forth between two kernels; run code that was written",
        run: handover,
    },
    Command {
        name: "follow",
        arguments: "ROUNDS",
        help: "the peer's side of `handover`, which requests it",
        run: follow,
    },
];

/// Number of cache lines that are handed over.
const LINES: usize = 4;
const WORDS: usize = cache::LINE / 8;
const BYTES: usize = LINES * cache::LINE;
/// How often the peer's word is polled before giving up.
const PATIENCE: u64 = 200_000;

static GROUND: Once<SharedPage> = Once::new();
static ROUNDS: AtomicU64 = AtomicU64::new(0);

const NO_MEMORY: Failure = Failure::Failed("the page cannot be mapped");

/// Returns page `index` of the global region, which no kernel uses in these tests.
fn page(kernel: &Kernel, index: u64) -> Result<PhysAddr, Failure> {
    let global = kernel.blob.regions().iter().find(|region| region.kind == kind::GLOBAL);
    let global = global.ok_or(Failure::Failed("this board has no global memory"))?;
    Ok(PhysAddr(global.base + index * PAGE))
}

/// Returns the page that is handed over. The first call maps it.
fn ground(kernel: &Kernel) -> Result<&'static SharedPage, Failure> {
    if let Some(ground) = GROUND.get() {
        return Ok(ground);
    }
    let table = TABLE.get().ok_or(NO_MEMORY)?;
    let mapped = SharedPage::map(&mut table.lock(), &FRAMES, page(kernel, 0)?);
    GROUND.set(mapped.map_err(|_| NO_MEMORY)?).map_err(|_| NO_MEMORY)
}

/// One kernel's side of the game.
struct Side {
    ground: &'static SharedPage,
    own: Window,
    peer: Window,
}

impl Side {
    fn of(kernel: &Kernel) -> Result<Side, Failure> {
        let word = |domain| pingpong::word(kernel, domain, 1).ok_or(NO_MEMORY);
        let (own, peer) = (word(kernel.me)?, word(first_peer(kernel)?)?);
        Ok(Side { ground: ground(kernel)?, own, peer })
    }

    fn word(&self, line: usize, word: usize) -> &'static AtomicU64 {
        &self.ground.words()[line * WORDS + word]
    }

    fn take(&self) {
        cache::invalidate(self.ground.start(), BYTES);
    }

    fn give(&self) {
        cache::clean(self.ground.start(), BYTES);
    }

    fn read(&self) -> u64 {
        (0..LINES).map(|line| self.word(line, 0).load(Ordering::Relaxed)).sum()
    }

    fn write(&self, value: u64) {
        (0..LINES).for_each(|line| self.word(line, 0).store(value, Ordering::Relaxed));
    }

    /// Waits until the peer has played round `before`. Returns false if it does not answer.
    fn wait(&self, before: u64) -> bool {
        (0..PATIENCE).any(|_| self.peer.consume(0) == before)
    }

    fn round(&self, before: u64, round: u64) -> bool {
        if is(Seed::EarlyWrite) {
            self.write(round);
        }
        if !self.wait(before) {
            return false;
        }
        let blind = is(Seed::BlindWrite);
        if !blind && !is(Seed::EarlyInvalidate) {
            self.take();
        }
        let sum = if blind { round } else { self.read() };
        if is(Seed::EarlyClean) {
            self.give();
        }
        self.write(sum + 1);
        self.count();
        if !is(Seed::EarlyClean) {
            self.give();
        }
        if is(Seed::EarlyInvalidate) {
            self.take();
            // Reads the lines, as a prefetcher might.
            core::hint::black_box(self.read());
        }
        self.own.publish(0, round);
        if is(Seed::FalseSharing) {
            self.word(LINES - 1, WORDS - 1).store(round, Ordering::Relaxed);
        }
        true
    }

    /// Uses atomic instructions, which do not work between domains, if the seeded bug is that.
    fn count(&self) {
        let word = self.word(0, 1);
        if is(Seed::Atomic) {
            word.fetch_add(1, Ordering::Relaxed);
        }
        if is(Seed::Exclusive) {
            let seen = word.load(Ordering::Relaxed);
            // The result does not matter here.
            let _ = word.compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn play(&self, rounds: u64, leads: bool) -> bool {
        (1..=rounds).all(|round| self.round(round - u64::from(leads), round))
    }
}

fn handover(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    if arguments == ["code"] {
        let table = TABLE.get().ok_or(NO_MEMORY)?;
        let done = run_code(&mut table.lock(), &FRAMES, page(kernel, 1 + u64::from(kernel.me.0))?);
        done.map_err(|_| NO_MEMORY)?;
        return Ok(writeln!(out, "written code was run")?);
    }
    let rounds = number(arguments, 0, 3)?;
    let side = Side::of(kernel)?;
    side.own.store(0, 0);
    let mut answer = [0; 64];
    let line = alloc::format!("follow {rounds}");
    session.call(first_peer(kernel)?, Procedure::Run, line.as_bytes(), &mut answer)?;
    if !side.play(rounds, true) {
        return Err(Failure::Failed("the peer stopped answering"));
    }
    Ok(writeln!(out, "handed over {rounds} times")?)
}

fn follow(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let side = Side::of(session.kernel)?;
    side.own.store(0, 0);
    ROUNDS.store(number(arguments, 0, 3)?, Ordering::Relaxed);
    let spawned = session.kernel.spawn("follow", None, follow_thread, 0);
    spawned.map_err(|_| Failure::Failed("no memory for a thread"))?;
    Ok(writeln!(out, "ready")?)
}

fn follow_thread(_: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    if let Ok(side) = Side::of(kernel) {
        // A peer that stops answering ends the game.
        side.play(ROUNDS.load(Ordering::Relaxed), false);
    }
}

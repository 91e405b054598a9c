//! Measures the cost of pages that another kernel holds: `bench dsm`, a fault and its parts;
//! `bench op`, a request to the file service that must fetch its pages. `dirty` and `occupy` are
//! the other kernel's part.

use super::first_peer;
use super::measure::record;
use super::{Command, Failure, Outcome, Session, number};
use alloc::vec::Vec;
use base::prng::Prng;
use core::cell::Cell;
use core::fmt::Write;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use kernel_node::arenas;
use kernel_platform::coherence::{Coherence, Trip};
use kernel_platform::peers::Procedure;
use kernel_services::files::with_client;
use kernel_services::kernel::Kernel;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "dirty",
        arguments: "",
        help: "write all of the page of the shared block that is for measurements",
        run: dirty,
    },
    Command {
        name: "occupy",
        arguments: "program|interrupt MS",
        help: "keep this core busy: in a thread, or also with interrupts masked now and then",
        run: occupy,
    },
];

/// How long `occupy interrupt` masks interrupts, and how long it leaves them unmasked.
const MASKED_NS: u64 = 10_000;
const UNMASKED_NS: u64 = 10_000;

/// Minimum pause between two faults. The maximum is twice as long.
const PAUSE_NS: u64 = 200_000;

fn shared(kernel: &'static Kernel) -> Result<&'static Coherence, Failure> {
    let none = "no memory is shared on this board: see [services] in its file";
    kernel.coherence.as_ref().ok_or(Failure::Failed(none))
}

/// Runs `work` on the spare page. If the page is lost, mends it and returns an error.
fn spare(kernel: &'static Kernel, work: impl Fn(&[AtomicU64])) -> Outcome {
    let coherence = shared(kernel)?;
    let words = arenas::spare(coherence.base(), base::addr::PAGE);
    let attempt = || kernel.scheduler.unpreempted(|| arch::rescue::attempt(|| work(words)));
    if !attempt() {
        coherence.mend(words.as_ptr() as usize, size_of_val(words));
        return Err(Failure::Failed("the page was lost with a kernel; it is mended, try again"));
    }
    Ok(())
}

fn dirty(session: &Session, _: &mut dyn Write, _: &[&str]) -> Outcome {
    let write = |words: &[AtomicU64]| words.iter().for_each(|word| word.store(1, Relaxed));
    spare(session.kernel, write)?;
    let _ = shared(session.kernel)?.released();
    Ok(())
}

fn occupy(_: &Session, _: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let masks = match arguments.first() {
        Some(&"program") => false,
        Some(&"interrupt") => true,
        _ => return Err(Failure::Usage),
    };
    let until = |ns| {
        let end = arch::time::soc_time() + ns;
        while arch::time::soc_time() < end {
            core::hint::spin_loop();
        }
    };
    let end = arch::time::soc_time() + number(arguments, 1, 100)?.min(60_000) * 1_000_000;
    while arch::time::soc_time() < end {
        if masks {
            let on = arch::cpu::irqs_off();
            until(MASKED_NS);
            arch::cpu::irqs_restore(on);
        }
        until(UNMASKED_NS);
    }
    Ok(())
}

/// Times of one fault, in ns.
#[derive(Clone, Copy)]
struct Parts {
    /// From the instruction to the fault handler.
    local: u64,
    /// From there until the request is sent.
    protocol: u64,
    /// From there until the page has arrived.
    away: u64,
    /// From there back to the instruction.
    exit: u64,
}

impl Parts {
    fn total(&self) -> u64 {
        self.local + self.protocol + self.away + self.exit
    }
}

fn ns(from: u64, to: u64) -> u64 {
    arch::time::to_ns(to.wrapping_sub(from), arch::cpu::clock_hz())
}

/// Makes one store to a page that the other kernel has just written completely.
fn fault(session: &Session, coherence: &Coherence, prng: &mut Prng) -> Result<Parts, Failure> {
    let peer = first_peer(session.kernel)?;
    session.call(peer, Procedure::Run, b"dirty", &mut [0; 64])?;
    // By then the other kernel has sent its reply, and is at a random point of what it does next.
    let pause = PAUSE_NS + prng.below(PAUSE_NS);
    session.kernel.scheduler.sleep_until(arch::time::soc_time() + pause);
    let (before, after) = (Cell::new(0), Cell::new(0));
    spare(session.kernel, |words| {
        before.set(arch::cpu::clock());
        words[0].store(2, Relaxed);
        after.set(arch::cpu::clock());
    })?;
    let _ = coherence.released();
    let (before, after) = (before.get(), after.get());
    let Trip { entered, asked, done } = coherence.trip();
    if before.wrapping_sub(entered) as i64 > 0 {
        return Err(Failure::Failed("no fault: the page was here"));
    }
    Ok(Parts {
        local: ns(before, entered),
        protocol: ns(entered, asked),
        away: ns(asked, done),
        exit: ns(done, after),
    })
}

/// Returns how many pages the other kernel has given up in doorbell interrupts so far, and the ns
/// that it took.
fn served(session: &Session) -> Result<(u64, u64), Failure> {
    let mut answer = [0; 64];
    let bytes =
        session.call(first_peer(session.kernel)?, Procedure::Run, b"bench served", &mut answer)?;
    let text = core::str::from_utf8(&answer[..bytes]).unwrap_or("");
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    let missing = Failure::Failed("the other kernel does not say what it served");
    numbers.next().zip(numbers.next()).ok_or(missing)
}

/// `bench served`: the peer's part of [`served`].
pub fn say_served(kernel: &'static Kernel, out: &mut dyn Write) -> Outcome {
    let (count, ns) = shared(kernel)?.served();
    Ok(writeln!(out, "{count} {ns}")?)
}

/// `bench dsm`: the median fault with its parts, and the slowest fault.
pub fn bench(session: &Session, out: &mut dyn Write, rounds: u64) -> Outcome {
    let coherence = shared(session.kernel)?;
    let (mut all, mut prng, rounds) = (Vec::new(), Prng::new(rounds), rounds.clamp(1, 1000));
    all.try_reserve(rounds as usize).map_err(|_| Failure::Failed("no memory"))?;
    fault(session, coherence, &mut prng)?;
    let before = served(session)?;
    for _ in 0..rounds {
        all.push(fault(session, coherence, &mut prng)?);
    }
    let after = served(session)?;
    let count = (after.0 - before.0).max(1);
    let serving = (after.1 - before.1) / count;
    all.sort_unstable_by_key(Parts::total);
    let middle = all[all.len() / 2];
    let worst = all[all.len() - 1].total();
    record(out, "dsm.total", middle.total(), 1)?;
    record(out, "dsm.worst", worst, 1)?;
    record(out, "dsm.local", middle.local, 1)?;
    record(out, "dsm.protocol", middle.protocol, 1)?;
    record(out, "dsm.communication", middle.away.saturating_sub(serving), 1)?;
    record(out, "dsm.servicing", serving, 1)?;
    record(out, "dsm.exit", middle.exit, 1)
}

/// `bench op`: the median time of a request to the file service whose pages this kernel holds, and
/// of one whose pages the other kernel has just used.
pub fn bench_op(session: &Session, out: &mut dyn Write, rounds: u64) -> Outcome {
    let peer = first_peer(session.kernel)?;
    let rounds = rounds.clamp(1, 1000) as usize;
    let root = with_client(session, |client| client.root())?;
    let (mut local, mut moved) = (Vec::new(), Vec::new());
    for times in [&mut local, &mut moved] {
        times.try_reserve(rounds).map_err(|_| Failure::Failed("no memory"))?;
    }
    for _ in 0..rounds {
        session.call(peer, Procedure::Run, b"fs stat .", &mut [0; 256])?;
        moved.push(stat(session, root)?);
        local.push(stat(session, root)?);
    }
    with_client(session, |client| client.close(root))?;
    record(out, "shadow.op_local", middle(&mut local), 1)?;
    record(out, "shadow.op_moved", middle(&mut moved), 1)
}

fn middle(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

fn stat(session: &Session, root: u64) -> Result<u64, Failure> {
    let before = arch::time::soc_time();
    with_client(session, |client| client.stat_path(root, b".", 0))?;
    Ok(arch::time::soc_time() - before)
}

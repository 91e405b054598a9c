//! Commands that load this kernel and the others, and check every answer.

use super::{Command, Failure, Outcome, number};
use crate::kernel::Kernel;
use crate::peers::{Ask, CallFailure};
use base::id::{CoreId, DomainId};
use base::prng::Prng;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "rpc",
        arguments: "[COUNT [SEED]]",
        help: "a storm of calls from all cores to all peers, answers checked",
        run: rpc,
    },
    Command {
        name: "both",
        arguments: "[COUNT]",
        help: "storms of this kernel and of its first peer at the same time",
        run: both,
    },
    Command {
        name: "smp",
        arguments: "[ROUNDS]",
        help: "threads on all cores: locks, wake-ups, sleep, shootdowns",
        run: smp,
    },
    Command {
        name: "nap",
        arguments: "[MILLISECONDS]",
        help: "sleep on this core's timer, and say how late it woke",
        run: nap,
    },
];

/// How a storm went.
struct Tally {
    answered: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
    wrong: AtomicU64,
}

static TALLY: Tally = Tally {
    answered: AtomicU64::new(0),
    lost: AtomicU64::new(0),
    refused: AtomicU64::new(0),
    wrong: AtomicU64::new(0),
};
static CALLS: AtomicU64 = AtomicU64::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);
/// One storm at a time.
static BUSY: AtomicU64 = AtomicU64::new(0);

fn rpc(kernel: &'static Kernel, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let count = number(arguments, 0, 1000)?;
    let seed = number(arguments, 1, arch::time::soc_time())?;
    if kernel.blob.domains().len() < 2 {
        return Err(Failure::Failed("this board has no other kernel"));
    }
    if BUSY.swap(1, Ordering::AcqRel) != 0 {
        return Err(Failure::Failed("a storm is under way"));
    }
    for counter in [&TALLY.answered, &TALLY.lost, &TALLY.refused, &TALLY.wrong] {
        counter.store(0, Ordering::Relaxed);
    }
    CALLS.store(count, Ordering::Relaxed);
    SEED.store(seed, Ordering::Relaxed);
    let done = on_all_cores(kernel, "storm", storm);
    BUSY.store(0, Ordering::Release);
    done?;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let wrong = read(&TALLY.wrong);
    writeln!(
        out,
        "  storm {seed}: {} answered, {} lost with their peer, {} refused, {wrong} wrong",
        read(&TALLY.answered),
        read(&TALLY.lost),
        read(&TALLY.refused),
    )?;
    if wrong == 0 { Ok(()) } else { Err(Failure::Failed("wrong answers")) }
}

fn both(kernel: &'static Kernel, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let count = number(arguments, 0, 500)?;
    THEIRS.store(0, Ordering::Relaxed);
    CALLS.store(count, Ordering::Relaxed);
    let no_memory = |_| Failure::Failed("no memory for a thread");
    let peer = kernel.spawn("far storm", None, far_storm, count as usize).map_err(no_memory)?;
    let mut text = crate::panic::Text::<16>::new();
    write!(text, "{count}")?;
    let ours = rpc(kernel, out, &[core::str::from_utf8(text.as_bytes()).unwrap_or("")]);
    kernel.scheduler.join(peer);
    ours?;
    if THEIRS.load(Ordering::Relaxed) == 0 {
        return Err(Failure::Failed("the peer's storm failed; `on PEER rpc` says how"));
    }
    writeln!(out, "  0 wrong from either side")?;
    Ok(())
}

/// 1 when the peer's storm ended well.
static THEIRS: AtomicU64 = AtomicU64::new(0);

fn far_storm(count: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    let peer = DomainId(u8::from(kernel.me.0 == 0));
    let mut line = crate::panic::Text::<32>::new();
    let mut answer = alloc::vec![0; abi::msg::MAX_PAYLOAD];
    if write!(line, "rpc {count}").is_err() {
        return;
    }
    let bytes = kernel.peers.call(peer, Ask::Run, line.as_bytes(), &mut answer);
    let text = bytes.ok().and_then(|bytes| core::str::from_utf8(&answer[..bytes]).ok());
    if text.is_some_and(|text| text.contains(" 0 lost with their peer, 0 refused, 0 wrong")) {
        THEIRS.store(1, Ordering::Relaxed);
    }
}

/// Two threads on each core, and waits for them.
pub fn on_all_cores(kernel: &'static Kernel, name: &'static str, entry: fn(usize)) -> Outcome {
    let cores = kernel.domain().cores as usize;
    let mut threads = [None; 2 * abi::boot::MAX_CORES];
    for (index, thread) in threads[..2 * cores].iter_mut().enumerate() {
        let core = Some(CoreId((index / 2) as u8));
        *thread = kernel.spawn(name, core, entry, index).ok();
    }
    let started = threads[..2 * cores].iter().all(Option::is_some);
    for thread in threads.into_iter().flatten() {
        kernel.scheduler.join(thread);
    }
    if started { Ok(()) } else { Err(Failure::Failed("no memory for all of its threads")) }
}

/// One thread's part of a storm.
fn storm(index: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    let mut prng = Prng::new(SEED.load(Ordering::Relaxed) ^ (index as u64) << 32);
    let domains = kernel.blob.domains().len() as u64;
    let mut buffers = Buffers::new();
    for _ in 0..CALLS.load(Ordering::Relaxed) {
        let peer = DomainId(prng.below(domains) as u8);
        if peer != kernel.me {
            one_call(kernel, peer, &mut prng, &mut buffers);
        }
    }
}

struct Buffers {
    out: alloc::vec::Vec<u8>,
    back: alloc::vec::Vec<u8>,
}

impl Buffers {
    fn new() -> Self {
        let empty = alloc::vec![0; abi::msg::MAX_PAYLOAD];
        Buffers { out: empty.clone(), back: empty }
    }
}

fn one_call(kernel: &'static Kernel, peer: DomainId, prng: &mut Prng, buffers: &mut Buffers) {
    let ask = [Ask::Echo, Ask::SlowEcho, Ask::Nest][prng.below(3) as usize];
    let sizes = [8, 64, prng.below(4097)];
    let size = if ask == Ask::Nest { 16 } else { sizes[prng.below(3) as usize] as usize };
    buffers.out[..size].iter_mut().for_each(|byte| *byte = prng.next() as u8);
    if ask == Ask::Nest {
        // How often the answer is asked for on the way, within the levels there are.
        buffers.out[..8].copy_from_slice(&prng.below(3).to_le_bytes());
    }
    let counter = match kernel.peers.call(peer, ask, &buffers.out[..size], &mut buffers.back) {
        Ok(bytes) if buffers.back[..bytes] == buffers.out[..size] => &TALLY.answered,
        Ok(_) => &TALLY.wrong,
        Err(CallFailure::PeerLost) => &TALLY.lost,
        Err(_) => &TALLY.refused,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

static ROUNDS: AtomicU64 = AtomicU64::new(0);
static SHARED: arch::lock::Lock<u64> = arch::lock::Lock::new(crate::ranks::TEST, 0);

fn smp(kernel: &'static Kernel, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let rounds = number(arguments, 0, 200)?.min(100_000);
    ROUNDS.store(rounds, Ordering::Relaxed);
    *SHARED.lock() = 0;
    on_all_cores(kernel, "smp", worker)?;
    let (sum, wanted) = (*SHARED.lock(), rounds * 2 * u64::from(kernel.domain().cores));
    writeln!(out, "  {sum} turns on {} cores", kernel.domain().cores)?;
    if sum == wanted { Ok(()) } else { Err(Failure::Failed("turns were lost")) }
}

/// Adds under a lock, yields, sleeps, and makes and frees memory that needs shootdowns.
fn worker(index: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    for round in 0..ROUNDS.load(Ordering::Relaxed) {
        *SHARED.lock() += 1;
        match (round + index as u64) % 16 {
            0 => kernel.scheduler.sleep_until(arch::time::soc_time() + 100_000),
            1 => drop(kernel.spawn("short", None, |_| (), 0).map(|t| kernel.scheduler.join(t))),
            2 => drop(alloc::vec![round; 64]),
            _ => kernel.scheduler.yield_now(),
        }
    }
}

fn nap(kernel: &'static Kernel, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let length = number(arguments, 0, 50)?.min(60_000) * 1_000_000;
    let due = arch::time::soc_time() + length;
    kernel.scheduler.sleep_until(due);
    let now = arch::time::soc_time();
    if now < due {
        return Err(Failure::Failed("woke too early"));
    }
    writeln!(out, "  slept {} ms, woke {} us late", length / 1_000_000, (now - due) / 1000)?;
    Ok(())
}

//! Commands that load this kernel and its peers, and check all answers.

use super::first_peer;
use super::{Command, Failure, Outcome, Session, number};
use abi::msg::LEVELS;
use base::id::{CoreId, DomainId};
use base::prng::Prng;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use kernel_msg::Level;
use kernel_node::shootdown;
use kernel_platform::peers::{CallFailure, Procedure};
use kernel_sched::WaitQueue;
use kernel_services::kernel::Kernel;

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
        help: "threads on all cores: locks, wake-ups, sleep, unmapping of stacks",
        run: smp,
    },
    Command {
        name: "nap",
        arguments: "[MILLISECONDS]",
        help: "sleep, and say how late it woke",
        run: nap,
    },
];

/// The results of a storm of calls.
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
/// Level of the calls: that of the session that waits for the threads.
static LEVEL: AtomicU8 = AtomicU8::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);
/// One storm at a time.
static BUSY: AtomicU64 = AtomicU64::new(0);

fn rpc(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
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
    LEVEL.store(session.level.0, Ordering::Relaxed);
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

fn both(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let count = number(arguments, 0, 500)?;
    THEIRS.store(0, Ordering::Relaxed);
    CALLS.store(count, Ordering::Relaxed);
    LEVEL.store(session.level.0, Ordering::Relaxed);
    let no_memory = |_| Failure::Failed("no memory for a thread");
    let peer = kernel.spawn("far storm", None, far_storm, count as usize).map_err(no_memory)?;
    let mut text = kernel_node::print::Text::<16>::new();
    write!(text, "{count}")?;
    let ours = rpc(session, out, &[core::str::from_utf8(text.as_bytes()).unwrap_or("")]);
    kernel.scheduler.join(peer);
    ours?;
    if THEIRS.load(Ordering::Relaxed) == 0 {
        return Err(Failure::Failed("the peer's storm failed; `on PEER rpc` says how"));
    }
    writeln!(out, "  0 wrong from either side")?;
    Ok(())
}

/// 1 if the peer's storm succeeded.
static THEIRS: AtomicU64 = AtomicU64::new(0);

fn far_storm(count: usize) {
    let Some(session) = of_the_storm() else { return };
    let Ok(peer) = first_peer(session.kernel) else { return };
    let mut line = kernel_node::print::Text::<32>::new();
    let Ok(mut answer) = super::buffer(abi::msg::MAX_PAYLOAD) else { return };
    if write!(line, "rpc {count}").is_err() {
        return;
    }
    let bytes = session.call(peer, Procedure::Run, line.as_bytes(), &mut answer);
    let text = bytes.ok().and_then(|bytes| core::str::from_utf8(&answer[..bytes]).ok());
    if text.is_some_and(|text| text.contains(" 0 lost with their peer, 0 refused, 0 wrong")) {
        THEIRS.store(1, Ordering::Relaxed);
    }
}

/// Most threads of [`on_all_cores`].
const WORKERS: usize = 2 * abi::boot::MAX_CORES;

/// Spawns two threads on each core, and waits for them.
pub fn on_all_cores(kernel: &'static Kernel, name: &'static str, entry: fn(usize)) -> Outcome {
    let cores = kernel.domain().cores as usize;
    let mut threads = [None; WORKERS];
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

/// Creates the session of a thread of the current storm.
fn of_the_storm() -> Option<Session> {
    let level = Level(LEVEL.load(Ordering::Relaxed));
    Some(Session::at(kernel_services::kernel::get()?, level))
}

/// A thread of a storm. It ends early if a peer is silent, because each such call takes long.
fn storm(index: usize) {
    let Some(session) = of_the_storm() else { return };
    let mut prng = Prng::new(SEED.load(Ordering::Relaxed) ^ (index as u64) << 32);
    let domains = session.kernel.blob.domains().len() as u64;
    let Ok(mut buffers) = Buffers::new() else {
        TALLY.refused.fetch_add(1, Ordering::Relaxed);
        return;
    };
    for _ in 0..CALLS.load(Ordering::Relaxed) {
        let peer = DomainId(prng.below(domains) as u8);
        if peer != session.kernel.me && !one_call(&session, peer, &mut prng, &mut buffers) {
            return;
        }
    }
}

struct Buffers {
    out: alloc::vec::Vec<u8>,
    back: alloc::vec::Vec<u8>,
}

impl Buffers {
    fn new() -> Result<Self, Failure> {
        let empty = || super::buffer(abi::msg::MAX_PAYLOAD);
        Ok(Buffers { out: empty()?, back: empty()? })
    }
}

/// Makes a random call and counts its result. Returns false if the peer was silent.
fn one_call(session: &Session, peer: DomainId, prng: &mut Prng, buffers: &mut Buffers) -> bool {
    let ask = [Procedure::Echo, Procedure::SlowEcho, Procedure::Nest][prng.below(3) as usize];
    let sizes = [8, 64, prng.below(4097)];
    let size = if ask == Procedure::Nest { 16 } else { sizes[prng.below(3) as usize] as usize };
    buffers.out[..size].iter_mut().for_each(|byte| *byte = prng.next() as u8);
    if ask == Procedure::Nest {
        // The depth of nested calls, within the existing levels.
        let deeper = (LEVELS as u64).saturating_sub(session.level.0.into()).clamp(1, 3);
        buffers.out[..8].copy_from_slice(&prng.below(deeper).to_le_bytes());
    }
    let called = session.call(peer, ask, &buffers.out[..size], &mut buffers.back);
    let counter = match called {
        Ok(bytes) if buffers.back[..bytes] == buffers.out[..size] => &TALLY.answered,
        Ok(_) => &TALLY.wrong,
        Err(CallFailure::PeerLost | CallFailure::Silent) => &TALLY.lost,
        Err(_) => &TALLY.refused,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    called != Err(CallFailure::Silent)
}

static ROUNDS: AtomicU64 = AtomicU64::new(0);
static SHARED: arch::lock::Lock<u64> = arch::lock::Lock::new(kernel_node::ranks::TEST, 0);

fn smp(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let rounds = number(arguments, 0, 200)?.min(100_000);
    ROUNDS.store(rounds, Ordering::Relaxed);
    *SHARED.lock() = 0;
    let before = shootdown::count();
    on_all_cores(kernel, "smp", worker)?;
    let unmapped = shootdown::count() - before;
    let (sum, wanted) = (*SHARED.lock(), rounds * 2 * u64::from(kernel.domain().cores));
    let cores = kernel.domain().cores;
    writeln!(out, "  {sum} turns on {cores} cores, {unmapped} stacks unmapped on all")?;
    if sum == wanted { Ok(()) } else { Err(Failure::Failed("turns were lost")) }
}

/// Adds to a number under a lock, yields, sleeps and spawns threads; first so many threads that
/// stacks are unmapped.
fn worker(index: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    burst(kernel, index);
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

/// For each worker, whether its burst threads may end.
static GO: [AtomicBool; WORKERS] = [const { AtomicBool::new(false) }; WORKERS];
static BURST: WaitQueue = WaitQueue::new();

/// Spawns more threads at once than unused stacks are kept: the rest of the stacks is unmapped when
/// the threads have ended, which needs TLB shootdowns.
fn burst(kernel: &'static Kernel, index: usize) {
    let held = |index: usize| {
        if let Some(kernel) = kernel_services::kernel::get() {
            kernel.scheduler.wait(&BURST, || GO[index].load(Ordering::Acquire));
        }
    };
    GO[index].store(false, Ordering::Release);
    let threads: [_; 24] = core::array::from_fn(|_| kernel.spawn("burst", None, held, index));
    GO[index].store(true, Ordering::Release);
    BURST.wake_all(&kernel.scheduler);
    threads.into_iter().flatten().for_each(|thread| kernel.scheduler.join(thread));
}

/// An hour.
const LONGEST_NAP_MS: u64 = 3_600_000;

fn nap(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let length = number(arguments, 0, 50)?.min(LONGEST_NAP_MS);
    let due = arch::time::soc_time() + length * 1_000_000;
    session.kernel.scheduler.sleep_until(due);
    let late = arch::time::soc_time().checked_sub(due).ok_or(Failure::Failed("woke too early"))?;
    writeln!(out, "  slept {length} ms, woke {} us late", late / 1000)?;
    Ok(())
}

//! `bench`: benchmarks, which print records, one on each line: `record NAME VALUE UNIT`.
//!
//! Unless noted otherwise, times are ns of the local clock, without the time that this core has
//! waited for others. Under the emulator's instruction clock (`./pen bench`), a ns is an
//! instruction.

use super::first_peer;
use super::measure::{Watch, record};
use super::{Command, Failure, Outcome, Session, blocks, number, steps};
use base::id::CoreId;
use base::port::Frames;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_node::memory::FRAMES;
use kernel_platform::peers::Procedure;
use kernel_services::kernel::Kernel;

pub const COMMANDS: &[Command] = &[Command {
    name: "bench",
    arguments: "threads|frames|balloon|balloon-soc|dma|dma-both|dsm|frames-both|hang|served|\
                op|twins|rpc|rpc-soc|steps-begin|steps|handover [ROUNDS]",
    help: "measure, and print records",
    run: bench,
}];

fn bench(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let rounds = number(arguments, 1, 1000)?.clamp(1, 1_000_000);
    // The watch measures the work of one core.
    kernel.scheduler.pinned(|| match arguments.first() {
        Some(&"threads") => threads(kernel, out, rounds),
        Some(&"frames") => frames(out, rounds),
        Some(&"balloon") => blocks::bench(kernel, out, rounds, &blocks::WORK),
        Some(&"balloon-soc") => blocks::bench(kernel, out, rounds, &blocks::CHIP),
        Some(&"dma") => super::table6::alone(session, out),
        Some(&"frames-both") => super::section93::bench(session, out),
        Some(&"dma-both") => super::table6::both(session, out),
        Some(&"steps-begin") => steps::both(session, out, steps::begin, "bench steps-begin-here"),
        Some(&"steps-begin-here") => steps::begin(session, out),
        Some(&"steps") => steps::both(session, out, steps::say, "bench steps-here"),
        Some(&"handover") => steps::both(session, out, steps::say_handover, "bench handover-here"),
        Some(&"handover-here") => steps::say_handover(session, out),
        Some(&"steps-here") => steps::say(session, out),
        Some(&"hang") => super::hang::bench(session, out),
        Some(&"dsm") => super::faults::bench(session, out, rounds),
        Some(&"op") => super::faults::bench_op(session, out, rounds),
        Some(&"twins") => super::twins::bench(session, out, rounds),
        Some(&"served") => super::faults::say_served(kernel, out),
        Some(&"rpc") => rpc(session, out, rounds, &WORK),
        Some(&"rpc-soc") => rpc(session, out, rounds, &CHIP),
        _ => Err(Failure::Usage),
    })
}

static ROUNDS: AtomicU64 = AtomicU64::new(0);

fn yielder(_: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    for _ in 0..ROUNDS.load(Ordering::Relaxed) {
        kernel.scheduler.yield_now();
    }
}

fn threads(kernel: &'static Kernel, out: &mut dyn Write, rounds: u64) -> Outcome {
    let no_memory = |_| Failure::Failed("no memory for a thread");
    let here = Some(CoreId(arch::cpu::core().0));
    ROUNDS.store(rounds, Ordering::Relaxed);
    let first = kernel.spawn("yield", here, yielder, 0).map_err(no_memory)?;
    let second = kernel.spawn("yield", here, yielder, 0).map_err(no_memory)?;
    let watch = Watch::start();
    kernel.scheduler.join(first);
    kernel.scheduler.join(second);
    record(out, "thread.switch", watch.ns(), 2 * rounds)?;
    let watch = Watch::start();
    for _ in 0..rounds {
        let thread = kernel.spawn("short", here, |_| (), 0).map_err(no_memory)?;
        kernel.scheduler.join(thread);
    }
    record(out, "thread.create_join", watch.ns(), rounds)
}

fn frames(out: &mut dyn Write, rounds: u64) -> Outcome {
    for (name, order) in [("4k", 0), ("256k", 6), ("1m", 8)] {
        let watch = Watch::start();
        for _ in 0..rounds {
            let block = FRAMES.allocate(order).ok_or(Failure::Failed("no memory"))?;
            FRAMES.free(block, order);
        }
        let took = watch.ns();
        write!(out, "record frame.alloc_{name} ")?;
        super::record(out, took, rounds)?;
    }
    Ok(())
}

/// How to measure calls: the names of records, and a clock in ns.
struct Measure {
    names: [&'static str; 3],
    clock: fn() -> u64,
}

/// The work of the caller's core, without its waits.
const WORK: Measure = Measure {
    names: ["rpc.roundtrip_int", "rpc.roundtrip_64", "rpc.roundtrip_4k"],
    clock: Watch::worked_ns,
};

/// Chip time from call to reply, which is meaningful in the lab.
const CHIP: Measure = Measure {
    names: ["rpc.soc_ns_int", "rpc.soc_ns_64", "rpc.soc_ns_4k"],
    clock: arch::time::soc_time,
};

fn rpc(session: &Session, out: &mut dyn Write, rounds: u64, by: &Measure) -> Outcome {
    let kernel = session.kernel;
    let peer = first_peer(kernel)?;
    let (payload, mut answer) = (super::buffer(4096)?, super::buffer(4096)?);
    for (name, bytes) in by.names.into_iter().zip([8, 64, 4096]) {
        let start = (by.clock)();
        for _ in 0..rounds {
            session.call(peer, Procedure::Echo, &payload[..bytes], &mut answer)?;
        }
        record(out, name, (by.clock)().wrapping_sub(start), rounds)?;
    }
    Ok(())
}

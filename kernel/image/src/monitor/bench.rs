//! Benchmarks: each prints records, one a line: `record NAME VALUE UNIT`.
//!
//! Times are local-clock nanoseconds without what this core spent waiting for others. Under the
//! emulator's instruction clock one of them is one instruction; `./pen bench` sets that up and
//! labels the records.

use super::chip::first_peer;
use super::{Command, Failure, Outcome, Session, blocks, number};
use crate::kernel::Kernel;
use crate::memory::FRAMES;
use crate::peers::Ask;
use base::id::{CoreId, DomainId};
use base::port::Frames;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};

pub const COMMANDS: &[Command] = &[Command {
    name: "bench",
    arguments: "boot|memory|used|threads|frames|balloon|balloon-soc|dma|dma-both|dsm|frames-both| \
                op|twins|rpc|rpc-soc [ROUNDS]",
    help: "measure, and print records",
    run: bench,
}];

fn bench(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let rounds = number(arguments, 1, 1000)?.clamp(1, 1_000_000);
    // What a core works is known by that core.
    kernel.scheduler.pinned(|| match arguments.first() {
        Some(&"boot") => {
            let ticks = kernel.boot_ticks.load(Ordering::Relaxed);
            record(out, "boot.instructions", arch::time::to_ns(ticks, arch::cpu::clock_hz()), 1)
        }
        Some(&"memory") => memory(session, out),
        Some(&"used") => Ok(writeln!(out, "{}", used())?),
        Some(&"threads") => threads(kernel, out, rounds),
        Some(&"frames") => frames(out, rounds),
        Some(&"balloon") => blocks::bench(kernel, out, rounds, &blocks::WORK),
        Some(&"balloon-soc") => blocks::bench(kernel, out, rounds, &blocks::CHIP),
        Some(&"dma") => super::table6::alone(session, out),
        Some(&"frames-both") => super::section93::bench(session, out),
        Some(&"dma-both") => super::table6::both(session, out),
        Some(&"dsm") => super::faults::bench(session, out, rounds),
        Some(&"op") => super::faults::bench_op(session, out, rounds),
        Some(&"twins") => super::twins::bench(session, out, rounds),
        Some(&"served") => super::faults::say_served(kernel, out),
        Some(&"rpc") => rpc(session, out, rounds, &WORK),
        Some(&"rpc-soc") => rpc(session, out, rounds, &CHIP),
        _ => Err(Failure::Usage),
    })
}

fn used() -> u64 {
    crate::memory::Use::now().used()
}

/// Of this kernel, and of each other one that runs, under its name.
fn memory(session: &Session, out: &mut dyn Write) -> Outcome {
    let kernel = session.kernel;
    writeln!(out, "record memory.after_boot_bytes {} bytes", used())?;
    for (index, domain) in kernel.blob.domains().iter().enumerate() {
        let peer = DomainId(index as u8);
        if peer == kernel.me {
            continue;
        }
        let mut answer = [0; 64];
        let bytes = session.call(peer, Ask::Run, b"bench used", &mut answer)?;
        let text = core::str::from_utf8(&answer[..bytes]).unwrap_or("").trim_end();
        let name = abi::boot::text(&domain.name);
        writeln!(out, "record memory.after_boot_bytes.{name} {text} bytes")?;
    }
    Ok(())
}

/// Measures what this core works, without its waits. The thread that holds it is pinned.
pub struct Watch(u64);

impl Watch {
    /// From now on.
    pub fn start() -> Watch {
        Watch(Self::worked())
    }

    /// Nanoseconds since.
    pub fn ns(&self) -> u64 {
        arch::time::to_ns(Self::worked().wrapping_sub(self.0), arch::cpu::clock_hz())
    }

    /// What this core has worked, in ns that mean something only in differences.
    pub fn worked_ns() -> u64 {
        arch::time::to_ns(Self::worked(), arch::cpu::clock_hz())
    }

    /// Ticks that mean something only in differences: a power-off may reset the counter.
    fn worked() -> u64 {
        arch::cpu::clock().wrapping_sub(arch::attend::spent())
    }
}

/// One record, a mean.
pub fn record(out: &mut dyn Write, name: &str, total: u64, rounds: u64) -> Outcome {
    write!(out, "record {name} ")?;
    super::record(out, total, rounds)
}

static ROUNDS: AtomicU64 = AtomicU64::new(0);

fn yielder(_: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
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

/// What a call is measured by: the names of its records, and a clock in ns.
struct Measure {
    names: [&'static str; 3],
    clock: fn() -> u64,
}

/// The caller's work, without its waits.
const WORK: Measure = Measure {
    names: ["rpc.roundtrip_int", "rpc.roundtrip_64", "rpc.roundtrip_4k"],
    clock: Watch::worked_ns,
};

/// The chip's time from call to answer; in the lab it means something.
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
            session.call(peer, Ask::Echo, &payload[..bytes], &mut answer)?;
        }
        record(out, name, (by.clock)().wrapping_sub(start), rounds)?;
    }
    Ok(())
}

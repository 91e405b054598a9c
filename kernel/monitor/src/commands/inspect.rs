//! Commands that show the state of this kernel and change nothing.

use super::{Command, Failure, Outcome, Session, number};
use core::fmt::Write;
use core::sync::atomic::Ordering;
use kernel_node::counts::COUNTS;
use kernel_programs::programs::stack;
use kernel_sched::table::Phase;

pub const COMMANDS: &[Command] = &[
    Command { name: "cpus", arguments: "", help: "this kernel's cores", run: cpus },
    Command { name: "mem", arguments: "", help: "memory of this kernel", run: mem },
    Command { name: "irq", arguments: "", help: "interrupts since boot", run: irq },
    Command { name: "threads", arguments: "", help: "this kernel's threads", run: threads },
    Command {
        name: "time",
        arguments: "",
        help: "chip time, its error, time since boot",
        run: time,
    },
    Command { name: "log", arguments: "[COUNT]", help: "the last trace records", run: log },
    Command {
        name: "audit",
        arguments: "",
        help: "walk the page table and check its invariant",
        run: audit,
    },
    Command {
        name: "guards",
        arguments: "",
        help: "try what memory protection must refuse",
        run: guards,
    },
    Command { name: "where", arguments: "ADDRESS", help: "name a code address", run: whereis },
];

fn cpus(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let domain = kernel.domain();
    let isa = abi::boot::isa::name(domain.isa);
    for core in 0..domain.cores as usize {
        let load = kernel.scheduler.core_info(core);
        writeln!(
            out,
            "  core {core}: {isa}, {} MHz nominal, {} switches, {} ms idle, running {}",
            domain.khz / 1000,
            load.switches,
            load.idle_ns / 1_000_000,
            load.running,
        )?;
    }
    Ok(())
}

fn mem(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let use_now = kernel_node::memory::Use::now();
    writeln!(out, "  {:>8} KiB of memory local to this kernel", use_now.total >> 10)?;
    writeln!(out, "  {:>8} KiB in use, of which", use_now.used() >> 10)?;
    writeln!(out, "  {:>8} KiB image", use_now.image >> 10)?;
    writeln!(
        out,
        "  {:>8} KiB heap, {} KiB of it allocated",
        use_now.heap >> 10,
        use_now.heap_live >> 10
    )?;
    writeln!(out, "  {:>8} KiB allocator's own tables", use_now.metadata >> 10)?;
    writeln!(out, "  {:>8} KiB page tables", kernel_node::memory::tables() >> 10)?;
    let stacks = kernel_node::memory::unused_stacks(kernel.scheduler.spare_stacks());
    writeln!(out, "  {:>8} KiB stacks of threads that ended", stacks >> 10)?;
    let (left, own) = (stack::least_left(), stack::OWN);
    writeln!(out, "  {left:>8} bytes left of the {own} for the kernel on a program's stack")?;
    writeln!(out, "  {:>8} KiB free", use_now.free >> 10)?;
    for region in kernel.blob.regions() {
        let kind = ["reserved", "staging", "uncached", "local", "global", "disk", "bulk"];
        let kind = kind.get(region.kind as usize).unwrap_or(&"?");
        let domains = kernel.blob.domains();
        let owner = domains.get(region.owner as usize).map_or("", |d| abi::boot::text(&d.name));
        let end = region.base + region.size;
        writeln!(out, "  {:#011x}..{end:#011x} {kind:<9} {owner}", region.base)?;
    }
    Ok(())
}

fn irq(_: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let count = |counter: &core::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    writeln!(out, "  timer       {}", count(&COUNTS.timer))?;
    for (kind, name) in ["reschedule", "shootdown", "stop"].iter().enumerate() {
        writeln!(out, "  {name:<11} {}", count(&COUNTS.core[kind]))?;
    }
    for (vector, counter) in COUNTS.doorbell.iter().enumerate().filter(|(_, c)| count(c) != 0) {
        writeln!(out, "  doorbell {vector:<2} {}", count(counter))?;
    }
    writeln!(out, "  spurious    {}", count(&COUNTS.spurious))?;
    Ok(())
}

fn threads(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let kernel = session.kernel;
    writeln!(out, "  id     core  prio  state      cpu ms   switches  name")?;
    let mut result = Ok(());
    kernel.scheduler.for_each(&mut |t| {
        if result.is_ok() {
            result = writeln!(
                out,
                "  {:<6} {:<5} {:<5} {:<10} {:<8} {:<9} {}",
                t.id,
                t.core,
                t.priority,
                phase(t.state),
                t.cpu_ns / 1_000_000,
                t.switches,
                t.name
            );
        }
    });
    Ok(result?)
}

pub fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Free => "ended",
        Phase::Ready => "ready",
        Phase::Running => "running",
        Phase::Blocked => "blocked",
    }
}

fn time(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let now = arch::time::soc_time();
    let up = now.saturating_sub(kernel.booted_at);
    writeln!(out, "  chip time {}.{:09} s", now / 1_000_000_000, now % 1_000_000_000)?;
    writeln!(out, "  exact to  {} ns", kernel.soc.clock_error())?;
    Ok(writeln!(out, "  up        {}.{:09} s", up / 1_000_000_000, up % 1_000_000_000)?)
}

fn log(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let wanted = number(arguments, 0, 20)?;
    Ok(kernel.write_trace(out, wanted as usize)?)
}

fn audit(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let kernel = session.kernel;
    match kernel.audit() {
        Ok(report) => writeln!(out, "  {report}: the invariant holds")?,
        Err(violation) => {
            writeln!(out, "  {violation:?}")?;
            return Err(Failure::Failed("the page-table invariant is broken"));
        }
    }
    Ok(())
}

fn guards(_: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let checks = arch::probe::self_test();
    for check in checks {
        writeln!(
            out,
            "  {:<24} {}",
            check.name,
            if check.refused { "refused" } else { "ALLOWED" }
        )?;
    }
    if checks.iter().all(|check| check.refused) {
        Ok(())
    } else {
        Err(Failure::Failed("memory protection is broken"))
    }
}

fn whereis(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let word = arguments.first().ok_or(Failure::Usage)?;
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let address = u64::from_str_radix(digits, 16).map_err(|_| Failure::Usage)?;
    writeln!(out, "  {}", kernel_node::symbols::Named(kernel.symbols, address))?;
    Ok(())
}

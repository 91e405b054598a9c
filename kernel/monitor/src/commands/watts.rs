//! Commands about power: what all domains have done and used; the frequency and idle state of this
//! domain, which the chip applies when they are stored in the domain page; and energy use, as the
//! chip measures it.

use super::chip::find;
use super::{Command, Failure, Outcome, Session, number};
use abi::soc::{DomainPage, command, state};
use arch::shared::Window;
use base::id::DomainId;
use base::port::Words;
use core::fmt::{self, Write};
use core::mem::offset_of;
use kernel_node::soc::SocError;
use kernel_services::kernel::Kernel;
use kernel_services::power::{self as counted, Report};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "frequency",
        arguments: "MHZ",
        help: "run this domain at another of its board's frequencies; effective in the lab only",
        run: frequency,
    },
    Command {
        name: "idle",
        arguments: "clocked|gated",
        help: "while cores wait for work: keep their clock running, or gate it",
        run: idle,
    },
    Command {
        name: "energy",
        arguments: "[DOMAIN]",
        help: "what the board, or one domain, has used since it started; in the lab only",
        run: energy,
    },
    Command {
        name: "power",
        arguments: "[DOMAIN]",
        help: "state, rests, times and energy of all domains, or of one; wakes none",
        run: power,
    },
    Command {
        name: "phase",
        arguments: "NAME",
        help: "mark the start of a measurement's phase: print its name and chip time",
        run: phase,
    },
];

/// Returns the frequency in MHz that was requested; 0 if none was.
pub fn asked_frequency(kernel: &Kernel) -> u64 {
    kernel.own_page.load(offset_of!(DomainPage, frequency_mhz))
}

/// Returns whether the clock is gated while the domain waits.
pub fn gates_idle(kernel: &Kernel) -> bool {
    kernel.own_page.load(offset_of!(DomainPage, gate_idle)) != 0
}

/// Requests a frequency. The chip ignores one that the board does not list.
fn frequency(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let mhz = number(arguments, 0, 0)?;
    if mhz == 0 {
        return Err(Failure::Usage);
    }
    let set = |page: &Window| page.store(offset_of!(DomainPage, frequency_mhz), mhz);
    counted::change(session.kernel, set);
    Ok(writeln!(out, "  asked for {mhz} MHz")?)
}

fn idle(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let gates = match arguments.first() {
        Some(&"clocked") => 0,
        Some(&"gated") => 1,
        _ => return Err(Failure::Usage),
    };
    let set = |page: &Window| page.store(offset_of!(DomainPage, gate_idle), gates);
    counted::change(session.kernel, set);
    Ok(writeln!(out, "  waits with its clock {}", ["running", "gated"][gates as usize])?)
}

/// Prints the energy of one domain, or of all domains and their sum, including sleeping ones.
fn energy(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let one = arguments.first().map(|word| find(kernel, word)).transpose()?;
    let mut sum = 0u64;
    for (index, domain) in kernel.blob.domains().iter().enumerate() {
        let id = DomainId(index as u8);
        if one.is_some_and(|one| one != id) {
            continue;
        }
        let answer = kernel.soc.request(command::ENERGY, u64::from(id.0), 0);
        let nj = answer.map_err(|why| match why {
            SocError::Absent => Failure::Failed(
                "energy is not measured here; use `pen up BOARD --lab --mode energy`",
            ),
            _ => Failure::Failed("the soc refused"),
        })?;
        sum = sum.saturating_add(nj.value);
        line(out, abi::boot::text(&domain.name), nj.value)?;
    }
    if one.is_none() {
        line(out, "all", sum)?;
    }
    Ok(())
}

fn line(out: &mut dyn Write, name: &str, nj: u64) -> Outcome {
    Ok(writeln!(out, "  {name:<12} {:>12}.{:03} uJ", nj / 1000, nj % 1000)?)
}

/// Prints lines of `DOMAIN NAME VALUE [UNIT]`.
fn power(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let one = arguments.first().map(|word| find(kernel, word)).transpose()?;
    for (index, domain) in kernel.blob.domains().iter().enumerate() {
        let id = DomainId(index as u8);
        if one.is_some_and(|one| one != id) {
            continue;
        }
        let name = abi::boot::text(&domain.name);
        match counted::report(session, id) {
            Some(report) => power_of(out, name, &report)?,
            None => writeln!(out, "{name} state {}", state::name(kernel.soc.state(id).1))?,
        }
    }
    Ok(())
}

fn power_of(out: &mut dyn Write, name: &str, report: &Report) -> Outcome {
    let sample = &report.sample;
    writeln!(out, "{name} state {}", state::name(report.state))?;
    writeln!(out, "{name} rests {}", sample.rests)?;
    let times = [
        ("age", report.age),
        ("uptime", sample.at.saturating_sub(sample.booted_at)),
        ("resting", sample.resting),
        ("active", sample.active),
        ("idle", sample.idle),
    ];
    for (what, ns) in times {
        writeln!(out, "{name} {what} {} s", Billionths(ns))?;
    }
    if let Some(busy) = report.busy() {
        writeln!(out, "{name} busy {busy} %")?;
    }
    if let Some(uw) = report.active_uw {
        writeln!(out, "{name} power {}.{:03} mW", uw / 1000, uw % 1000)?;
    }
    if let Some(nj) = report.measured {
        writeln!(out, "{name} measured {} J", Billionths(nj))?;
    }
    match report.estimate() {
        Some(nj) => writeln!(out, "{name} estimated {} J", Billionths(nj))?,
        None => writeln!(out, "{name} estimated unknown: the board file gives no power for this")?,
    }
    Ok(())
}

/// Prints a number of billionths (ns as s, nJ as J) as a decimal fraction.
struct Billionths(u64);

impl fmt::Display for Billionths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

fn phase(_: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let name = arguments.first().ok_or(Failure::Usage)?;
    Ok(writeln!(out, "phase {name} {}", arch::time::soc_time())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::power::{PowerSample, UNKNOWN_ENERGY};
    use alloc::string::String;

    fn text(measured: Option<u64>, energy: u64) -> String {
        let sample = PowerSample {
            version: 2,
            at: 3_500_000_001,
            booted_at: 500_000_000,
            rests: 4,
            resting: 1_000_000_000,
            active: 20,
            idle: 2_000_000_000,
            energy,
            busy: 12,
        };
        let (state, age, active_uw) = (state::RESTING, 0, Some(79_800));
        let mut out = String::new();
        let said = power_of(&mut out, "main", &Report { state, sample, age, active_uw, measured });
        assert!(said.is_ok());
        out
    }

    #[test]
    fn each_fact_is_a_line_with_its_domain_name_value_and_unit() {
        let lines = "main state resting\nmain rests 4\nmain age 0.000000000 s\n\
                     main uptime 3.000000001 s\nmain resting 1.000000000 s\n\
                     main active 0.000000020 s\nmain idle 2.000000000 s\n\
                     main busy 0 %\nmain power 79.800 mW\n";
        assert_eq!(text(None, 7), String::from(lines) + "main estimated 0.000000007 J\n");
    }

    #[test]
    fn measured_and_unknown_energy_are_told_apart_from_an_estimate() {
        let measured = text(Some(1_500_000_000), 7);
        assert!(measured.contains("main measured 1.500000000 J\nmain estimated 0.000000007 J\n"));
        assert!(text(None, UNKNOWN_ENERGY).contains("main estimated unknown: the board file"));
    }
}

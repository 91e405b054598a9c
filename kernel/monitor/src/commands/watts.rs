//! Commands about power: the frequency and idle state of this domain, which the chip applies when
//! they are stored in the domain page; and energy use, as the chip measures it.

use super::chip::find;
use super::{Command, Failure, Outcome, Session, number};
use abi::soc::{DomainPage, command};
use base::id::DomainId;
use base::port::Words;
use core::fmt::Write;
use core::mem::offset_of;
use kernel_node::soc::SocError;
use kernel_services::kernel::Kernel;

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
    session.kernel.own_page.store(offset_of!(DomainPage, frequency_mhz), mhz);
    Ok(writeln!(out, "  asked for {mhz} MHz")?)
}

fn idle(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let gates = match arguments.first() {
        Some(&"clocked") => 0,
        Some(&"gated") => 1,
        _ => return Err(Failure::Usage),
    };
    session.kernel.own_page.store(offset_of!(DomainPage, gate_idle), gates);
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

fn phase(_: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let name = arguments.first().ok_or(Failure::Usage)?;
    Ok(writeln!(out, "phase {name} {}", arch::time::soc_time())?)
}

//! Commands about the chip and the other kernels: peers, calls, power, panic, devices.

use super::{Command, Failure, Outcome, Session, hex, number};
use abi::boot::{Device, device};
use abi::soc::{command, state};
use base::id::DomainId;
use core::fmt::Write;
use kernel_msg::Refusal;
use kernel_node::soc::SocError;
use kernel_platform::peers::{CallFailure, Procedure};
use kernel_services::kernel::Kernel;
use kernel_services::{disk as driven, random as generator};

pub const COMMANDS: &[Command] = &[
    Command { name: "peers", arguments: "", help: "the kernels of this board", run: peers },
    Command {
        name: "ping",
        arguments: "[DOMAIN [COUNT]]",
        help: "call another kernel and time the answer",
        run: ping,
    },
    Command {
        name: "on",
        arguments: "DOMAIN COMMAND...",
        help: "run a command in another kernel",
        run: on,
    },
    Command {
        name: "domain",
        arguments: "off|inactive|on|cold DOMAIN [MS]",
        help: "off: keep memory (MS: then wake); inactive: stop, keep all; cold: kill; on: wake",
        run: domain,
    },
    Command { name: "disk", arguments: "", help: "write, flush and read back a sector", run: disk },
    Command { name: "random", arguments: "", help: "32 random bytes from the chip", run: random },
    Command { name: "panic", arguments: "", help: "end this kernel, on purpose", run: panic },
    Command {
        name: "overflow",
        arguments: "",
        help: "overflow this thread's stack, on purpose",
        run: overflow,
    },
    Command { name: "poweroff", arguments: "", help: "power the whole board off", run: poweroff },
    Command {
        name: "reboot",
        arguments: "",
        help: "power the whole board off and on again",
        run: reboot,
    },
];

/// Returns the domain with this name or number.
pub fn find(kernel: &Kernel, word: &str) -> Result<DomainId, Failure> {
    let domains = kernel.blob.domains();
    let by_name = domains.iter().position(|d| abi::boot::text(&d.name) == word);
    let index = by_name.or_else(|| word.parse().ok().filter(|&n: &usize| n < domains.len()));
    let index = index.ok_or(Failure::Failed("no such domain; `peers` lists them"))?;
    Ok(DomainId(index as u8))
}

/// Returns the first domain that is not this kernel's.
pub fn first_peer(kernel: &Kernel) -> Result<DomainId, Failure> {
    (0..kernel.blob.domains().len())
        .map(|index| DomainId(index as u8))
        .find(|&domain| domain != kernel.me)
        .ok_or(Failure::Failed("this board has no other kernel"))
}

/// Returns the peer that the first argument names, or the first peer.
fn find_peer(kernel: &Kernel, arguments: &[&str]) -> Result<DomainId, Failure> {
    let peer = match arguments.first() {
        Some(word) => find(kernel, word)?,
        None => first_peer(kernel)?,
    };
    if peer == kernel.me {
        return Err(Failure::Failed("that is this kernel; `peers` lists the others"));
    }
    Ok(peer)
}

fn peers(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let kernel = session.kernel;
    writeln!(
        out,
        "  domain    isa      role    cores  state     epoch  deaths  calls out/in/faults  dropped"
    )?;
    for (index, domain) in kernel.blob.domains().iter().enumerate() {
        let id = DomainId(index as u8);
        let (epoch, state) = kernel.soc.state(id);
        let isa = abi::boot::isa::name(domain.isa);
        let role = ["?", "main", "shadow", "proxy"].get(domain.role as usize).unwrap_or(&"?");
        let name = abi::boot::text(&domain.name);
        write!(out, "  {name:<9} {isa:<8} {role:<7} {:<6} ", domain.cores)?;
        write!(out, "{:<9} {epoch:<6} {:<7} ", state::name(state), kernel.soc.deaths(id))?;
        match kernel.peers.counts(id) {
            Some([sent, served, faults, dropped]) => {
                let calls = format_args!("{sent}/{served}/{faults}");
                writeln!(out, "{calls}  {dropped}")?;
            }
            None => writeln!(out, "(this kernel)")?,
        }
    }
    Ok(())
}

fn ping(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let peer = find_peer(kernel, arguments)?;
    for _ in 0..number(arguments, 1, 3)?.min(1000) {
        let start = arch::time::local_ns();
        let there = session.call_value(peer, Procedure::Echo, start)?;
        // A power-off in between may have reset the counter.
        let took = arch::time::local_ns().saturating_sub(start);
        if there != start {
            return Err(Failure::Failed("the answer is not what was sent"));
        }
        writeln!(out, "answer from {} after {}.{:03} us", peer, took / 1000, took % 1000)?;
    }
    Ok(())
}

fn on(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let [name, words @ ..] = arguments else { return Err(Failure::Usage) };
    if words.is_empty() {
        return Err(Failure::Usage);
    }
    let peer = find(session.kernel, name)?;
    let line = super::joined(words)?;
    if peer == session.kernel.me {
        super::run(session, out, core::str::from_utf8(line.as_bytes()).unwrap_or(""));
        return Ok(());
    }
    let mut answer = super::buffer(abi::msg::MAX_PAYLOAD)?;
    let bytes = session.call(peer, Procedure::Run, line.as_bytes(), &mut answer)?;
    let text = core::str::from_utf8(&answer[..bytes]);
    out.write_str(text.map_err(|_| Failure::Failed("the answer is not text"))?)?;
    Ok(())
}

/// How long a kernel may take to power off. Sanitized and on a busy host, seconds are normal.
const OFF_NS: u64 = 10_000_000_000;
/// Longest time after which `domain off` wakes the domain again.
const LONGEST_NAP_MS: u64 = 60_000;

/// Returns whether domain `target` drives the system console, so that the user could not type any
/// more if it were off.
fn holds_console(kernel: &Kernel, target: DomainId) -> bool {
    let here = |d: &Device| d.kind == device::CONSOLE && d.home == u32::from(target.0);
    kernel.blob.devices().iter().any(here)
}

fn domain(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let (action, name, nap) = match *arguments {
        ["off", name, ms] => ("off", name, Some(ms.parse::<u64>().map_err(|_| Failure::Usage)?)),
        [action @ ("on" | "off" | "cold" | "inactive"), name] => (action, name, None),
        _ => return Err(Failure::Usage),
    };
    let target = find(kernel, name)?;
    if nap.is_some() && target == kernel.me {
        return Err(Failure::Failed(
            "a kernel cannot wake itself: run this on another (`on KERNEL aside ...`, test images)",
        ));
    }
    if action != "on" && nap.is_none() && holds_console(kernel, target) {
        return Err(Failure::Failed(
            "that kernel holds the console, so you could not wake it; use `domain off NAME MS`",
        ));
    }
    let ask_soc = |what| kernel.soc.request(what, u64::from(target.0), 0).map(|_| ());
    let (done, now) = match action {
        "on" => (ask_soc(command::WAKE), "woken"),
        "inactive" => (ask_soc(command::INACTIVE), "inactive"),
        "cold" => (ask_soc(command::OFF), "off; next boot cold"),
        _ => {
            // If it is to be woken, wait longer: it may still power off and must not stay off.
            let patience = if nap.is_some() { LONGEST_NAP_MS * 1_000_000 } else { OFF_NS };
            switch_off(session, target, patience)?;
            match nap {
                None => (Ok(()), "off; memory kept"),
                Some(ms) => {
                    let end = arch::time::soc_time() + ms.min(LONGEST_NAP_MS) * 1_000_000;
                    kernel.scheduler.sleep_until(end);
                    (ask_soc(command::WAKE), "off; woken again")
                }
            }
        }
    };
    match done {
        Ok(()) => Ok(writeln!(out, "domain {name}: {now}")?),
        Err(SocError::State) => {
            Err(Failure::Failed("the domain is not in a state for that; see `peers`"))
        }
        Err(_) => Err(Failure::Failed("the soc could not do it; see soc.log")),
    }
}

/// Asks another kernel to power itself off, with its memory kept, and waits until it is off.
fn switch_off(session: &Session, target: DomainId, patience_ns: u64) -> Result<(), Failure> {
    match session.call_value(target, Procedure::PowerOff, 0) {
        Err(CallFailure::Refused(Refusal::Refused)) => {
            return Err(Failure::Failed("that kernel is powering off or on; try again"));
        }
        answer => answer?,
    };
    if session.kernel.peers.wait_for_state(session.kernel, target, state::OFF, patience_ns) {
        return Ok(());
    }
    Err(Failure::Failed("that kernel did not power off in time; see its log"))
}

fn disk(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let sectors = driven::check(session).map_err(Failure::Failed)?;
    writeln!(out, "disk of {sectors} sectors: wrote, flushed and read back its last one")?;
    Ok(())
}

fn random(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    hex(out, &generator::bytes(session)?)?;
    writeln!(out)?;
    Ok(())
}

fn panic(_: &Session, _: &mut dyn Write, _: &[&str]) -> Outcome {
    panic!("asked for on the monitor")
}

fn overflow(_: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    writeln!(out, "depth {}", dig(1))?;
    Ok(())
}

/// Recurses without end.
#[allow(unconditional_recursion, reason = "overflowing the stack is its purpose")]
fn dig(depth: u64) -> u64 {
    let here = core::hint::black_box([depth; 64]);
    dig(core::hint::black_box(here[0] + 1)) + here[63]
}

fn poweroff(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    end_chip(session, out, command::SHUTDOWN, "powering off")
}

fn reboot(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    end_chip(session, out, command::REBOOT, "restarting the board")
}

/// Powers the whole chip off, or restarts it.
fn end_chip(session: &Session, out: &mut dyn Write, how: u64, said: &str) -> Outcome {
    // The chip powers off even if files cannot be made durable.
    let _ = kernel_services::files::settle(session);
    writeln!(out, "{said}")?;
    match session.kernel.soc.request(how, 0, 0) {
        Ok(_) => Ok(()),
        Err(SocError::Absent) => {
            Err(Failure::Failed("a board whose run must repeat, as in the lab, does not restart"))
        }
        Err(_) => Err(Failure::Failed("the soc refused")),
    }
}

//! `record`: prints measurements of the ordinary image: the time of its boot, and its memory.

use super::{Command, Failure, Outcome, Session};
use base::id::DomainId;
use core::fmt::Write;
use core::sync::atomic::Ordering;
use kernel_platform::peers::Procedure;

pub const COMMANDS: &[Command] = &[Command {
    name: "record",
    arguments: "boot|memory|used",
    help: "print records: boot time, memory of all kernels; used: the bytes that this one uses",
    run: records,
}];

fn records(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    match *arguments {
        ["boot"] => {
            let ticks = session.kernel.boot_ticks.load(Ordering::Relaxed);
            let ns = arch::time::to_ns(ticks, arch::cpu::clock_hz());
            Ok(writeln!(out, "record boot.instructions {ns} ns")?)
        }
        ["memory"] => memory(session, out),
        ["used"] => Ok(writeln!(out, "{}", used())?),
        _ => Err(Failure::Usage),
    }
}

fn used() -> u64 {
    kernel_node::memory::Use::now().used()
}

/// Prints the memory in use of this kernel and of all other kernels.
fn memory(session: &Session, out: &mut dyn Write) -> Outcome {
    let kernel = session.kernel;
    writeln!(out, "record memory.after_boot_bytes {} bytes", used())?;
    for (index, domain) in kernel.blob.domains().iter().enumerate() {
        let peer = DomainId(index as u8);
        if peer == kernel.me {
            continue;
        }
        let mut answer = [0; 64];
        let bytes = session.call(peer, Procedure::Run, b"record used", &mut answer)?;
        let text = core::str::from_utf8(&answer[..bytes]).unwrap_or("").trim_end();
        let name = abi::boot::text(&domain.name);
        writeln!(out, "record memory.after_boot_bytes.{name} {text} bytes")?;
    }
    Ok(())
}

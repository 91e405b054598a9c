//! `hang`: makes this kernel hang, in one of the ways that the soc must recognise. `bench hang`:
//! how long the other kernel waits for one that hangs.

use super::first_peer;
use super::planted::{self, HANGS, Want};
use super::{Command, Failure, Outcome, Session};
use core::fmt::Write;
use core::sync::atomic::Ordering;
use kernel_platform::peers::Procedure;
use kernel_services::hangs::ABANDONED;

pub const COMMANDS: &[Command] = &[Command {
    name: "hang",
    arguments: "[step|wait|masked|request|fault|driver]",
    help: "hang: in a step; in one that waits, has masked interrupts, waits for the soc, or for a \
           page; in the driver of shared pages; without a word: how many steps were abandoned",
    run: hang,
}];

fn hang(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let Some(&word) = arguments.first() else {
        return Ok(writeln!(out, "  {} steps were abandoned", ABANDONED.load(Ordering::Relaxed))?);
    };
    let kernel = session.kernel;
    if word == "driver" {
        let coherence = kernel.coherence.as_ref().ok_or(Failure::Failed("no memory is shared"))?;
        return coherence.with_pages_fixed(|_| {
            kernel_node::log!("hangs: {word}");
            loop {
                core::hint::spin_loop();
            }
        });
    }
    let way = HANGS.iter().position(|(name, _)| *name == word).ok_or(Failure::Usage)?;
    match planted::ask(kernel, Want::Hang, way as u64) {
        Ok(_) => Err(Failure::Failed("the step ended")),
        Err(why) => Ok(writeln!(out, "  the step was abandoned: {}", why.text())?),
    }
}

/// Time that the other kernel has to begin to hang, in ns.
const BEGIN_NS: u64 = 5_000_000;
/// The commands for its ways, and the records of the time that a request of this kernel waits.
const RECORDS: [(&[u8], &str); 2] =
    [(b"aside hang step", "hang.abandon_us"), (b"aside hang masked", "hang.recover_us")];

/// `bench hang`: this kernel needs a lock that a kernel has that hangs.
pub fn bench(session: &Session, out: &mut dyn Write) -> Outcome {
    let kernel = session.kernel;
    for (command, name) in RECORDS {
        session.call(first_peer(kernel)?, Procedure::Run, command, &mut [0; 256])?;
        kernel.scheduler.sleep_until(arch::time::soc_time() + BEGIN_NS);
        let before = arch::time::soc_time();
        planted::ask(kernel, Want::Clear, 0).map_err(|why| Failure::Failed(why.text()))?;
        let us = (arch::time::soc_time() - before) / 1000;
        writeln!(out, "record {name} {us} us")?;
    }
    Ok(())
}

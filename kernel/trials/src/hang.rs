//! `hang`: makes this kernel hang, in one of the ways that the soc must recognise.

use super::planted::{self, HANGS, Want};
use super::{Command, Failure, Outcome, Session};
use core::fmt::Write;
use core::sync::atomic::Ordering;
use kernel_services::hangs::ABANDONED;

pub const COMMANDS: &[Command] = &[Command {
    name: "hang",
    arguments: "[step|masked|wait|driver]",
    help: "hang: in a step, in a step with interrupts masked, in a step that waits, or in the \
           driver of shared pages; without a word: how many steps were abandoned",
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

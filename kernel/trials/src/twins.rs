//! `twins`: shows what this kernel can access of other kernels' images, and calls what they have
//! planted in shared memory ([`super::planted`]).

use super::first_peer;
use super::measure::record;
use super::planted::{self, WANTS, Want};
use super::{Command, Failure, Outcome, Session, number};
use core::fmt::Write;
use kernel_platform::peers::Procedure;
use kernel_platform::twins::Other;
use kernel_services::kernel::Kernel;

pub const COMMANDS: &[Command] = &[Command {
    name: "twins",
    arguments: "[plant|function|object|waker|clear|only|same [NUMBER]]",
    help: "other kernels' images as seen from here; put pointers into shared memory, and call them",
    run: twins,
}];

/// Offsets in an unknown image: somewhere in its constants, and in its data or after them.
const CONSTANTS: u64 = 0xa_0000;
const DATA: u64 = 7 << 20;
/// Calls before a measurement, to warm up.
const WARM: u64 = 10;

fn twins(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let Some(word) = arguments.first() else { return images(session, out) };
    let want = WANTS.iter().find(|(name, _)| name == word).ok_or(Failure::Usage)?.1;
    match ask(session.kernel, want, number(arguments, 1, 4)?)? {
        Some(value) => Ok(writeln!(out, "  {word}: {value}")?),
        None if want == Want::Clear => Ok(writeln!(out, "  nothing is planted now")?),
        None => Err(Failure::Failed("nothing is planted: `twins plant`")),
    }
}

fn ask(kernel: &'static Kernel, want: Want, argument: u64) -> Result<Option<u64>, Failure> {
    planted::ask(kernel, want, argument).map_err(|why| Failure::Failed(why.text()))
}

/// Tries to read, write and execute the image of each other kernel, and prints the results.
fn images(session: &Session, out: &mut dyn Write) -> Outcome {
    for other in session.kernel.others.all() {
        match other.tally() {
            Some(tally) => writeln!(
                out,
                "  {}: {} functions have a twin here, {} have none, {} are ambiguous",
                other.name, tally.found, tally.missing, tally.ambiguous
            )?,
            None => writeln!(out, "  {}: nothing of it is mapped", other.name)?,
        }
        let [calls, odd, strays] = other.counts();
        writeln!(out, "  {calls} calls went on here, {odd} of them misaligned; {strays} strays")?;
        for (name, allowed) in tries(other) {
            writeln!(out, "  {name:<24} {}", if allowed { "allowed" } else { "refused" })?;
        }
    }
    Ok(())
}

fn tries(other: &Other) -> [(&'static str, bool); 5] {
    let (code, data) = (other.image, other.image + DATA);
    let constants = code + if other.code() == 0 { CONSTANTS } else { other.code() };
    [
        ("read of its code", arch::probe::load(code).is_some()),
        ("read of its constants", arch::probe::load(constants).is_some()),
        ("read of its data", arch::probe::load(data).is_some()),
        ("write to its code", arch::probe::can_rewrite(code)),
        ("execution of its code", arch::probe::can_execute(code)),
    ]
}

/// `bench twins`: the cost of a dispatch to a twin, that is, of a call of the other kernel's
/// function compared with a call of this kernel's own, from the same code.
pub fn bench(session: &Session, out: &mut dyn Write, rounds: u64) -> Outcome {
    let kernel = session.kernel;
    ask(kernel, Want::Plant, 1)?;
    ask(kernel, Want::Many, WARM)?;
    let own = ask(kernel, Want::Many, rounds)?.unwrap_or(0);
    session.call(first_peer(kernel)?, Procedure::Run, b"twins plant", &mut [0; 256])?;
    ask(kernel, Want::Many, WARM)?;
    let Some(theirs) = ask(kernel, Want::Many, rounds)? else {
        return Err(Failure::Failed("the other kernel planted nothing"));
    };
    record(out, "shadow.dispatch", theirs.saturating_sub(own), rounds)
}

//! The command that tools read to learn which programs talk to which: `./pen record`, the lab.
//!
//! Contract: each line begins with `traffic` and the kernel's name, so that it is found on a
//! console among other lines. The host's reader is `records::traffic`. First come the ends that
//! descriptors refer to, one for each descriptor; then the numbers of the ends that are kept of
//! those that were closed (the first one, and the next to be given), and the time; then these ends.
//! An end that is closed meanwhile may come twice.
//! ```text
//!   traffic main main.1.9 client 5f0c... shadow held 2 1 1290 31 mail
//!   traffic main log 3 131 52190000
//!   traffic main main.1.4 client 5f0c... shadow closed 12 12 81234 31 mail
//! ```
//! An end is its channel, side, contract, the peer's kernel, `closed` or `held`, messages sent and
//! received since the channel was created, bytes sent from this kernel, process, program.

use super::channels::{Names, channel, side};
use super::{Command, Failure, Outcome, Session, hex};
use core::fmt::{self, Write};
use kernel_platform::channels::{Ended, Listed};
use kernel_programs::processes::descriptors::{self, Holding};

pub const COMMANDS: &[Command] = &[Command {
    name: "traffic",
    arguments: "",
    help: "what the channels of this kernel have carried, for tools; closed ones too",
    run: traffic,
}];

/// What a line says besides the end.
struct Holder<'a> {
    state: &'a str,
    pid: u32,
    program: &'a str,
}

fn traffic(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let (channels, kernel) = (&session.kernel.channels, session.kernel.name());
    let names = |kernel| session.kernel.name_of(kernel);
    let held = descriptors::ends().ok_or(Failure::Failed("no memory for the list"))?;
    for Holding { pid, name, handle } in &held {
        let holder = Holder { state: "held", pid: *pid, program: abi::boot::text(name) };
        // It may have been closed since the list was made: then it is in the log.
        if let Some(listed) = channels.listed_end(*handle).filter(|listed| !listed.is_door()) {
            line(out, kernel, &listed, &holder, &names)?;
        }
    }
    let (numbers, now) = (channels.numbers_of_ended(), arch::time::soc_time());
    writeln!(out, "traffic {kernel} log {} {} {now}", numbers.start, numbers.end)?;
    for Ended { listed, pid, name } in numbers.filter_map(|number| channels.ended(number)) {
        let holder = Holder { state: "closed", pid, program: abi::boot::text(&name) };
        line(out, kernel, &listed, &holder, &names)?;
    }
    Ok(())
}

fn line(
    out: &mut dyn Write,
    kernel: &str,
    listed: &Listed,
    holder: &Holder<'_>,
    names: Names<'_>,
) -> fmt::Result {
    let (end, Holder { state, pid, program }) = (&listed.end, holder);
    write!(out, "traffic {kernel} ")?;
    channel(out, listed, names)?;
    write!(out, " {} ", side(listed))?;
    hex(out, &listed.contract)?;
    write!(out, " {} {state} ", names(end.peer.kernel.index()))?;
    writeln!(out, "{} {} {} {pid} {program}", end.sent, end.received, end.bytes)
}

#[cfg(test)]
mod tests {
    use super::super::channels::tests::{NAMES, listed};
    use super::*;
    use alloc::string::String;

    #[test]
    fn a_line_has_what_an_end_has_carried_and_for_which_process() {
        let mut out = String::new();
        let holder = Holder { state: "closed", pid: 31, program: "mail store" };
        assert!(line(&mut out, "shadow", &listed(), &holder, NAMES).is_ok());
        assert_eq!(
            out,
            "traffic shadow main.3.17 client a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5 shadow closed \
             5 4 70 31 mail store\n"
        );
    }
}

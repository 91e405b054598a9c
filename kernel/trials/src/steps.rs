//! `bench steps`: the longest step of a service in this kernel since its boot, and in its first
//! peer.

use super::{Failure, Outcome, Session, buffer, first_peer};
use core::fmt::Write;
use kernel_platform::peers::Procedure;
use kernel_services::services::longest_ns;

/// Prints records of both kernels.
pub fn bench(session: &Session, out: &mut dyn Write) -> Outcome {
    say(session, out)?;
    let mut answer = buffer(256)?;
    let peer = first_peer(session.kernel)?;
    let bytes = session.call(peer, Procedure::Run, b"bench steps-here", &mut answer)?;
    let text = core::str::from_utf8(&answer[..bytes]);
    Ok(out.write_str(text.map_err(|_| Failure::Failed("the peer's answer is no text"))?)?)
}

/// `bench steps-here`: the records of this kernel.
pub fn say(session: &Session, out: &mut dyn Write) -> Outcome {
    let name = session.kernel.name();
    for (what, ns) in ["max", "work"].iter().zip(longest_ns()) {
        let us = ns.div_ceil(100);
        writeln!(out, "record step.{what}_us.{name} {}.{} us", us / 10, us % 10)?;
    }
    Ok(())
}

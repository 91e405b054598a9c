//! `bench steps-begin`: measure the steps of services from now on, in this kernel and its first
//! peer. `bench steps`: the longest of them in each. `bench handover`: how long each took to take
//! over the devices. `large`: requests about a large file, none of which may be a long step.

use super::{Command, Failure, Outcome, Session, buffer, first_peer};
use abi::fs::flag;
use alloc::vec;
use core::fmt::Write;
use kernel_platform::peers::Procedure;
use kernel_services::files::with_client;
use kernel_services::services::{longest_ns, measure, took_over_ns};

pub const COMMANDS: &[Command] = &[Command {
    name: "large",
    arguments: "write MIB | read | empty | remove",
    help: "write, read, truncate or remove one large file",
    run: large,
}];

/// Its name, and the bytes of a request.
const NAME: &[u8] = b"large";
const PIECE: usize = 4096;

fn large(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let bytes = match *arguments {
        ["write", mib] => write(session, mib.parse().map_err(|_| Failure::Usage)?)?,
        ["read"] => read(session)?,
        ["empty"] => {
            with_client(session, |client| {
                client.at_root(|client, root| {
                    let file = client.open(root, NAME, flag::WRITE | flag::TRUNCATE)?;
                    client.close(file)
                })
            })?;
            0
        }
        ["remove"] => {
            with_client(session, |client| client.at_root(|it, root| it.unlink(root, NAME)))?;
            0
        }
        _ => return Err(Failure::Usage),
    };
    Ok(writeln!(out, "  {bytes} bytes")?)
}

fn write(session: &Session, mib: u64) -> Result<u64, Failure> {
    let piece = vec![7; PIECE];
    with_client(session, |client| {
        client.at_root(|client, root| {
            let file = client.open(root, NAME, flag::WRITE | flag::CREATE | flag::TRUNCATE)?;
            let pieces = (mib << 20) / PIECE as u64;
            let written = (0..pieces).try_for_each(|_| client.write_all(file, &piece));
            client.close(file).and(written).map(|()| pieces * PIECE as u64)
        })
    })
}

fn read(session: &Session) -> Result<u64, Failure> {
    let mut piece = vec![0; PIECE];
    let mut bytes = 0;
    with_client(session, |client| {
        client.at_root(|client, root| {
            let file = client.open(root, NAME, flag::READ)?;
            loop {
                match client.read(file, &mut piece)? {
                    0 => return client.close(file),
                    some => bytes += some as u64,
                }
            }
        })
    })?;
    Ok(bytes)
}

/// Prints records of both kernels: of this one by `here`, of the other by the command `there`.
pub fn both(
    session: &Session,
    out: &mut dyn Write,
    here: impl FnOnce(&Session, &mut dyn Write) -> Outcome,
    there: &str,
) -> Outcome {
    here(session, out)?;
    let mut answer = buffer(256)?;
    let peer = first_peer(session.kernel)?;
    let bytes = session.call(peer, Procedure::Run, there.as_bytes(), &mut answer)?;
    let text = core::str::from_utf8(&answer[..bytes]);
    Ok(out.write_str(text.map_err(|_| Failure::Failed("the peer's answer is no text"))?)?)
}

/// `bench handover-here`: how long this kernel took to take over the devices, the last time.
pub fn say_handover(session: &Session, out: &mut dyn Write) -> Outcome {
    let us = took_over_ns().div_ceil(100);
    let name = session.kernel.name();
    Ok(writeln!(out, "record irq.handover_us.{name} {}.{} us", us / 10, us % 10)?)
}

/// `bench steps-begin-here`.
pub fn begin(_: &Session, _: &mut dyn Write) -> Outcome {
    measure();
    Ok(())
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

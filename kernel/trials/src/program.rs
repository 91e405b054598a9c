//! `program`: runs a program on this kernel, without input and output, and says how it ended. The
//! program is watched by this kernel, so no other kernel's death ends it.

use super::{Command, Failure, Outcome, Session};
use abi::fs::flag;
use abi::process::{End, Errno};
use alloc::format;
use alloc::string::String;
use core::fmt::Write;
use kernel_programs::processes::explain;
use kernel_programs::processes::launch::{Launch, end_of};
use kernel_services::files::with_files;

pub const COMMANDS: &[Command] = &[Command {
    name: "program",
    arguments: "NAME [ARGUMENT]...",
    help: "run a program of /bin on this kernel, without input and output, until it ends",
    run: program,
}];

fn program(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let name = arguments.first().ok_or(Failure::Usage)?;
    let (root, null) =
        open(session).map_err(|why| Failure::Failed(kernel_services::files::explain(why)))?;
    let begun = begin(session, (root, null), name, arguments);
    for handle in [root, null] {
        // The process has handles of its own.
        let _ = with_files(session, |client| client.close(handle));
    }
    let (end, status) = end_of(session, begun.map_err(explain)?);
    let how = match end {
        End::Exit => "exited with code",
        End::Signal => "was ended by signal",
        End::Trap => "trapped:",
        End::Lost => "was lost:",
    };
    Ok(writeln!(out, "  {how} {status}")?)
}

fn open(session: &Session) -> Result<(u64, u64), abi::fs::Errno> {
    let root = with_files(session, |client| client.root())?;
    let both = flag::READ | flag::WRITE;
    let null = with_files(session, |client| client.open(root, b"dev/null", both))?;
    Ok((root, null))
}

fn begin(
    session: &Session,
    (root, null): (u64, u64),
    name: &str,
    arguments: &[&str],
) -> Result<u32, Errno> {
    let path = format!("bin/{name}");
    let text: String = arguments.iter().map(|word| format!("{word}\0")).collect();
    let launch = Launch {
        kernel: u32::from(session.kernel.me.0),
        path: path.as_bytes(),
        arguments: text.as_bytes(),
        environment: b"",
        streams: [null; 3],
        root,
        folders: &[],
    };
    launch.begin(session)
}

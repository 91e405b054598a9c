//! Servers that others wrote, on each kernel, with programs of the host as their clients.
//!
//! Each scenario has a board with an ext2 root. It is attached to the host's network, except for
//! [`mod@index`], whose server has clients on the board. A [`Serving`] is a server there, with its
//! port published at a free port of the host.

mod browser;
mod curl;
mod go;
mod index;
mod killed;
mod lighttpd;
mod load;
mod mail;
mod png;
mod store;

use super::disk::begin_as_root;
use super::machine::until;
use super::outside::{publish, unpublish};
use super::programs::{Running, awaited, pid_of, wrong};
use super::{Failure, PATIENCE, Rig};
pub use browser::browser;
use deploy::exec::{Captured, Line};
pub use go::files_of_go;
pub use index::index;
pub use killed::{killed, killed_often};
use lighttpd::LIGHTTPD;
pub use lighttpd::lighttpd;
pub use load::loaded;
pub use mail::{mail, mail_lost};
pub use png::{png, png_lost, png_trio};
use std::io::Write;
use std::process::{Command, Stdio};
pub use store::store;

/// Exit code of a program that was ended by the signal TERM.
const TERMINATED: u8 = 128 + 15;

/// Leaves the scenario out unless the host has these programs.
pub(super) fn needs(programs: &[&str]) -> Result<(), Failure> {
    let is_there = |program: &&str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "command -v \"$1\"", "sh", program]).stdout(Stdio::null());
        shell.status().is_ok_and(|status| status.success())
    };
    match programs.iter().all(is_there) {
        true => Ok(()),
        false => Err(Failure::LeftOut("its client is not installed; `./pen setup` does it")),
    }
}

/// Sends a text with nc, and ends its direction of the connection. Returns the answer, which the
/// server ends.
fn nc(port: u16, text: &str) -> Result<String, Failure> {
    let mut nc = Command::new("nc");
    nc.args(["-N", "127.0.0.1", &port.to_string()]);
    let mut nc = nc.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = nc.stdin.take().expect("it is piped");
    let text = text.to_string();
    // A server may answer before it has everything, and wait until that is read.
    let sender = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = nc.wait_with_output()?;
    // One that closes early takes no more; its answer tells.
    let _ = sender.join().expect("it does not panic");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Starts the board again with an empty ext2 as its root, as large as the disk or with this many
/// bytes, and waits for the network.
fn begin(rig: &mut Rig, bytes: Option<u64>) -> Result<(), Failure> {
    begin_as_root(rig, 4096, bytes)?;
    until(rig, "network", "link      up").map(|_| ())
}

/// Sends the signal TERM to a program that runs on a kernel.
fn terminate(rig: &mut Rig, kernel: &str, program: &str) -> Result<(), Failure> {
    let pid = pid_of(rig, kernel, program)?;
    rig.ask("main", &format!("kill {pid} TERM"), PATIENCE).map(|_| ())
}

/// A program that serves a name, and its kernel.
type Started = (Running, String);

/// Starts a program that serves a name.
fn serves(rig: &mut Rig, line: Line, name: &str) -> Result<Started, Failure> {
    let running = Running::of(&rig.instance, line, b"");
    let said = until(rig, "names", &format!("  {name}\r\n"))?;
    let listed = said.lines().find(|it| it.ends_with(&format!(" {name}")));
    let kernel = listed.and_then(|it| it.split_whitespace().next()).unwrap_or_default();
    Ok((running, kernel.to_string()))
}

/// A server that runs on a kernel and is published at the host.
struct Serving {
    running: Running,
    kernel: String,
    program: String,
    /// Its port on the chip.
    port: u16,
    /// Its port on the host.
    host_port: u16,
}

impl Serving {
    /// Starts a program that listens at `port` of the chip, and publishes that.
    fn start(
        rig: &mut Rig,
        kernel: &str,
        program: &str,
        arguments: &[&str],
        port: u16,
    ) -> Result<Serving, Failure> {
        Serving::of(rig, Line::on(kernel, program, arguments), (kernel, program), port)
    }

    /// The same where its manifest says, which must be this kernel.
    fn place(rig: &mut Rig, kernel: &str, program: &str, port: u16) -> Result<Serving, Failure> {
        let serving = Serving::of(rig, Line::anywhere(program, &[]), (kernel, program), port)?;
        pid_of(rig, kernel, program)?;
        Ok(serving)
    }

    fn of(
        rig: &mut Rig,
        line: Line,
        (kernel, program): (&str, &str),
        port: u16,
    ) -> Result<Serving, Failure> {
        let running = Running::of(&rig.instance, line, b"");
        // lighttpd has a socket for each family, and clients use IPv4.
        let address = if program == LIGHTTPD { "0.0.0.0" } else { "" };
        let address = format!("{address}:{port} ");
        awaited(
            PATIENCE,
            |said| wrong("its listener", said),
            || {
                let said = rig.ask("main", "sockets", PATIENCE)?;
                let is_it = |line: &str| line.contains(" listening ") && line.contains(&address);
                let listens = said.lines().any(is_it);
                Ok((said, listens))
            },
        )?;
        let host_port = publish(rig, port)?;
        let (kernel, program) = (kernel.to_string(), program.to_string());
        Ok(Serving { running, kernel, program, port, host_port })
    }

    /// Ends it by the signal TERM. Returns what it printed, and its exit code.
    fn end(self, rig: &mut Rig) -> Result<Captured, Failure> {
        unpublish(rig, self.host_port, self.port)?;
        terminate(rig, &self.kernel, &self.program)?;
        self.running.end()
    }

    /// Returns how it ended, after its kernel died.
    fn lost(self, rig: &Rig) -> Result<Captured, Failure> {
        unpublish(rig, self.host_port, self.port)?;
        self.running.end()
    }
}

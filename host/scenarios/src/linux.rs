//! The network with Linux's own stack at the other end of the cable: programs on each kernel serve
//! its clients and connect to its echo, by both families, over a good cable and over a bad one.
//!
//! `pen-tap` (host/tap) has a TAP device in a network namespace of its own, and is the cable
//! between that and the board.

use super::machine::until;
use super::outside::{BYTES, asks, cable, has_served, join};
use super::programs::{Running, wrong};
use super::threads::put;
use super::{Failure, PATIENCE, Rig};
use board::{Device, Net};
use builds::compiler;
use deploy::exec::Line;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use tree::place::Place;

const PROGRAM: &str = "sockets";
const KERNELS: [&str; 2] = ["main", "shadow"];
/// Port of an echo, on both sides.
const PORT: u16 = 7;
/// Clients at the same time, of each family.
const CLIENTS: usize = 4;
/// Seeds of the cable; 0 is a good one.
const SEEDS: [u64; 3] = [0, 1, 2];

/// Linux in a namespace of its own, with one cable to a board.
struct Linux {
    process: Child,
    tap: PathBuf,
}

/// A command in a network of its own.
const ALONE: [&str; 3] = ["--user", "--map-root-user", "--net"];

/// Fails if this host gives processes no networks of their own.
fn needs_networks() -> Result<(), Failure> {
    let mut probe = Command::new("unshare");
    probe.args(ALONE).args(["ip", "tuntap", "add", "mode", "tap", "name", "probe"]);
    match probe.status().is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => Err(Failure::LeftOut("it needs network namespaces, /dev/net/tun and iproute2")),
    }
}

impl Linux {
    /// Waits at a socket for the board.
    fn at(socket: &Path, seed: u64, addresses: &[String]) -> Result<Linux, Failure> {
        let what = "building the network for a test";
        let tap = compiler::helper(&Place::find()?, "tap", "pen-tap", what)
            .map_err(|why| wrong("pen-tap", format!("{why:#}")))?;
        let mut command = Command::new("unshare");
        command.args(ALONE).arg(&tap).arg("join");
        command.arg(socket).arg(seed.to_string()).args(addresses);
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut linux = Linux { process, tap };
        let mut said = String::new();
        if let Some(output) = linux.process.stdout.take() {
            BufReader::new(output).read_line(&mut said)?;
        }
        match said.as_str() {
            "ready\n" => Ok(linux),
            _ => Err(wrong("pen-tap join", "it has failed; the lines above say why")),
        }
    }

    /// Runs a client of the chip. Fails as it does.
    fn talk(&self, server: SocketAddr) -> Result<(), Failure> {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.process.id().to_string()]);
        command.args(["--user", "--net", "--preserve-credentials"]).arg(&self.tap);
        let output = command.args(["talk", &server.to_string(), &BYTES.to_string()]).output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(wrong(&format!("a client of {server}"), output)),
        }
    }
}

impl Drop for Linux {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the board's network.
fn network(rig: &Rig) -> Result<Net, Failure> {
    let board = board::read(&rig.parts().board_file).map_err(|why| wrong("the board", why))?;
    let found = board.devices.into_iter().find_map(|Device { net, .. }| net);
    found.ok_or_else(|| wrong("the board", "it has no network"))
}

pub fn interoperates(rig: &mut Rig) -> Result<(), Failure> {
    needs_networks()?;
    let net = network(rig)?;
    let (v4, v6) = (net.v4, net.v6);
    let own = [format!("{}/{}", v4.gateway, v4.prefix), format!("{}/{}", v6.gateway, v6.prefix)];
    let chip = [(v4.address, PORT).into(), (v6.address, PORT).into()];
    let peer = [v4.gateway.to_string(), v6.gateway.to_string()];
    for seed in SEEDS {
        let linux = join(rig, |socket| Linux::at(socket, seed, &own))?;
        rig.expect("main> ", PATIENCE)?;
        put(rig, PROGRAM)?;
        for on in ["", "on shadow "] {
            until(rig, &format!("{on}network"), "link      up")?;
        }
        for kernel in KERNELS {
            serves(rig, &linux, kernel, chip)?;
            peer.iter().try_for_each(|host| asks(rig, kernel, PROGRAM, PORT, host))?;
            rig.counted.add(2 * CLIENTS as u64 + 2, "connections");
        }
    }
    let _ = std::fs::remove_file(cable(rig));
    Ok(())
}

/// A server of this kernel, with clients of Linux by both families at the same time.
fn serves(
    rig: &mut Rig,
    linux: &Linux,
    kernel: &str,
    chip: [SocketAddr; 2],
) -> Result<(), Failure> {
    let count = (2 * CLIENTS).to_string();
    let line = Line::on(kernel, PROGRAM, &["echo6", &PORT.to_string(), &count]);
    let serving = Running::of(&rig.instance, line, b"");
    until(rig, "sockets", &format!("listening   [::]:{PORT} "))?;
    thread::scope(|scope| {
        let clients = chip.into_iter().cycle().take(2 * CLIENTS);
        let all: Vec<_> = clients.map(|server| scope.spawn(move || linux.talk(server))).collect();
        all.into_iter().try_for_each(|one| one.join().expect("it does not panic"))
    })?;
    has_served(serving, &format!("the server on {kernel}"))
}

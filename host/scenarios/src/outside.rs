//! The network outside: programs on each kernel serve clients of the host and connect to it, by
//! IPv4 and IPv6, also while and after the strong kernel dies.

use super::machine::until;
use super::peers::wait_for_domain;
use super::programs::{Running, wrong};
use super::threads::put;
use super::{Failure, PATIENCE, Rig};
use abi::soc::state;
use deploy::exec::Line;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use workbench::network::{Forward, Network};

/// The addresses of the host's loopback, and what the chip calls them.
const HOSTS: [(IpAddr, &str); 2] = [(LOCAL, "10.0.2.2"), (LOCAL6, "fec0::2")];
pub(super) const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(super) const LOCAL6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
/// The programs, and how each answers clients of both families.
const PROGRAMS: [(&str, &str); 2] = [("sockets", "echo6"), ("sockets-rust", "echo")];
const KERNELS: [&str; 2] = ["main", "shadow"];
/// Bytes of a connection, in each direction.
pub(super) const BYTES: usize = 100_000;
/// Port of the server that continues.
const PORT: u16 = 80;

/// Returns whether the host has this address: a container may have no IPv6.
pub(super) fn has(address: IpAddr) -> bool {
    TcpListener::bind((address, 0)).is_ok()
}

/// Publishes a port of the chip at a free port of an address of the host. Returns that.
pub(super) fn publish_at(rig: &Rig, address: IpAddr, port: u16) -> Result<SocketAddr, Failure> {
    let free = TcpListener::bind((address, 0))?.local_addr()?;
    rig.instance
        .publish(&[forward(free, port)])
        .map_err(|why| wrong("publish", why.to_string()))?;
    Ok(free)
}

/// The same at 127.0.0.1. Returns the port there.
pub(super) fn publish(rig: &Rig, port: u16) -> Result<u16, Failure> {
    publish_at(rig, LOCAL, port).map(|host| host.port())
}

/// Publishes a port of 127.0.0.1 no more.
pub(super) fn unpublish(rig: &Rig, host_port: u16, port: u16) -> Result<(), Failure> {
    unpublish_at(rig, SocketAddr::new(LOCAL, host_port), port)
}

pub(super) fn unpublish_at(rig: &Rig, host: SocketAddr, port: u16) -> Result<(), Failure> {
    let done = rig.instance.unpublish(forward(host, port));
    done.map_err(|why| wrong("unpublish", why.to_string()))
}

fn forward(host: SocketAddr, port: u16) -> Forward {
    format!("{host}:{port}").parse().expect("an address and two ports")
}

/// Talks to an echo at a port of the host. Fails if there is no server: the gateway accepts a
/// connection before it asks the chip.
fn talk(host: SocketAddr) -> std::io::Result<()> {
    tap::talk(host, BYTES, PATIENCE)
}

/// The same as soon as there is a server.
fn reach(host: SocketAddr) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        match talk(host) {
            Err(_) if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(100)),
            result => return result.map_err(Failure::Host),
        }
    }
}

/// A server of this kernel, which listens at ::, for clients of the host by both families.
fn serves(rig: &Rig, kernel: &str, (program, echo): (&str, &str)) -> Result<(), Failure> {
    let hosts: Vec<_> = HOSTS.iter().map(|host| host.0).filter(|host| has(*host)).collect();
    let count = (2 + hosts.len()).to_string();
    let line = Line::on(kernel, program, &[echo, "7", &count]);
    let serving = Running::of(&rig.instance, line, b"");
    let hosts: Result<Vec<_>, _> = hosts.iter().map(|host| publish_at(rig, *host, 7)).collect();
    let hosts = hosts?;
    for &host in &hosts {
        // Attempts before it listens are refused, and do not count.
        reach(host)?;
    }
    let (first, last) = (hosts[0], hosts[hosts.len() - 1]);
    let other = thread::spawn(move || talk(first));
    talk(last)?;
    other.join().expect("it does not panic")?;
    has_served(serving, &format!("{program} on {kernel}"))?;
    hosts.iter().try_for_each(|host| unpublish_at(rig, *host, 7))
}

/// Waits for the end of an echo of these programs, which must have served all its connections.
pub(super) fn has_served(serving: Running, what: &str) -> Result<(), Failure> {
    let found = serving.end()?;
    let is_good = found.code == 0 && found.out.ends_with(b"all connections have ended\n");
    if is_good { Ok(()) } else { Err(wrong(what, found)) }
}

/// A client of this kernel for a server at an address of the host, which the chip calls `name`.
fn connects(rig: &Rig, kernel: &str, program: &str, host: (IpAddr, &str)) -> Result<(), Failure> {
    let (address, name) = host;
    let listener = TcpListener::bind((address, 0))?;
    let port = listener.local_addr()?.port();
    let server = thread::spawn(move || tap::echo(listener.accept()?.0));
    asks(rig, kernel, program, port, name)?;
    server.join().expect("it does not panic").map_err(Failure::Host)
}

/// A client of this kernel for an echo at a port of a host.
pub(super) fn asks(
    rig: &Rig,
    kernel: &str,
    program: &str,
    port: u16,
    host: &str,
) -> Result<(), Failure> {
    let line = Line::on(kernel, program, &["client", &port.to_string(), &BYTES.to_string(), host]);
    let found = Running::of(&rig.instance, line, b"").end()?;
    let wanted = format!("{BYTES} of {BYTES} bytes came back\n");
    match found.code == 0 && found.out == wanted.as_bytes() {
        true => Ok(()),
        false => Err(wrong(&format!("{program} on {kernel}, to {host}"), found)),
    }
}

/// Starts the board again with its cable in a socket, where `network` waits for it. Returns the
/// network; the socket is at [`cable`].
pub(super) fn join<T>(
    rig: &mut Rig,
    network: impl FnOnce(&Path) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (socket, mut joined) = (cable(rig), None);
    rig.set_network(Network::Socket(socket.clone()));
    rig.restart(|_| {
        // What an earlier one has left.
        let _ = std::fs::remove_file(&socket);
        joined = Some(network(&socket)?);
        Ok(())
    })?;
    joined.ok_or_else(|| wrong("the network", "it did not begin"))
}

/// Where that is: beside the run folder, from which a start removes what it does not know.
pub(super) fn cable(rig: &Rig) -> PathBuf {
    rig.instance.folder.with_added_extension("cable")
}

/// Programs in C and Rust on each kernel, both ways. Then a server on the weak kernel continues
/// while the strong one dies and boots again.
pub fn both_ways(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    for (program, _) in PROGRAMS {
        put(rig, program)?;
    }
    for on in ["", "on shadow "] {
        until(rig, &format!("{on}network"), "link      up")?;
    }
    for kernel in KERNELS {
        for program in PROGRAMS {
            serves(rig, kernel, program)?;
            for host in HOSTS.into_iter().filter(|host| has(host.0)) {
                connects(rig, kernel, program.0, host)?;
            }
        }
    }
    until(rig, "sockets", "state")?;
    continues(rig)
}

fn continues(rig: &mut Rig) -> Result<(), Failure> {
    let program = format!("on shadow aside program {} serve {PORT}", PROGRAMS[0].0);
    super::machine::demand(rig, &program, "begun")?;
    let host = publish_at(rig, LOCAL, PORT)?;
    reach(host)?;
    let runs = |_, now| now == state::RUNNING;
    for _ in 0..3 {
        let before = wait_for_domain(rig, 0, "ran", runs)?;
        rig.kill("main")?;
        // At once, while main is dead or boots.
        reach(host)?;
        let is_next = |epoch, now| epoch == before + 1 && now == state::RUNNING;
        wait_for_domain(rig, 0, "came back", is_next)?;
        reach(host)?;
    }
    Ok(())
}

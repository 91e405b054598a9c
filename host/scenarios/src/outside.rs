//! The network outside: programs on each kernel serve clients of the host and connect to it, also
//! while and after the strong kernel dies.

use super::machine::until;
use super::peers::wait_for_domain;
use super::programs::{Running, wrong};
use super::threads::put;
use super::{Failure, PATIENCE, Rig};
use abi::soc::state;
use deploy::exec::Line;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use workbench::network::Forward;

/// The host, as the chip sees it.
const HOST: &str = "10.0.2.2";
const PROGRAMS: [&str; 2] = ["sockets", "sockets-rust"];
const KERNELS: [&str; 2] = ["main", "shadow"];
/// Bytes of a connection, in each direction.
const BYTES: usize = 100_000;
/// Port of the server that continues.
const PORT: u16 = 80;

/// Publishes a port of the chip at a free port of the host. Returns that.
pub(super) fn publish(rig: &Rig, port: u16) -> Result<u16, Failure> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let forward: Forward = format!("{free}:{port}").parse().expect("two ports");
    rig.instance.publish(&[forward]).map_err(|why| wrong("publish", why.to_string()))?;
    Ok(free)
}

pub(super) fn unpublish(rig: &Rig, host_port: u16, port: u16) -> Result<(), Failure> {
    let forward = format!("{host_port}:{port}").parse().expect("two ports");
    rig.instance.unpublish(forward).map_err(|why| wrong("unpublish", why.to_string()))
}

fn pattern() -> Vec<u8> {
    (0..BYTES as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Sends a pattern to an echo at a port of the host, and compares what comes back. Fails if there
/// is no server: the gateway accepts a connection before it asks the chip.
fn talk(host_port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, host_port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut sending = stream.try_clone()?;
    let sender = thread::spawn(move || {
        sending.write_all(&pattern())?;
        sending.shutdown(std::net::Shutdown::Write)
    });
    let mut back = Vec::new();
    let read = stream.read_to_end(&mut back);
    let sent = sender.join().expect("it does not panic");
    read.and(sent)?;
    match back == pattern() {
        true => Ok(()),
        false => Err(ErrorKind::InvalidData.into()),
    }
}

/// The same as soon as there is a server.
fn reach(host_port: u16) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        match talk(host_port) {
            Err(_) if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(100)),
            result => return result.map_err(Failure::Host),
        }
    }
}

/// A server of this kernel for clients of the host.
fn serves(rig: &Rig, kernel: &str, program: &str) -> Result<(), Failure> {
    let line = Line::on(kernel, program, &["echo", "7", "3"]);
    let serving = Running::of(&rig.instance, line, b"");
    let host_port = publish(rig, 7)?;
    // Attempts before it listens are refused, and do not count.
    reach(host_port)?;
    let other = thread::spawn(move || talk(host_port));
    talk(host_port)?;
    other.join().expect("it does not panic")?;
    let found = serving.end()?;
    unpublish(rig, host_port, 7)?;
    let is_good = found.code == 0 && found.out.ends_with(b"all connections have ended\n");
    if is_good { Ok(()) } else { Err(wrong(&format!("{program} on {kernel}"), found)) }
}

/// Sends back what a client sends.
fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            some => stream.write_all(&bytes[..some])?,
        }
    }
}

/// A client of this kernel for a server of the host.
fn connects(rig: &Rig, kernel: &str, program: &str) -> Result<(), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port().to_string();
    let server = thread::spawn(move || echo(listener.accept()?.0));
    let bytes = BYTES.to_string();
    let line = Line::on(kernel, program, &["client", &port, &bytes, HOST]);
    let found = Running::of(&rig.instance, line, b"").end()?;
    let wanted = format!("{BYTES} of {BYTES} bytes came back\n");
    if found.code != 0 || found.out != wanted.as_bytes() {
        return Err(wrong(&format!("{program} on {kernel}, to the host"), found));
    }
    server.join().expect("it does not panic").map_err(Failure::Host)
}

/// Programs in C and Rust on each kernel, both ways. Then a server on the weak kernel continues
/// while the strong one dies and boots again.
pub fn both_ways(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    for program in PROGRAMS {
        put(rig, program)?;
    }
    for on in ["", "on shadow "] {
        until(rig, &format!("{on}network"), "link      up")?;
    }
    for kernel in KERNELS {
        for program in PROGRAMS {
            serves(rig, kernel, program)?;
            connects(rig, kernel, program)?;
        }
    }
    until(rig, "sockets", "state")?;
    continues(rig)
}

fn continues(rig: &mut Rig) -> Result<(), Failure> {
    let program = format!("on shadow aside program {} serve {PORT}", PROGRAMS[0]);
    super::machine::demand(rig, &program, "begun")?;
    let host_port = publish(rig, PORT)?;
    reach(host_port)?;
    let runs = |_, now| now == state::RUNNING;
    for _ in 0..3 {
        let before = wait_for_domain(rig, 0, "ran", runs)?;
        rig.kill("main")?;
        // At once, while main is dead or boots.
        reach(host_port)?;
        let is_next = |epoch, now| epoch == before + 1 && now == state::RUNNING;
        wait_for_domain(rig, 0, "came back", is_next)?;
        reach(host_port)?;
    }
    Ok(())
}

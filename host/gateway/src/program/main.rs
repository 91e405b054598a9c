//! `pen-gateway`: the user's network of a board, in a process of its own.
//!
//! It is one thread: libslirp between the soc's socket and sockets of the host. It needs no root,
//! no namespace and no network: without one, only the host itself is reachable. Its starter, the
//! soc, ends it; if it crashes, the board continues without a network and the soc starts another
//! one, which publishes the same ports.
//!
//! - [`ffi`]  libslirp
//! - [`server`]  requests of the control socket
//! - [`published`]  the published ports, and their file

mod ffi;
mod published;
mod server;

use clap::Parser;
use ffi::{Settings, Slirp};
use gateway::frames::{Detached, Frames};
use published::Published;
use rustix::event::PollFlags;
use server::Server;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Frames of the chip that are read at a time.
const FRAMES: usize = 64;
/// Time between two attempts to connect to the soc.
const RETRY: Duration = Duration::from_millis(100);
/// Longest wait.
const WAIT: Duration = Duration::from_secs(60);

/// The user's network of a board.
#[derive(Parser)]
#[command(name = "pen-gateway", version)]
struct Line {
    /// Socket of the soc's network device.
    #[arg(long)]
    link: PathBuf,
    /// Socket for requests, which is created.
    #[arg(long)]
    control: PathBuf,
    /// File of the published ports; they are published again when the gateway is started again.
    #[arg(long)]
    published: PathBuf,
    /// The chip, with the prefix of its network.
    #[arg(long, value_parser = with_prefix::<Ipv4Addr>)]
    address: (Ipv4Addr, u8),
    /// This host.
    #[arg(long)]
    gateway: Ipv4Addr,
    /// The server of names.
    #[arg(long)]
    names: Ipv4Addr,
    /// The chip's IPv6 address.
    #[arg(long, value_parser = with_prefix::<Ipv6Addr>)]
    address6: (Ipv6Addr, u8),
    /// This host's IPv6 address.
    #[arg(long)]
    gateway6: Ipv6Addr,
    /// The server of names by IPv6.
    #[arg(long)]
    names6: Ipv6Addr,
}

fn with_prefix<A: std::str::FromStr>(text: &str) -> Result<(A, u8), &'static str> {
    let why = "an address with a prefix, such as 10.0.2.15/24";
    let (address, prefix) = text.split_once('/').ok_or(why)?;
    let prefix = prefix.parse().ok().filter(|prefix| (1..=126).contains(prefix)).ok_or(why)?;
    Ok((address.parse().map_err(|_| why)?, prefix))
}

/// Returns the network that libslirp is to make. A server of names outside of it is reached like
/// any other host, and libslirp plays none.
fn settings(line: &Line) -> Settings {
    let ((chip, prefix), (chip6, prefix6)) = (line.address, line.address6);
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    let mask6 = u128::MAX << (128 - u32::from(prefix6));
    let network = chip.to_bits() & mask;
    let network6 = chip6.to_bits() & mask6;
    let inside = line.names.to_bits() & mask == network && line.names != line.gateway;
    let inside6 = line.names6.to_bits() & mask6 == network6 && line.names6 != line.gateway6;
    Settings {
        chip,
        network: network.into(),
        mask: mask.into(),
        host: line.gateway,
        names: if inside { line.names } else { Ipv4Addr::UNSPECIFIED },
        network6: network6.into(),
        prefix6,
        host6: line.gateway6,
        names6: if inside6 { line.names6 } else { Ipv6Addr::UNSPECIFIED },
    }
}

fn main() -> ExitCode {
    let line = Line::parse();
    let result = Gateway::open(&line).and_then(|mut gateway| gateway.run(&line.link));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("gateway: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The two sides of the network.
struct Gateway {
    slirp: Slirp,
    soc: Option<Frames>,
    server: Server,
    published: Published,
    /// libslirp has had frames since it was called last: an answer to ARP may let it send others.
    is_fed: bool,
}

impl Gateway {
    fn open(line: &Line) -> std::io::Result<Gateway> {
        let refused = || std::io::Error::other("libslirp refuses these addresses");
        let mut slirp = Slirp::new(&settings(line)).ok_or_else(refused)?;
        let mut published = Published::new((line.address.0, line.address6.0), &line.published);
        published.restore(&mut slirp);
        let server = Server::open(&line.control)?;
        Ok(Gateway { slirp, soc: None, server, published, is_fed: false })
    }

    /// Runs until a system call fails.
    fn run(&mut self, link: &Path) -> std::io::Result<()> {
        loop {
            self.attach(link);
            self.send();
            self.wait()?;
            self.receive();
            for (client, request) in self.server.take() {
                let answer = self.published.carry_out(&mut self.slirp, request);
                self.server.answer(client, &answer);
            }
        }
    }

    /// Connects to the soc, which may restart.
    fn attach(&mut self, link: &Path) {
        if self.soc.is_none() {
            self.soc = UnixStream::connect(link).and_then(Frames::new).ok();
        }
    }

    fn detach(&mut self, why: &Detached) {
        eprintln!("gateway: the soc: {why}");
        self.soc = None;
    }

    /// Waits for all sockets. While the soc does not read, the network's sockets are left alone, so
    /// that their senders wait instead of losing data.
    fn wait(&mut self) -> std::io::Result<()> {
        let mut waits = self.server.waits_for();
        let most = match &self.soc {
            Some(_) if self.is_fed => Duration::ZERO,
            Some(_) => WAIT,
            None => RETRY,
        };
        self.is_fed = false;
        let mut reads = true;
        if let Some(soc) = &self.soc {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, soc.is_behind());
            waits.push((soc.as_fd(), flags));
            reads = soc.has_room();
        }
        match reads {
            true => self.slirp.wait(&waits, most),
            false => ffi::wait(waits.into_iter(), most.as_millis() as u32).1,
        }
    }

    /// Passes frames to the soc, as long as it has room; without a soc they are lost.
    fn send(&mut self) {
        let Some(soc) = &mut self.soc else {
            while self.slirp.next().is_some() {}
            return;
        };
        let mut result = soc.flush();
        while result.is_ok()
            && soc.has_room()
            && let Some(frame) = self.slirp.next()
        {
            result = soc.send(&frame);
        }
        if let Err(why) = result {
            self.detach(&why);
        }
    }

    /// Passes frames of the chip to the network.
    fn receive(&mut self) {
        let Some(soc) = &mut self.soc else { return };
        let mut frames = VecDeque::new();
        let result = soc.read(&mut frames, FRAMES);
        self.is_fed |= !frames.is_empty();
        frames.iter().for_each(|frame| self.slirp.input(frame));
        if let Err(why) = result {
            self.detach(&why);
        }
    }
}

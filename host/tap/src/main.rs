//! `pen-tap`: the network stack of Linux at the other end of a board's cable.
//!
//! ```text
//!   soc -- frames in a unix socket -- pen-tap join -- TAP device -- Linux -- echo, pen-tap talk
//! ```
//! - `pen-tap join SOCKET SEED ADDRESS/PREFIX...` makes the device, with these addresses, and
//!   offers the socket to a board. Then it is the cable: without faults if SEED is 0, otherwise
//!   with those of [`BAD`]. It serves as an echo at port 7, and ends with its standard input.
//! - `pen-tap talk ADDRESS:PORT BYTES` is a client of an echo.
//!
//! It changes the interfaces of the network namespace that it runs in, so it wants one of its own:
//! `unshare --user --map-root-user --net pen-tap join ...`, then
//! `nsenter --target PID --user --net --preserve-credentials pen-tap talk ...`.

use anyhow::{Context, bail};
use gateway::frames::Frames;
use smoltcp::phy::{Device, Medium, RxToken, TunTapInterface, TxToken, wait};
use smoltcp::time::{Duration as Pause, Instant as Moment};
use soc::virtio::net::peer::cable::{Cable, End};
use soc::virtio::net::peer::script::Faults;
use std::collections::VecDeque;
use std::io::Read;
use std::net::{Ipv6Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str =
    "usage: pen-tap join SOCKET SEED ADDRESS/PREFIX... | pen-tap talk ADDRESS:PORT BYTES";
/// The device.
const NAME: &str = "tap0";
/// Port of the echo.
const ECHO: u16 = 7;
/// A silence of an echo that is longer is an error.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longest time until frames of the board, and those under way, are looked at.
const PAUSE: Pause = Pause::from_millis(1);
/// Frames of the board read at a time.
const AHEAD: usize = 64;
/// A bad cable.
const BAD: Faults = Faults {
    delay_us: 500,
    jitter_us: 500,
    loses: 20,
    repeats: 20,
    corrupts: 5,
    late: 50,
    late_us: 3_000,
};
const GOOD: Faults =
    Faults { delay_us: 0, jitter_us: 0, loses: 0, repeats: 0, corrupts: 0, late: 0, late_us: 0 };

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["join", socket, seed, addresses @ ..] => join(socket, seed.parse()?, addresses),
        ["talk", server, count] => {
            tap::talk(server.parse()?, count.parse()?, PATIENCE).with_context(|| server.to_string())
        }
        _ => bail!(USAGE),
    }
}

fn join(socket: &str, seed: u64, addresses: &[&str]) -> anyhow::Result<()> {
    let device = TunTapInterface::new(NAME, Medium::Ethernet)
        .context("no TAP device: it needs /dev/net/tun, and a network namespace of its own")?;
    configure(addresses)?;
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, ECHO)).context("the echo")?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that is gone is missed by the test that has it.
            thread::spawn(|| tap::echo(stream));
        }
    });
    thread::spawn(|| {
        // The end of the test, however it ended.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let door = UnixListener::bind(socket).with_context(|| socket.to_string())?;
    println!("ready");
    let frames = Frames::new(door.accept()?.0)?;
    let faults = if seed == 0 { GOOD } else { BAD };
    carry(device, frames, Cable::new(faults, seed))
}

/// Gives the device its addresses.
fn configure(addresses: &[&str]) -> anyhow::Result<()> {
    ip(&["link", "set", "lo", "up"])?;
    ip(&["link", "set", NAME, "up"])?;
    addresses.iter().try_for_each(|address| {
        // No other host has the address, so Linux need not ask for a second whether that is so.
        let at_once: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
        ip(&[&["address", "add", address, "dev", NAME], at_once].concat())
    })
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("ip").args(arguments).status().context("ip, of iproute2")?;
    if status.success() { Ok(()) } else { bail!("ip {}: {status}", arguments.join(" ")) }
}

/// Is the cable until the board is gone.
fn carry(mut device: TunTapInterface, mut frames: Frames, mut cable: Cable) -> anyhow::Result<()> {
    let (begun, mut arrived) = (Instant::now(), VecDeque::new());
    loop {
        wait(device.as_raw_fd(), Some(PAUSE))?;
        let now = begun.elapsed().as_nanos() as u64;
        while let Some((received, _)) = device.receive(Moment::ZERO) {
            received.consume(|frame| cable.send(now, End::Chip, frame.to_vec()));
        }
        frames.read(&mut arrived, AHEAD)?;
        for frame in arrived.drain(..) {
            cable.send(now, End::Peer, frame);
        }
        while let Some((end, frame)) = cable.take(now) {
            match end {
                End::Chip if frames.has_room() => frames.send(&frame)?,
                End::Chip => {} // Lost, as on any network.
                End::Peer => {
                    let token = device.transmit(Moment::ZERO).context("the device is gone")?;
                    token.consume(frame.len(), |into| into.copy_from_slice(&frame));
                }
            }
        }
        frames.flush()?;
    }
}

//! Floods from outside: while strangers attack a server with SYNs, with connections that they hold
//! and by reading slowly, another host fetches from it, and loopback works. Afterwards no socket of
//! theirs is left, and the memory is there again.

mod attack;
mod hosts;

use super::machine::{demand, until};
use super::outside::{cable, join};
use super::programs::{Running, pid_of, wrong};
use super::services::line_of;
use super::threads::put;
use super::{Failure, PATIENCE, Rig};
use attack::{Attack, PORT};
use deploy::exec::Line;
use hosts::Hosts;
use std::time::{Duration, Instant};

const PROGRAM: &str = "sockets";
/// Bytes of a fetch.
const BYTES: u32 = 40_000;
/// Sockets that strangers have while they attack, at least.
const STRANGERS: u32 = 60;
/// Fetches during an attack.
const FETCHES: usize = 3;
/// Time limit for a fetch: connections that wait for a place in the backlog repeat their SYN, with
/// pauses that double.
const BOUND: Duration = Duration::from_secs(60);
/// Memory by which tables may have grown, in KiB.
const GROWTH: u64 = 300;

const ATTACKS: [Attack; 5] =
    [Attack::Syns, Attack::TinyWindows, Attack::SlowReaders, Attack::Crowd, Attack::HalfOpen];

/// The kernels of the server.
const KERNELS: [&str; 2] = ["main", "shadow"];

pub fn floods(rig: &mut Rig) -> Result<(), Failure> {
    let hosts = join(rig, Hosts::at)?;
    rig.expect("main> ", PATIENCE)?;
    put(rig, PROGRAM)?;
    until(rig, "network", "link      up")?;
    for kernel in KERNELS {
        attacked(rig, &hosts, kernel)?;
    }
    let _ = std::fs::remove_file(cable(rig));
    match hosts.stop()? {
        0..2000 => Err(wrong("the strangers", "they sent nearly nothing")),
        _ => Ok(()),
    }
}

/// A server on this kernel endures all attacks.
fn attacked(rig: &mut Rig, hosts: &Hosts, kernel: &str) -> Result<(), Failure> {
    let line = Line::on(kernel, PROGRAM, &["endure", &PORT.to_string()]);
    let serving = Running::of(&rig.instance, line, b"");
    until(rig, "sockets", &format!("0.0.0.0:{PORT} "))?;
    hosts.fetch(BYTES, BOUND)?;
    let before = used(rig)?;
    for attack in ATTACKS {
        hosts.attack(attack);
        wait_for_strangers(rig)?;
        for _ in 0..FETCHES {
            let fetched = hosts.fetch(BYTES, BOUND);
            fetched.map_err(|why| wrong(&format!("{attack:?} on {kernel}"), why))?;
            demand(rig, "net check 4", "all as sent")?;
        }
    }
    hosts.attack(Attack::Rest);
    hosts.fetch(BYTES, BOUND)?;
    let pid = pid_of(rig, kernel, PROGRAM)?;
    rig.ask("main", &format!("kill {pid} TERM"), PATIENCE)?;
    let found = serving.end()?;
    if !found.out.is_empty() {
        return Err(wrong("the server", found));
    }
    until(rig, "network", "sockets   0 of 2048, 0 of 1072 outside")?;
    let after = used(rig)?;
    match after <= before + GROWTH {
        true => Ok(()),
        false => Err(wrong("memory of the network service", (before, after))),
    }
}

/// Waits until strangers have so many sockets that the attack is one.
fn wait_for_strangers(rig: &mut Rig) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let said = rig.ask("main", "network", PATIENCE)?;
        let words: Vec<&str> = said.split_whitespace().collect();
        let outside = words.windows(4).find(|it| matches!(it, [_, "of", _, "outside"]));
        let count: Option<u32> = outside.and_then(|it| it[0].parse().ok());
        match count {
            Some(STRANGERS..) => return Ok(()),
            Some(_) if start.elapsed() < PATIENCE => {}
            _ => return Err(wrong("the strangers have too few sockets", said)),
        }
    }
}

/// Returns the KiB that the network service uses.
fn used(rig: &mut Rig) -> Result<u64, Failure> {
    let words = line_of(rig, "", "net")?;
    let of = words.iter().position(|word| word == "of");
    let found = of.and_then(|of| words[of - 1].parse().ok());
    found.ok_or_else(|| wrong("services", words))
}

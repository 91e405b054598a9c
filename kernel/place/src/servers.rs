//! Affinity to the servers of contracts, and to what names lead to, wherever they run.

use crate::Facts;
use abi::names::Name;
use core::fmt::{self, Write};

/// An endpoint of a program's manifest: how it wants to run relative to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affinity {
    pub to: To,
    /// Positive: near to them, negative: apart from them, 0: it does not matter.
    pub value: i32,
}

/// The servers that an endpoint leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Those of the contract with this hash.
    Contract([u8; 16]),
    /// Those with this name, or one below it.
    Name(Name),
}

/// A name, and what serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    pub name: Name,
    /// Hash of the contract.
    pub contract: [u8; 16],
    /// Index of its kernel.
    pub kernel: usize,
    /// Its process; 0: the kernel itself.
    pub pid: u32,
}

impl Server {
    fn is(&self, to: &To) -> bool {
        match to {
            To::Contract(contract) => self.contract == *contract,
            To::Name(name) => self.name == *name || self.name.is_below(name),
        }
    }
}

/// Iterates over the servers that an endpoint leads to. Each process counts once, whatever the
/// number of its names.
fn servers_of<'a>(servers: &'a [Server], to: &'a To) -> impl Iterator<Item = &'a Server> {
    let is_new = |at: usize, it: &Server| {
        let mut before = servers.iter().take(at).filter(|other| other.is(to));
        !before.any(|other| (other.kernel, other.pid) == (it.kernel, it.pid))
    };
    let found = servers.iter().enumerate().filter(|(_, server)| server.is(to));
    found.filter(move |(at, server)| is_new(*at, server)).map(|(_, server)| server)
}

/// Writes a line about an endpoint, for people: the contract or `name`, what the program wants, and
/// where it is served. `is_own`: the program serves it itself.
pub fn explain_endpoint(
    out: &mut dyn Write,
    (name, is_own): (&str, bool),
    affinity: &Affinity,
    servers: &[Server],
    kernel: &dyn Fn(usize) -> &'static str,
) -> fmt::Result {
    write!(out, "  {name}: ")?;
    match affinity.value {
        _ if is_own => write!(out, "its own, instances apart ({})", affinity.value)?,
        0 => out.write_str("anywhere")?,
        value @ 1.. => write!(out, "near (+{value})")?,
        value => write!(out, "apart ({value})")?,
    }
    let mut before = "; served on ";
    for server in servers_of(servers, &affinity.to) {
        write!(out, "{before}{}", kernel(server.kernel))?;
        if server.pid != 0 {
            write!(out, " by process {}", server.pid)?;
        }
        before = ", ";
    }
    writeln!(out, "{}", if before == ", " { "" } else { "; not served now" })
}

/// Returns whether the servers must be known to choose a kernel.
pub fn is_wanted(affinities: &[Affinity]) -> bool {
    affinities.iter().any(|affinity| affinity.value != 0)
}

/// Adds the affinities to the facts about the kernels.
pub fn weigh(affinities: &[Affinity], servers: &[Server], kernels: &mut [Facts]) {
    for affinity in affinities {
        for server in servers_of(servers, &affinity.to) {
            let Some(facts) = kernels.get_mut(server.kernel) else { continue };
            let sum = if affinity.value > 0 { &mut facts.near } else { &mut facts.apart };
            *sum = sum.saturating_add(affinity.value.unsigned_abs());
        }
    }
}

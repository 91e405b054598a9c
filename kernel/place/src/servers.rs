//! Affinity to the servers of contracts, wherever they run.

use crate::Facts;
use core::fmt::{self, Write};

/// An endpoint of a program's manifest: how it wants to run relative to the servers of a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// Hash of the contract.
    pub contract: [u8; 16],
    /// Positive: near to them, negative: apart from them, 0: it does not matter.
    pub value: i32,
}

/// A process that serves a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Hash of the contract.
    pub contract: [u8; 16],
    /// Index of its kernel.
    pub kernel: usize,
    pub pid: u32,
}

/// Writes a line about an endpoint, for people: the contract's `name`, what the program wants, and
/// where the contract is served. `is_own`: the program serves it itself.
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
    for server in servers.iter().filter(|it| it.contract == affinity.contract) {
        write!(out, "{before}{} by process {}", kernel(server.kernel), server.pid)?;
        before = ", ";
    }
    writeln!(out, "{}", if before == ", " { "" } else { "; not served now" })
}

/// Returns whether the servers must be known to choose a kernel.
pub fn is_wanted(affinities: &[Affinity]) -> bool {
    affinities.iter().any(|affinity| affinity.value != 0)
}

/// Adds the affinities to the facts about the kernels. A process counts once for each contract,
/// whatever the number of its names.
pub fn weigh(affinities: &[Affinity], servers: &[Server], kernels: &mut [Facts]) {
    for (at, server) in servers.iter().enumerate() {
        let is_known = servers.iter().take(at).any(|other| other == server);
        let Some(facts) = kernels.get_mut(server.kernel).filter(|_| !is_known) else { continue };
        for affinity in affinities.iter().filter(|it| it.contract == server.contract) {
            let sum = if affinity.value > 0 { &mut facts.near } else { &mut facts.apart };
            *sum = sum.saturating_add(affinity.value.unsigned_abs());
        }
    }
}

//! Affinity to the servers of contracts, wherever they run.

use crate::Facts;

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

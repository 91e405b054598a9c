//! The choice of the kernel that runs a new process. `docs/design/processes.md` explains the
//! policy; `kernel/programs/src/processes/place.rs` collects the facts.
//!
//! ```text
//!   the caller requested a kernel ----> that kernel, or an error
//!   otherwise --> kernels of the program's class (normal: strong cores, light: weak cores) that
//!                 are available, in this order of preference:
//!                   1. has memory           2. fewest processes per core
//!                   3. the caller's kernel  4. first on the board
//!                 none available, or none with memory --> the same among the other kernels
//! ```
//! Contract: an unavailable kernel is never chosen. The choice is a function of the facts alone.
#![cfg_attr(not(test), no_std)]

#[cfg(test)]
mod tests;

use abi::program::class;

/// What is known of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether it can run processes: its domain is running or asleep, and it shares the process
    /// table.
    pub is_available: bool,
    /// Whether its cores are strong.
    pub is_strong: bool,
    pub cores: u32,
    /// Number of its processes.
    pub processes: u32,
    /// Free memory in bytes, if known.
    pub free: Option<u64>,
}

/// The free memory in bytes that a kernel needs to be preferred: enough for a small program's
/// memory and stack, and for what the kernel stores about it.
pub const ENOUGH: u64 = 4 << 20;

impl Facts {
    fn is_low_on_memory(&self) -> bool {
        self.free.is_some_and(|free| free < ENOUGH)
    }

    /// Returns whether it is less loaded than `other`, both with one more process: of two idle
    /// kernels, the one with more cores is less loaded.
    fn is_less_loaded(&self, other: &Facts) -> bool {
        let load =
            |one: &Facts, by: &Facts| (u64::from(one.processes) + 1) * u64::from(by.cores.max(1));
        load(self, other) < load(other, self)
    }
}

/// Why no kernel was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The board has no such kernel.
    NoSuchKernel,
    /// The requested kernel, or every kernel, is unavailable.
    Unavailable,
}

/// Returns the index in `kernels` of the one that runs a program of `class`. `here` is the caller's
/// kernel, `requested` the one it asked for.
pub fn choose(
    requested: Option<u32>,
    class: u32,
    here: usize,
    kernels: &[Facts],
) -> Result<usize, Refused> {
    if let Some(requested) = requested {
        let at = usize::try_from(requested).map_err(|_| Refused::NoSuchKernel)?;
        let facts = kernels.get(at).ok_or(Refused::NoSuchKernel)?;
        return if facts.is_available { Ok(at) } else { Err(Refused::Unavailable) };
    }
    let wants_strong = class != class::LIGHT;
    let best = |wanted: &dyn Fn(&Facts) -> bool| best(here, kernels, wanted);
    best(&|facts| facts.is_strong == wants_strong && !facts.is_low_on_memory())
        .or_else(|| best(&|facts| facts.is_strong != wants_strong && !facts.is_low_on_memory()))
        .or_else(|| best(&|facts| facts.is_strong == wants_strong))
        .or_else(|| best(&|_| true))
        .ok_or(Refused::Unavailable)
}

/// Returns whether several available kernels match `class`, so that their load must be known to
/// choose one.
pub fn needs_load(class: u32, kernels: &[Facts]) -> bool {
    let side = |facts: &&Facts| facts.is_available && facts.is_strong == (class != class::LIGHT);
    kernels.iter().filter(side).count() > 1
}

/// Returns the least loaded of the available kernels for which `wanted` holds.
fn best(here: usize, kernels: &[Facts], wanted: &dyn Fn(&Facts) -> bool) -> Option<usize> {
    let mut best: Option<(usize, &Facts)> = None;
    for (at, facts) in kernels.iter().enumerate().filter(|(_, f)| f.is_available && wanted(f)) {
        let is_better = best.is_none_or(|(_, other)| {
            facts.is_less_loaded(other) || at == here && !other.is_less_loaded(facts)
        });
        if is_better {
            best = Some((at, facts));
        }
    }
    best.map(|(at, _)| at)
}

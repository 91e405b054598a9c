//! Which kernel runs a new process: a choice, and nothing else. What it is made of is in
//! `docs/design/processes.md`; who knows the facts is `kernel/image/src/processes/place.rs`.
//!
//! ```text
//!   a wish for a kernel ----> that one, or why not
//!   none --> a class's side: normal = strong, light = weak; of its kernels that are there
//!              1. one that has memory      2. fewest processes a core
//!              3. the asker's own          4. the first of the board
//!            nobody there, or none of them with memory --> the same of the other side
//! ```
//! Contract: a kernel that is not there is never chosen. The same facts give the same kernel.
#![cfg_attr(not(test), no_std)]

#[cfg(test)]
mod tests;

use abi::program::class;

/// What is known of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Can it be asked for a process: does it live, or sleep, and share the process table?
    pub is_there: bool,
    /// Is it one of strong cores?
    pub is_strong: bool,
    /// Its cores.
    pub cores: u32,
    /// Processes that live there.
    pub processes: u32,
    /// Bytes of memory that are free there, if anybody knows.
    pub free: Option<u64>,
}

/// A kernel with less memory than this is for nobody who may go elsewhere: a small program's
/// memory, its stack, and what its kernel keeps.
pub const ENOUGH: u64 = 4 << 20;

impl Facts {
    fn is_short(&self) -> bool {
        self.free.is_some_and(|free| free < ENOUGH)
    }

    /// Has it less to do than `other`? One more process counts on both, so that of two idle ones
    /// that with more cores has less.
    fn is_calmer(&self, other: &Facts) -> bool {
        let load =
            |one: &Facts, by: &Facts| (u64::from(one.processes) + 1) * u64::from(by.cores.max(1));
        load(self, other) < load(other, self)
    }
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The board has no such kernel.
    NoSuch,
    /// It does not live, or cannot be asked.
    NotThere,
}

/// The place in `kernels` of the one that runs a program of `class`, for who asks on `here` and
/// wishes for `wish`.
pub fn place(
    wish: Option<u32>,
    class: u32,
    here: usize,
    kernels: &[Facts],
) -> Result<usize, Refused> {
    if let Some(wish) = wish {
        let at = usize::try_from(wish).map_err(|_| Refused::NoSuch)?;
        let facts = kernels.get(at).ok_or(Refused::NoSuch)?;
        return if facts.is_there { Ok(at) } else { Err(Refused::NotThere) };
    }
    let wants_strong = class != class::LIGHT;
    let best = |wanted: &dyn Fn(&Facts) -> bool| best(here, kernels, wanted);
    best(&|facts| facts.is_strong == wants_strong && !facts.is_short())
        .or_else(|| best(&|facts| facts.is_strong != wants_strong && !facts.is_short()))
        .or_else(|| best(&|facts| facts.is_strong == wants_strong))
        .or_else(|| best(&|_| true))
        .ok_or(Refused::NotThere)
}

/// Do kernels that may be chosen for `class` differ in load? Else nobody need ask for it.
pub fn needs_load(class: u32, kernels: &[Facts]) -> bool {
    let side = |facts: &&Facts| facts.is_there && facts.is_strong == (class != class::LIGHT);
    kernels.iter().filter(side).count() > 1
}

/// The one of those that are there and `wanted` that has least to do.
fn best(here: usize, kernels: &[Facts], wanted: &dyn Fn(&Facts) -> bool) -> Option<usize> {
    let mut best: Option<(usize, &Facts)> = None;
    for (at, facts) in kernels.iter().enumerate().filter(|(_, f)| f.is_there && wanted(f)) {
        let is_better = best.is_none_or(|(_, other)| {
            facts.is_calmer(other) || at == here && !other.is_calmer(facts)
        });
        if is_better {
            best = Some((at, facts));
        }
    }
    best.map(|(at, _)| at)
}

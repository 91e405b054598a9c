//! The choice of the kernel that runs a new process. `docs/design/affinity.md` explains the
//! policy; `kernel/programs/src/processes/place.rs` collects the facts.
//!
//! ```text
//!   the caller requested a kernel ----> that kernel, or an error
//!   otherwise: all kernels that are available; each line keeps some of those that are left
//!      must   1. those of the platforms that the program requires; none: one that has them and
//!                starts on demand, else an error
//!      if any 2. those with memory
//!             3. those of the first platform that it prefers and a kernel has
//!      best   4. those with the servers that it wants to be near to
//!             5. those without the servers that it wants to be apart from
//!      if any 6. those of its class (normal: strong cores, light: weak ones)
//!      best   7. the least busy   8. fewest processes per core
//!             9. the caller's kernel   10. the first on the board
//! ```
//! Contract: an unavailable kernel is chosen only if it starts on demand, and one that lacks a
//! required platform only if the caller requested it. The choice is a function of the facts alone.
#![cfg_attr(not(test), no_std)]

mod explain;
mod narrow;
mod servers;
#[cfg(test)]
mod tests;

use abi::boot::MAX_DOMAINS;
use abi::platform;
use abi::program::class;
pub use explain::{Explanation, missing};
use narrow::Narrowing;
pub use servers::{Affinity, Server, To, explain_endpoint, is_wanted, weigh};

/// What is known of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether it can run processes: its domain is running or asleep, and it shares the process
    /// table.
    pub is_available: bool,
    /// Whether it has not started yet, and starts when it is needed.
    pub is_on_demand: bool,
    /// Whether its cores are strong.
    pub is_strong: bool,
    /// One of [`abi::boot::isa`].
    pub isa: u32,
    pub cores: u32,
    /// Number of its processes.
    pub processes: u32,
    /// How busy its cores are, in percent, if known.
    pub busy: Option<u32>,
    /// Free memory in bytes, if known.
    pub free: Option<u64>,
    /// Sum of the positive affinities to the servers that run on it ([`weigh`]).
    pub near: u32,
    /// Sum of the negative ones, without the sign.
    pub apart: u32,
}

/// The free memory in bytes that a kernel needs to be preferred: enough for a small program's
/// memory and stack, and for what the kernel stores about it.
pub const ENOUGH: u64 = 4 << 20;
/// Differences in use below this many percent are noise.
pub const BUSY_STEP: u32 = 10;

impl Facts {
    fn platforms(&self) -> u8 {
        platform::of_kernel(self.isa, self.is_strong)
    }

    fn has(&self, platforms: u8) -> bool {
        self.platforms() & platforms == platforms
    }

    fn is_low_on_memory(&self) -> bool {
        self.free.is_some_and(|free| free < ENOUGH)
    }

    /// Returns its processes per core with one more process, for comparison: of two idle kernels,
    /// the one with more cores is less loaded.
    fn load(&self) -> u64 {
        ((u64::from(self.processes) + 1) << 24) / u64::from(self.cores.max(1))
    }
}

/// What a program's manifest says of the kernel, except its endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// One of [`class`].
    pub class: u32,
    /// Platforms that the kernel must have.
    pub required: u8,
    /// Platforms that it prefers, packed ([`platform::pack`]).
    pub preferred: u16,
}

impl Preferences {
    fn wants_strong(&self) -> bool {
        self.class != class::LIGHT
    }
}

/// A set of kernels, by their indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernels(u8);

const _: () = assert!(MAX_DOMAINS <= u8::BITS as usize);

impl Kernels {
    fn those(facts: &[Facts], wanted: impl Fn(usize, &Facts) -> bool) -> Kernels {
        let all = facts.iter().take(MAX_DOMAINS).enumerate();
        Kernels(all.filter(|(at, it)| wanted(*at, it)).fold(0, |set, (at, _)| set | 1 << at))
    }

    pub fn has(self, kernel: usize) -> bool {
        kernel < MAX_DOMAINS && self.0 & 1 << kernel != 0
    }

    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MAX_DOMAINS).filter(move |at| self.0 & 1 << at != 0)
    }

    /// Returns the only one, if there is just one.
    fn only(self) -> Option<usize> {
        (self.count() == 1).then(|| self.0.trailing_zeros() as usize)
    }

    fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The caller requested this kernel.
    Requested,
    /// No other kernel runs.
    Only,
    /// It has the required platforms.
    Required,
    /// It starts, because no available kernel has the required platforms.
    Starts,
    /// It has memory.
    Memory,
    /// It has this preferred platform.
    Preferred(u8),
    /// It has the servers that the program wants to be near to.
    Near,
    /// It lacks the servers that the program wants to be apart from.
    Apart,
    /// Its cores are those of the program's class.
    Class,
    /// It is the least busy.
    Busy,
    /// It has the fewest processes per core.
    Processes,
    /// It is the caller's.
    Caller,
    /// It is the first of the board.
    First,
}

/// A step that has excluded kernels, and those that it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub reason: Reason,
    pub left: Kernels,
}

/// Maximum number of steps: one for each line of the list above.
pub const STEPS: usize = 10;

/// The chosen kernel, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its index.
    pub kernel: usize,
    /// The step after which it was the only one.
    pub reason: Reason,
    steps: [Option<Step>; STEPS],
}

impl Decision {
    fn at_once(kernel: usize, reason: Reason) -> Decision {
        Decision { kernel, reason, steps: [None; STEPS] }
    }

    /// Iterates over the steps that have excluded kernels, in their order.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        self.steps.iter().flatten().copied()
    }
}

/// Why no kernel was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The board has no such kernel.
    NoSuchKernel,
    /// The requested kernel, or every kernel, is unavailable.
    Unavailable,
    /// No available kernel has all of these required platforms.
    NoPlatform {
        required: u8,
        /// A kernel of the board has them, but is not available.
        is_on_board: bool,
    },
}

/// Chooses the kernel of a process. `here` is the caller's kernel, `requested` the one it asked
/// for. At most [`MAX_DOMAINS`] kernels are considered.
pub fn choose(
    requested: Option<u32>,
    preferences: &Preferences,
    here: usize,
    kernels: &[Facts],
) -> Result<Decision, Refused> {
    if let Some(requested) = requested {
        let at = usize::try_from(requested).map_err(|_| Refused::NoSuchKernel)?;
        let facts = kernels.get(at).ok_or(Refused::NoSuchKernel)?;
        let chosen = Decision::at_once(at, Reason::Requested);
        let can_run = facts.is_available || facts.is_on_demand;
        return if can_run { Ok(chosen) } else { Err(Refused::Unavailable) };
    }
    let narrowing = by_preferences(preferences, kernels);
    if let Err(Refused::NoPlatform { required, .. }) = narrowing
        && let Some(at) = kernels.iter().position(|it| it.is_on_demand && it.has(required))
    {
        return Ok(Decision::at_once(at, Reason::Starts));
    }
    let mut narrowing = narrowing?;
    narrowing
        .keep_least(Reason::Busy, |facts| u64::from(facts.busy.unwrap_or_default() / BUSY_STEP));
    narrowing.keep_least(Reason::Processes, Facts::load);
    narrowing.keep(Reason::Caller, |at, _| at == here);
    let first = narrowing.left.iter().next();
    narrowing.keep(Reason::First, |at, _| Some(at) == first);
    narrowing.decision().ok_or(Refused::Unavailable)
}

/// Returns whether the program's preferences leave several kernels, so that their load must be
/// known to choose one.
pub fn needs_load(preferences: &Preferences, kernels: &[Facts]) -> bool {
    kernels.len() > 1
        && by_preferences(preferences, kernels).is_ok_and(|narrowing| narrowing.left.count() > 1)
}

/// The steps before the load of the kernels matters. Keeps at least one.
fn by_preferences<'a>(
    preferences: &Preferences,
    kernels: &'a [Facts],
) -> Result<Narrowing<'a>, Refused> {
    let mut narrowing = Narrowing::new(kernels);
    if narrowing.left.count() == 0 {
        return Err(Refused::Unavailable);
    }
    let required = preferences.required;
    if !narrowing.keep(Reason::Required, |_, facts| facts.has(required)) {
        let is_on_board = kernels.iter().any(|facts| facts.has(required));
        return Err(Refused::NoPlatform { required, is_on_board });
    }
    narrowing.keep(Reason::Memory, |_, facts| !facts.is_low_on_memory());
    for platform in platform::unpack(preferences.preferred) {
        if narrowing.keep(Reason::Preferred(platform), |_, facts| facts.has(platform)) {
            break;
        }
    }
    narrowing.keep_least(Reason::Near, |facts| u64::from(u32::MAX - facts.near));
    narrowing.keep_least(Reason::Apart, |facts| u64::from(facts.apart));
    narrowing.keep(Reason::Class, |_, facts| facts.is_strong == preferences.wants_strong());
    Ok(narrowing)
}

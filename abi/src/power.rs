//! What kernels know of power: the board file's figures, and what each kernel has counted.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum frequencies of a domain whose powers kernels are given.
pub const MAX_POINTS: usize = 4;

/// Power of a core at one frequency, in uW, at the lowest voltage for that frequency.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct PowerPoint {
    /// 0: this point is unused.
    pub mhz: u32,
    pub active_uw: u32,
    /// While it waits for work.
    pub idle_uw: u32,
    /// The same with its clock gated.
    pub gated_uw: u32,
}

/// What a kernel has counted of its domain's time and energy since it booted. It is in the domain's
/// page, so that other kernels can read it without waking this one. Times are in ns.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerSample {
    /// Odd while the other words are written; incremented before and after that.
    pub version: u64,
    /// Chip time until which the rest is counted.
    pub at: u64,
    /// Chip time at which the kernel booted.
    pub booted_at: u64,
    /// Number of rests that have ended.
    pub rests: u64,
    /// Time in those rests.
    pub resting: u64,
    /// Time in which its cores ran threads, summed over the cores.
    pub active: u64,
    /// Time in which its cores waited for work, summed over the cores.
    pub idle: u64,
    /// Estimated energy in nJ, or [`UNKNOWN_ENERGY`].
    pub energy: u64,
    /// How busy its cores were lately, in percent, or [`UNKNOWN_USE`].
    pub busy: u64,
}

/// [`PowerSample::energy`] if the board file gives no power for a frequency that was used.
pub const UNKNOWN_ENERGY: u64 = u64::MAX;

/// [`PowerSample::busy`] of a kernel that has just booted.
pub const UNKNOWN_USE: u64 = u64::MAX;

const _: () = assert!(size_of::<PowerPoint>() == 16 && size_of::<PowerSample>() == 72);

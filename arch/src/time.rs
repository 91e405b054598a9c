//! Time. `soc_time` is the local clock plus an offset that is calibrated against the soc's time at
//! start and at every wake. It never runs backwards within a domain: if a new offset would turn it
//! back, it stands still instead.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::cpu;

pub use crate::ticks::{to_ns, to_ticks};

/// The clock of one domain; all its cores share it.
#[derive(Debug, Default)]
pub struct SocClock {
    offset: AtomicI64,
    /// The latest time returned so far.
    last: AtomicU64,
}

impl SocClock {
    pub const fn new() -> Self {
        SocClock { offset: AtomicI64::new(0), last: AtomicU64::new(0) }
    }

    /// Sets the offset: soc time - local time, in ns.
    pub fn set_offset(&self, offset: i64) {
        self.offset.store(offset, Ordering::Relaxed);
    }

    /// Returns the soc time at local time `local`, but never less than before.
    #[inline]
    pub fn at(&self, local: u64) -> u64 {
        let time = local.saturating_add_signed(self.offset.load(Ordering::Relaxed));
        self.last.fetch_max(time, Ordering::AcqRel).max(time)
    }

    /// Returns the local time at which the soc time will be `soc`.
    pub fn local(&self, soc: u64) -> u64 {
        soc.saturating_add_signed(self.offset.load(Ordering::Relaxed).wrapping_neg())
    }
}

#[cfg(target_os = "none")]
#[inline]
fn clock<R>(f: impl FnOnce(&SocClock) -> R) -> R {
    static CLOCK: SocClock = SocClock::new();
    f(&CLOCK)
}

/// On a host every thread is a domain of its own.
#[cfg(not(target_os = "none"))]
#[inline(never)]
fn clock<R>(f: impl FnOnce(&SocClock) -> R) -> R {
    std::thread_local!(static CLOCK: SocClock = const { SocClock::new() });
    CLOCK.with(f)
}

/// Returns the local time in ns since the start of the counter.
#[inline]
pub fn local_ns() -> u64 {
    cpu::clock_ns()
}

/// Returns the time in ns of the chip-wide clock.
#[inline]
pub fn soc_time() -> u64 {
    clock(|clock| clock.at(local_ns()))
}

/// Sets soc time - local time, in ns ([`Estimate::offset`]).
pub fn set_offset(offset: i64) {
    clock(|clock| clock.set_offset(offset));
}

/// Returns the tick of the local counter at which the soc time will be `soc`.
pub fn soc_to_ticks(soc: u64) -> u64 {
    to_ticks(clock(|clock| clock.local(soc)), cpu::clock_hz())
}

/// A relation between the local clock and the soc's, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Soc time - local time.
    pub offset: i64,
    /// The offset is wrong by at most this much.
    pub error: u64,
}

/// Returns what an exchange says: `(local ns before, soc time, local ns after)`. Half of its round
/// trip is the error. `None` if the exchange ends before it starts.
pub fn estimate((before, soc, after): (u64, u64, u64)) -> Option<Estimate> {
    let trip = after.checked_sub(before)?;
    let offset = soc.wrapping_sub(before + trip / 2) as i64;
    Some(Estimate { offset, error: trip.div_ceil(2) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_runs_backwards() {
        let clock = SocClock::new();
        clock.set_offset(1000);
        assert_eq!(clock.at(50), 1050);
        clock.set_offset(900);
        assert_eq!(clock.at(60), 1050, "stands still");
        assert_eq!(clock.at(200), 1100);
        clock.set_offset(-300);
        assert_eq!(clock.at(100), 1100, "a time before 0 is ignored");
        assert_eq!(clock.at(9000), 8700);
        assert_eq!(clock.local(8700), 9000);
    }

    #[test]
    fn half_of_the_round_trip_is_the_error() {
        assert_eq!(estimate((10, 0, 5)), None, "an exchange that ends before it starts");
        assert_eq!(estimate((200, 1210, 220)), Some(Estimate { offset: 1000, error: 10 }));
        assert_eq!(estimate((5000, 100, 5011)), Some(Estimate { offset: -4905, error: 6 }));
    }
}

//! Conversion between ticks of a counter and ns.

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Converts ticks to ns, rounded down; no overflow for 584 years. `hz` is 1 to 10^10.
#[inline]
pub const fn to_ns(ticks: u64, hz: u64) -> u64 {
    if SECOND.is_multiple_of(hz) {
        return ticks.wrapping_mul(SECOND / hz);
    }
    (ticks / hz).wrapping_mul(SECOND).wrapping_add(ticks % hz * SECOND / hz)
}

/// Converts ns to ticks, rounded up so that a deadline is never early. Saturates.
#[inline]
pub const fn to_ticks(ns: u64, hz: u64) -> u64 {
    let whole = (ns / SECOND).saturating_mul(hz);
    whole.saturating_add((ns % SECOND * hz).div_ceil(SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_ns_are_exact() {
        for hz in [10_000_000, 62_500_000, 24_000_000, 1_000_000_000, 3_000_000_007] {
            for ticks in [0, 1, 7, 10_000_019, 3_333_333_333, 1 << 40, 1 << 53] {
                let exact = u128::from(ticks) * 1_000_000_000 / u128::from(hz);
                assert_eq!(u128::from(to_ns(ticks, hz)), exact);
                let back = to_ticks(to_ns(ticks, hz), hz);
                assert!(back <= ticks && to_ns(back, hz) == to_ns(ticks, hz), "{ticks} at {hz}");
            }
            assert!(to_ns(to_ticks(12_345_678_901, hz), hz) >= 12_345_678_901);
        }
        assert_eq!(to_ticks(u64::MAX, 62_500_000), 1_152_921_504_606_846_976);
    }
}

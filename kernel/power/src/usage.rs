//! How busy the cores of a domain were lately.
//!
//! ```text
//!        from            at      from        at
//!   -----|---------------|-- ... |-----------|------> time, in readings
//!        at least WINDOW          at least WINDOW
//! ```
//! Contract: `read` is given totals since the kernel booted, in ns. The result is of the time
//! between two readings that are at least [`WINDOW`] apart, so two readings in quick succession do
//! not make a figure of a moment. Rests count as time without work.

/// The least time over which use is measured.
pub const WINDOW: u64 = 500_000_000;
/// Percent of cores that are always busy.
const ALL: u64 = 100;

/// The last window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// When the present window began: time, and the total of active time then.
    from: Option<(u64, u64)>,
    /// Use in the window before, in percent.
    last: Option<u32>,
}

impl Usage {
    pub const fn new() -> Usage {
        Usage { from: None, last: None }
    }

    /// Counts until `now`, at which the `cores` had been active for `active` in total. Returns how
    /// busy they were in the last window, in percent; `None` before the first one has ended.
    pub fn read(&mut self, now: u64, active: u64, cores: u32) -> Option<u32> {
        let (since, before) = *self.from.get_or_insert((now, active));
        let passed = now.saturating_sub(since);
        if passed >= WINDOW {
            let most = u128::from(passed) * u128::from(cores.max(1));
            let busy = u128::from(active.saturating_sub(before)) * u128::from(ALL) / most;
            self.last = Some(busy.min(ALL.into()) as u32);
            self.from = Some((now, active));
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn use_is_that_of_the_last_window() {
        let mut usage = Usage::new();
        assert_eq!(usage.read(7 * S, 3 * S, 2), None, "there is no window yet");
        assert_eq!(usage.read(7 * S + WINDOW - 1, 3 * S, 2), None);
        assert_eq!(usage.read(8 * S, 4 * S, 2), Some(50), "one of two cores");
        assert_eq!(usage.read(9 * S, 6 * S, 2), Some(100));
        assert_eq!(usage.read(19 * S, 7 * S, 2), Some(5), "a second in ten, of two cores");
    }

    #[test]
    fn a_reading_in_between_changes_nothing() {
        let mut usage = Usage::new();
        usage.read(0, 0, 1);
        assert_eq!(usage.read(S, S / 4, 1), Some(25));
        assert_eq!(usage.read(S + 1, S / 4 + 1, 1), Some(25), "not 100");
        assert_eq!(usage.read(2 * S, S / 4 + 1, 1), Some(0));
    }

    #[test]
    fn no_totals_give_more_than_all() {
        let mut usage = Usage::new();
        usage.read(0, 0, 1);
        assert_eq!(usage.read(S, u64::MAX, 0), Some(100));
        assert_eq!(usage.read(2 * S, 0, 4), Some(0), "a counter was reset");
        assert_eq!(usage.read(0, 0, 4), Some(0), "the clock went back");
        assert_eq!(usage.read(u64::MAX, u64::MAX, u32::MAX), Some(0));
    }
}

//! Detection of pages that move between domains too often.
//!
//! The home counts moves of [`COUNTERS`] pages, whatever the size of the region. A page without a
//! counter takes a free one, one whose window is over, or the one with the fewest moves, so a page
//! that moves constantly keeps its counter. A reported page starts again from zero.

use crate::types::Page;

/// Number of pages watched at once.
pub const COUNTERS: usize = 8;

/// The rate from which a page counts as thrashing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Number of moves; 0 disables detection.
    pub moves: u32,
    /// Length of the window in ns.
    pub window: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Counter {
    page: Page,
    moves: u32,
    since: u64,
}

/// Counters for the pages that moved most.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Detector {
    limit: Limit,
    counters: [Option<Counter>; COUNTERS],
}

impl Detector {
    pub const fn new(limit: Limit) -> Detector {
        Detector { limit, counters: [None; COUNTERS] }
    }

    /// Counts a move of `page`. Returns the number of moves when it reaches the limit.
    pub fn moved(&mut self, page: Page, now: u64) -> Option<u32> {
        let Limit { moves, window } = self.limit;
        if moves == 0 {
            return None;
        }
        let over = |counter: &Counter| now.saturating_sub(counter.since) > window;
        let rank = |slot: &Option<Counter>| match slot {
            Some(counter) if !over(counter) => u64::from(counter.moves),
            _ => 0,
        };
        let counts_page = |slot: &Option<Counter>| slot.is_some_and(|counter| counter.page == page);
        let slot = match self.counters.iter().position(counts_page) {
            Some(known) => &mut self.counters[known],
            None => self.counters.iter_mut().min_by_key(|slot| rank(slot))?,
        };
        let fresh = Counter { page, moves: 0, since: now };
        let counter =
            slot.filter(|counter| counter.page == page && !over(counter)).unwrap_or(fresh);
        let counter = Counter { moves: counter.moves + 1, ..counter };
        *slot = (counter.moves < moves).then_some(counter);
        (counter.moves >= moves).then_some(counter.moves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { moves: 4, window: 100 };

    #[test]
    fn a_page_is_reported_at_the_threshold_and_starts_over() {
        let mut detector = Detector::new(LIMIT);
        let reports: Vec<_> = (0..8).map(|now| detector.moved(7, now)).collect();
        assert_eq!(reports, [None, None, None, Some(4), None, None, None, Some(4)]);
    }

    #[test]
    fn slow_moves_are_not_thrashing_and_a_limit_of_0_disables_detection() {
        let mut detector = Detector::new(LIMIT);
        assert!((0..100).all(|n| detector.moved(7, n * 60).is_none()));
        let mut off = Detector::new(Limit { moves: 0, window: 100 });
        assert!((0..100).all(|n| off.moved(7, n).is_none()));
    }

    #[test]
    fn many_quiet_pages_do_not_hide_a_busy_one() {
        let mut detector = Detector::new(Limit { moves: 16, window: 10_000 });
        let found = (0..1000u32).any(|n| {
            detector.moved(1000 + n, u64::from(n));
            detector.moved(7, u64::from(n)).is_some()
        });
        assert!(found);
    }
}

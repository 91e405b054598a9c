//! Retries of a caller that waits for its peer: when it rings the doorbell again, and when it gives
//! up. Pure.
//!
//! The timeout is counted in periods, and only at the moments when the caller checks. Time that the
//! caller's own domain spent asleep counts as one period, so that the caller does not give up on a
//! peer that had no time to answer.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetryAction {
    Wait,
    /// Ring the peer again: an edge is lost while its interrupt controller is being set up.
    Ring,
    /// The timeout has passed.
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetryTimer {
    period: u64,
    next: u64,
    patience: Option<u64>,
    left: u64,
}

impl RetryTimer {
    /// Starts at `now`: one ring per `period`, giving up after about `patience`, or never.
    pub const fn new(now: u64, period: u64, patience: Option<u64>) -> RetryTimer {
        let mut retry = RetryTimer { period, next: now.saturating_add(period), patience, left: 0 };
        retry.restart();
        retry
    }

    /// Restarts the timeout: the peer is alive.
    pub const fn restart(&mut self) {
        if let Some(patience) = self.patience {
            self.left = patience / self.period;
        }
    }

    /// Returns what is due at `now`. May be called at any rate.
    pub const fn action(&mut self, now: u64) -> RetryAction {
        if now < self.next {
            return RetryAction::Wait;
        }
        self.next = now.saturating_add(self.period);
        if self.patience.is_some() {
            if self.left == 0 {
                return RetryAction::GiveUp;
            }
            self.left -= 1;
        }
        RetryAction::Ring
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_once_per_period_and_gives_up_at_the_timeout() {
        let mut retry = RetryTimer::new(1000, 20, Some(100));
        let rings: Vec<_> =
            (1000..1140).filter(|&now| retry.action(now) == RetryAction::Ring).collect();
        assert_eq!(rings, [1020, 1040, 1060, 1080, 1100]);
        assert_eq!(retry.action(1140), RetryAction::GiveUp);
        retry.restart();
        assert_eq!(
            (retry.action(1160), retry.action(1161)),
            (RetryAction::Ring, RetryAction::Wait)
        );
    }

    #[test]
    fn time_asleep_counts_as_one_period() {
        let mut retry = RetryTimer::new(0, 20, Some(40));
        assert_eq!(retry.action(1_000_000), RetryAction::Ring);
        assert_eq!(retry.action(1_000_010), RetryAction::Wait);
        assert_eq!(retry.action(1_000_020), RetryAction::Ring);
        assert_eq!(retry.action(1_000_040), RetryAction::GiveUp);
    }

    #[test]
    fn without_a_timeout_it_never_gives_up() {
        let mut retry = RetryTimer::new(0, 20, None);
        assert!((1..10_000).all(|n| retry.action(n * 20) == RetryAction::Ring));
    }
}

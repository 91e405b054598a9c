//! Retries of a caller that waits for its peer: when it rings the doorbell again, and when it gives
//! up. Pure.
//!
//! The timeout is counted in periods, and only at the moments when the caller checks. Time that the
//! caller's own domain spent asleep counts as one period, so that the caller does not give up on a
//! peer that had no time to answer.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    Wait,
    /// Ring the peer again: an edge is lost while its interrupt controller is being set up.
    Ring,
    /// The timeout has passed.
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    period: u64,
    next: u64,
    patience: Option<u64>,
    left: u64,
}

impl Pace {
    /// Starts at `now`: one ring per `period`, giving up after about `patience`, or never.
    pub const fn new(now: u64, period: u64, patience: Option<u64>) -> Pace {
        let mut pace = Pace { period, next: now.saturating_add(period), patience, left: 0 };
        pace.restart();
        pace
    }

    /// Restarts the timeout: the peer is alive.
    pub const fn restart(&mut self) {
        if let Some(patience) = self.patience {
            self.left = patience / self.period;
        }
    }

    /// Returns what is due at `now`. May be called at any rate.
    pub const fn turn(&mut self, now: u64) -> Turn {
        if now < self.next {
            return Turn::Wait;
        }
        self.next = now.saturating_add(self.period);
        if self.patience.is_some() {
            if self.left == 0 {
                return Turn::GiveUp;
            }
            self.left -= 1;
        }
        Turn::Ring
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_once_per_period_and_gives_up_at_the_timeout() {
        let mut pace = Pace::new(1000, 20, Some(100));
        let turns: Vec<_> = (1000..1140).filter(|&now| pace.turn(now) == Turn::Ring).collect();
        assert_eq!(turns, [1020, 1040, 1060, 1080, 1100]);
        assert_eq!(pace.turn(1140), Turn::GiveUp);
        pace.restart();
        assert_eq!((pace.turn(1160), pace.turn(1161)), (Turn::Ring, Turn::Wait));
    }

    #[test]
    fn time_asleep_counts_as_one_period() {
        let mut pace = Pace::new(0, 20, Some(40));
        assert_eq!(pace.turn(1_000_000), Turn::Ring);
        assert_eq!(pace.turn(1_000_010), Turn::Wait);
        assert_eq!(pace.turn(1_000_020), Turn::Ring);
        assert_eq!(pace.turn(1_000_040), Turn::GiveUp);
    }

    #[test]
    fn without_a_timeout_it_never_gives_up() {
        let mut pace = Pace::new(0, 20, None);
        assert!((1..10_000).all(|n| pace.turn(n * 20) == Turn::Ring));
    }
}

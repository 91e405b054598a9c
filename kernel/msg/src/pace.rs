//! How a caller waits for its peer: when it rings again, and when it gives up. Pure.
//!
//! Patience is counted in periods that ended while the caller looked. A stretch of time that the
//! caller's own domain slept through counts as one of them, so nobody gives up on a peer that had
//! no time to answer.

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// Nothing.
    Wait,
    /// Ring the peer again: an edge can be lost while its controller is being set up.
    Ring,
    /// The peer has had its time.
    GiveUp,
}

/// The clock of one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    period: u64,
    next: u64,
    patience: Option<u64>,
    left: u64,
}

impl Pace {
    /// Begins at `now`; a ring a `period`, giving up after about `patience`, or never.
    pub const fn new(now: u64, period: u64, patience: Option<u64>) -> Pace {
        let mut pace = Pace { period, next: now.saturating_add(period), patience, left: 0 };
        pace.restart();
        pace
    }

    /// The peer lives: all of the patience is there again.
    pub const fn restart(&mut self) {
        if let Some(patience) = self.patience {
            self.left = patience / self.period;
        }
    }

    /// What is due at `now`; ask as often as you like.
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
    fn it_rings_once_a_period_and_gives_up_in_the_end() {
        let mut pace = Pace::new(1000, 20, Some(100));
        let turns: Vec<_> = (1000..1140).filter(|&now| pace.turn(now) == Turn::Ring).collect();
        assert_eq!(turns, [1020, 1040, 1060, 1080, 1100]);
        assert_eq!(pace.turn(1140), Turn::GiveUp);
        pace.restart();
        assert_eq!((pace.turn(1160), pace.turn(1161)), (Turn::Ring, Turn::Wait));
    }

    #[test]
    fn what_the_domain_slept_through_is_one_period() {
        let mut pace = Pace::new(0, 20, Some(40));
        assert_eq!(pace.turn(1_000_000), Turn::Ring);
        assert_eq!(pace.turn(1_000_010), Turn::Wait);
        assert_eq!(pace.turn(1_000_020), Turn::Ring);
        assert_eq!(pace.turn(1_000_040), Turn::GiveUp);
    }

    #[test]
    fn without_a_limit_it_never_gives_up() {
        let mut pace = Pace::new(0, 20, None);
        assert!((1..10_000).all(|n| pace.turn(n * 20) == Turn::Ring));
    }
}

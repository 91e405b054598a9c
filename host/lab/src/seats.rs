//! The order of turns: which seat is next, and how far it may run. The smallest local time comes
//! first. Pure.
//!
//! A running seat's key is its time. An idle one's is the time of its next event, so that no seat
//! runs past it, and a board where all are idle jumps to the first event. An absent or stopped seat
//! is not waited for. Equal keys are ordered by number: the order never depends on the host.

use crate::{NEVER, Ps};

/// Phase of a seat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Empty: off, dead, or not on this board.
    #[default]
    Absent,
    /// Executes, or is ready to.
    Running,
    /// Waits for its next event.
    Idle,
    /// Inactive: its clock is stopped.
    Stopped,
}

impl Phase {
    /// Encodes it as a word of the page.
    pub fn word(self) -> u64 {
        self as u64
    }

    /// Decodes a word of the page; an invalid one counts as absent.
    pub fn from_word(word: u64) -> Phase {
        match word {
            1 => Phase::Running,
            2 => Phase::Idle,
            3 => Phase::Stopped,
            _ => Phase::Absent,
        }
    }
}

/// A seat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// Its phase.
    pub phase: Phase,
    /// Its local time.
    pub time: Ps,
    /// Idle: the time of its next event.
    pub wake: Ps,
    /// A turn of this seat is requested from outside the board's time.
    pub wanted: bool,
}

impl Seat {
    /// Returns the time at which it acts next.
    pub fn key(&self) -> Ps {
        match self.phase {
            Phase::Running => self.time,
            Phase::Idle if self.wake != NEVER => self.wake.max(self.time),
            Phase::Idle | Phase::Absent | Phase::Stopped => NEVER,
        }
    }
}

/// Returns the seat whose turn it is: one that is requested from outside, else the one with the
/// smallest key. `None`: all wait for something from outside.
pub fn next(seats: &[Seat]) -> Option<usize> {
    if let Some(wanted) = seats.iter().position(|seat| seat.wanted) {
        return Some(wanted);
    }
    let (key, index) = seats.iter().enumerate().map(|(i, seat)| (seat.key(), i)).min()?;
    (key != NEVER).then_some(index)
}

/// Returns how long `me` may run: until `quantum` past the next running seat, never past an idle
/// one's event, and at most `most` at a time, so that requests from outside are noticed.
pub fn horizon(seats: &[Seat], me: usize, quantum: Ps, most: Ps) -> Ps {
    let own = seats.get(me).map_or(0, |seat| seat.time);
    let others = seats.iter().enumerate().filter(|&(i, _)| i != me).map(|(_, seat)| {
        let slack = if seat.phase == Phase::Running { quantum } else { 0 };
        seat.key().saturating_add(slack)
    });
    others.min().unwrap_or(NEVER).min(own.saturating_add(most))
}

/// Returns the board's time, before which no event can happen any more; for requests from outside.
pub fn now(seats: &[Seat]) -> Ps {
    let earliest = seats.iter().map(Seat::key).min().unwrap_or(NEVER);
    if earliest != NEVER {
        return earliest;
    }
    let present = seats.iter().filter(|seat| seat.phase != Phase::Absent);
    present.map(|seat| seat.time).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seat(phase: Phase, time: Ps, wake: Ps) -> Seat {
        Seat { phase, time, wake, wanted: false }
    }

    #[test]
    fn the_smallest_time_is_next() {
        use Phase::*;
        let mut seats = [seat(Idle, 0, NEVER), seat(Running, 30, 0), seat(Running, 20, 0)];
        assert_eq!(next(&seats), Some(2));
        assert_eq!(horizon(&seats, 2, 5, 100), 35);
        seats[0].wake = 25;
        assert_eq!(horizon(&seats, 2, 5, 100), 25, "never past an idle seat's event");
        seats[1].phase = Stopped;
        seats[0].wake = NEVER;
        assert_eq!(horizon(&seats, 2, 5, 100), 120);
        seats[0].wanted = true;
        assert_eq!(next(&seats), Some(0), "from outside");
        assert_eq!(next(&[seat(Idle, 7, NEVER), seat(Absent, 0, 0)]), None);
        assert_eq!(now(&[seat(Idle, 7, NEVER), seat(Absent, 99, 0)]), 7);
    }

    #[test]
    fn an_idle_board_jumps_to_its_first_event() {
        let seats = [seat(Phase::Idle, 10, 5_000_000), seat(Phase::Idle, 20, 4_000_000)];
        assert_eq!(next(&seats), Some(1));
        assert_eq!(now(&seats), 4_000_000);
    }

    fn any_seat() -> impl Strategy<Value = Seat> {
        (0u64..4, 0u64..1000, prop_oneof![Just(NEVER), 0u64..1000])
            .prop_map(|(phase, time, wake)| seat(Phase::from_word(phase), time, wake))
    }

    proptest! {
        /// The next seat may always run, and none is overtaken by more than the quantum.
        #[test]
        fn who_is_next_may_run(
            seats in prop::collection::vec(any_seat(), 1..6), quantum in 0u64..50, most in 1u64..500
        ) {
            if let Some(me) = next(&seats) {
                let until = horizon(&seats, me, quantum, most);
                prop_assert!(until >= seats[me].key() || until >= seats[me].time);
                for (i, other) in seats.iter().enumerate().filter(|&(i, _)| i != me) {
                    prop_assert!(seats[me].key() <= other.key());
                    prop_assert!(until <= other.key().saturating_add(quantum), "{i}");
                }
            } else {
                prop_assert!(seats.iter().all(|seat| seat.key() == NEVER));
            }
        }
    }
}

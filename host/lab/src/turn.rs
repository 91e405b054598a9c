//! Passing the turn, and waiting for it.
//!
//! The holder passes the turn to the next seat by storing its number. Without a next seat, no seat
//! holds the turn, and the first one that is requested takes it. The holder checks for requests
//! after letting go, and a requester checks the holder after requesting, so no request is missed.
//!
//! No seat waits for a dead one: the soc, which learns of a QEMU's end from the host, empties its
//! seat and takes the turn from it if it had it.

use crate::page::{Count, NOBODY, Page, Role, SEATS};
use crate::seats::{self, Phase};
use std::time::Duration;

/// Time between two checks without a signal.
const LOOK: Duration = Duration::from_millis(50);

/// A seat's access to the table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    page: Page,
    me: usize,
}

impl Table {
    /// Creates the access of seat `me`.
    pub fn new(page: Page, me: usize) -> Table {
        assert!(me < SEATS, "a table has {SEATS} seats");
        Table { page, me }
    }

    /// Returns the page.
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// Returns the seat's number.
    pub fn me(&self) -> usize {
        self.me
    }

    /// Returns whether this seat has the turn.
    pub fn mine(&self) -> bool {
        self.page.holder() == self.me as u64
    }

    /// Ends this turn. Returns true if this seat has the next turn too.
    pub fn pass(&self) -> bool {
        let next = seats::next(&self.page.seats());
        if next == Some(self.me) {
            return true;
        }
        self.hand_to(next);
        false
    }

    fn hand_to(&self, next: Option<usize>) {
        let Some(next) = next else {
            self.page.set_holder(NOBODY);
            // A request made before the turn was let go may have missed it.
            if let Some(wanted) = (0..SEATS).find(|&seat| self.page.seat(seat).wanted) {
                self.claim(wanted);
            }
            return;
        };
        self.page.count(next, Count::Turns, 1);
        let phase = self.page.seat(next).phase;
        self.page.set_holder(next as u64);
        self.page.signal(next, role(phase));
    }

    /// Gives `seat` a turn that no seat holds.
    fn claim(&self, seat: usize) {
        if self.page.take_from(NOBODY, seat as u64) {
            self.page.signal(seat, role(self.page.seat(seat).phase));
        }
    }

    /// Requests a turn from outside the board's time.
    pub fn want(&self) {
        self.page.want(self.me, true);
        self.claim(self.me);
    }

    /// Waits until this seat has the turn and is in `phase`; for the thread of that phase. Returns
    /// false if `give_up` became true.
    pub fn wait(&self, phase: Phase, mut give_up: impl FnMut() -> bool) -> bool {
        let ready = || self.mine() && self.page.seat(self.me).phase == phase;
        loop {
            if self.page.sleep(self.me, role(phase), LOOK, ready) {
                return true;
            }
            if give_up() {
                return false;
            }
        }
    }

    /// Wakes the other thread of the holder's own seat, because the phase has changed.
    pub fn signal_own(&self) {
        self.page.signal(self.me, role(self.page.seat(self.me).phase));
    }
}

fn role(phase: Phase) -> Role {
    if phase == Phase::Running { Role::Runner } else { Role::Helper }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NEVER;

    fn page() -> Page {
        let folder = tempfile::tempdir().expect("a folder");
        Page::create(&folder.path().join("page")).expect("a page")
    }

    /// Three seats count in turns; their sequence is the same every time.
    fn play() -> Vec<(usize, u64)> {
        let page = page();
        for seat in 1..4 {
            page.set_phase(seat, Phase::Running);
        }
        let log = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for me in 1..4 {
                let (table, log) = (Table::new(page, me), &log);
                scope.spawn(move || {
                    for step in 0..500 {
                        assert!(table.wait(Phase::Running, || false));
                        let time = page.seat(me).time + 7 * me as u64 + step % 3;
                        log.lock().expect("log").push((me, time));
                        page.set_time(me, time);
                        if step == 499 {
                            page.set_phase(me, Phase::Absent);
                        }
                        table.pass();
                    }
                });
            }
            page.take_from(NOBODY, 1);
            page.signal(1, Role::Runner);
        });
        assert_eq!(page.holder(), NOBODY);
        log.into_inner().expect("log")
    }

    #[test]
    fn turns_are_one_sequence() {
        let first = play();
        assert_eq!(first.len(), 1500);
        assert_eq!(play(), first);
    }

    /// A seat that would never be chosen gets a turn when it requests one, however the two race.
    #[test]
    fn who_asks_from_outside_is_heard() {
        let page = page();
        page.set_phase(0, Phase::Idle);
        page.set_phase(1, Phase::Running);
        let (soc, domain) = (Table::new(page, 0), Table::new(page, 1));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..2000u64 {
                    assert!(domain.wait(Phase::Running, || false));
                    page.set_time(1, round);
                    domain.pass();
                }
                assert!(domain.wait(Phase::Running, || false));
                page.set_phase(1, Phase::Absent);
                domain.pass();
            });
            for _ in 0..2000 {
                soc.want();
                assert!(soc.wait(Phase::Idle, || false));
                page.want(0, false);
                soc.pass();
            }
            // Whichever of the two let go last, the other gets its turn.
            soc.want();
            assert!(soc.wait(Phase::Idle, || false));
            page.want(0, false);
            soc.pass();
        });
    }

    #[test]
    fn doorbells_coalesce_to_the_first() {
        let page = page();
        page.ring(2, 3, 500);
        page.ring(2, 3, 900);
        page.ring(2, 1, 600);
        page.ring(99, 1, 1);
        page.ring(2, 99, 1);
        assert_eq!(page.first_arrival(2), 500);
        assert_eq!(page.take_arrival(2, 499), None);
        assert_eq!(page.take_arrival(2, 1000), Some(3));
        assert_eq!(page.take_arrival(2, 1000), Some(1));
        assert_eq!(page.take_arrival(2, NEVER), None);
    }
}

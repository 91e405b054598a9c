//! Effects of a step, collected until it returns.
//!
//! **When full** (more than [`ROOM`] wakes), all parked callers are woken instead; those that have
//! nothing to do are parked again. No wake is lost.

use crate::service::{Effects, Token};
use arrayvec::ArrayVec;

/// Limit on individually recorded wakes.
const ROOM: usize = 32;

/// The effects of one step.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    wakes: ArrayVec<Token, ROOM>,
    all: bool,
    timer: Option<u64>,
}

impl Outbox {
    #[inline]
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Returns the tokens to wake.
    #[inline]
    pub fn wakes(&self) -> &[Token] {
        &self.wakes
    }

    /// Returns whether all parked callers must be woken, not only those in [`Outbox::wakes`].
    #[inline]
    pub fn wakes_all(&self) -> bool {
        self.all
    }

    /// Returns the time (soc ns) at which the service wants its timer event.
    #[inline]
    pub fn timer(&self) -> Option<u64> {
        self.timer
    }
}

impl Effects for Outbox {
    fn wake(&mut self, token: Token) {
        if !self.wakes.contains(&token) && self.wakes.try_push(token).is_err() {
            self.all = true;
        }
    }

    fn wake_all(&mut self) {
        self.all = true;
    }

    fn timer(&mut self, at: u64) {
        self.timer = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::{DomainId, Epoch};

    #[test]
    fn a_full_outbox_wakes_everyone_instead_of_losing_a_wake() {
        let mut outbox = Outbox::new();
        let token = |thread| Token::new(DomainId(0), Epoch(1), thread, 1);
        outbox.wake(token(1));
        outbox.wake(token(1));
        assert_eq!(outbox.wakes(), [token(1)]);
        (2..=ROOM as u64).for_each(|thread| outbox.wake(token(thread)));
        assert!(outbox.wakes().len() == ROOM && !outbox.wakes_all());
        outbox.wake(token(99));
        assert!(outbox.wakes_all());
    }
}

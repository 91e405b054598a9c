//! What a step asks of its kernel, kept until the step is over.
//!
//! **Full**: beyond [`ROOM`] tokens nobody is forgotten: all who are parked are woken. Who was
//! woken for nothing is parked again.

use crate::form::{Effects, Token};
use arrayvec::ArrayVec;

/// Most tokens that are remembered one by one.
const ROOM: usize = 32;

/// Effects of one step.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    wakes: ArrayVec<Token, ROOM>,
    all: bool,
    timer: Option<u64>,
}

impl Outbox {
    /// Empty.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Who may ask again.
    pub fn wakes(&self) -> &[Token] {
        &self.wakes
    }

    /// Are there more than [`Outbox::wakes`] says, so that everybody must be woken?
    pub fn wakes_all(&self) -> bool {
        self.all
    }

    /// When the service wants its timer.
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
    fn nobody_is_forgotten() {
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

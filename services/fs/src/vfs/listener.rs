//! A caller that waits for work: the driver of a disk, or the server of a file system.
//!
//! Contract: the listener is parked, and woken when there is work. If it does not come, the first
//! step after [`PATIENCE`] wakes it again. The last caller that requested work is the listener.

use share::{Effects, Token};

/// Time after which a wake that had no effect is repeated, in ns.
pub const PATIENCE: u64 = 500_000_000;

/// The waiting caller, if there is one.
#[derive(Debug, Default)]
pub struct Listener(Option<Waiting>);

#[derive(Debug)]
struct Waiting {
    token: Token,
    called: Option<u64>,
}

impl Listener {
    /// Makes this caller the listener.
    pub fn listens(&mut self, token: Token) {
        self.0 = Some(Waiting { token, called: None });
    }

    /// The listener has asked for work, so it waits no more.
    pub fn came(&mut self) {
        self.0 = None;
    }

    /// Wakes the listener for the last time: there will be no more work.
    pub fn dismiss(&mut self, effects: &mut dyn Effects) {
        if let Some(waiting) = self.0.take() {
            effects.wake(waiting.token);
        }
    }

    /// Drops the listener if `which` holds for it.
    pub fn deafen(&mut self, which: impl Fn(Token) -> bool) {
        self.0.take_if(|waiting| which(waiting.token));
    }

    /// Wakes the listener because there is work, at most once in [`PATIENCE`].
    pub fn call(&mut self, now: u64, effects: &mut dyn Effects) {
        if let Some(waiting) = &mut self.0
            && waiting.called.is_none_or(|at| now >= at.saturating_add(PATIENCE))
        {
            waiting.called = Some(now);
            effects.wake(waiting.token);
        }
    }
}

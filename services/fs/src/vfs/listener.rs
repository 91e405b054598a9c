//! Who waits for something to do: for a disk, or for a served file system.
//!
//! Contract: it waits without asking again, and is called when there is something; a call in vain
//! is made again after [`PATIENCE`], by whatever step looks. Who asks last is who listens.

use share::{Effects, Token};

/// When who was called and did not come is called again, in ns.
pub const PATIENCE: u64 = 500_000_000;

/// Nobody, or somebody.
#[derive(Debug, Default)]
pub struct Listener(Option<Waiting>);

#[derive(Debug)]
struct Waiting {
    token: Token,
    called: Option<u64>,
}

impl Listener {
    /// From now on this one.
    pub fn listens(&mut self, token: Token) {
        self.0 = Some(Waiting { token, called: None });
    }

    /// It came.
    pub fn came(&mut self) {
        self.0 = None;
    }

    /// There will be nothing to do: it is called to hear that.
    pub fn dismiss(&mut self, effects: &mut dyn Effects) {
        if let Some(waiting) = self.0.take() {
            effects.wake(waiting.token);
        }
    }

    /// Some listen no more.
    pub fn deafen(&mut self, who: impl Fn(Token) -> bool) {
        self.0.take_if(|waiting| who(waiting.token));
    }

    /// There is something to do.
    pub fn call(&mut self, now: u64, effects: &mut dyn Effects) {
        if let Some(waiting) = &mut self.0
            && waiting.called.is_none_or(|at| now >= at.saturating_add(PATIENCE))
        {
            waiting.called = Some(now);
            effects.wake(waiting.token);
        }
    }
}

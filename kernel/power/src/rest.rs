//! The steps to a rest and back.
//!
//! ```text
//!   Drain ---> Announce ---> Look ---> Sleep ---> Return ---> Over
//!     |            |           |         |           ^
//!     | stays      | refused   | found   | refused   |
//!     v            +---------- | ------- | ----------+
//!    Over                      +-> Withdraw ---------+
//! ```
//! The domain gives up its pages (Drain), and the soc publishes that it rests (Announce). Only then
//! does it look for messages, once (Look). A peer sends a message first and looks at the domain's
//! state afterwards. So one of the two finds the other: the domain finds the message, and withdraws
//! its rest, or the peer finds the rest and has the soc end it. The soc refuses to stop a domain
//! (Sleep) whose rest has ended since Announce.
//!
//! `host/soc/tests/model_rest/` explores this with the soc's power controller and several peers.

/// What the kernel does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Stop the other cores, and give up the pages of the shared block. Fails if there is work
    /// again, or the domain must keep them.
    Drain,
    /// Request REST of the soc.
    Announce,
    /// Look for messages and for completed requests of devices. Fails if there are any.
    Look,
    /// Request SLEEP of the soc. Succeeds when the domain has been woken.
    Sleep,
    /// Request a WAKE of this domain.
    Withdraw,
    /// Join the shared block again, serve what has arrived, start the other cores.
    Return,
    /// Nothing is left to do.
    Over(Outcome),
}

/// How an attempt to rest has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The domain was stopped for a while.
    Rested,
    /// It was not.
    Stayed,
}

/// One attempt to rest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rest {
    step: Step,
    outcome: Outcome,
}

impl Default for Rest {
    fn default() -> Rest {
        Rest { step: Step::Drain, outcome: Outcome::Stayed }
    }
}

impl Rest {
    /// Returns the next step.
    pub const fn step(&self) -> Step {
        self.step
    }

    /// Returns whether the domain was stopped in this attempt.
    pub const fn has_slept(&self) -> bool {
        matches!(self.outcome, Outcome::Rested)
    }

    /// Reports the end of that step.
    pub fn done(&mut self, has_succeeded: bool) {
        if (self.step, has_succeeded) == (Step::Sleep, true) {
            self.outcome = Outcome::Rested;
        }
        self.step = match (self.step, has_succeeded) {
            (Step::Drain, true) => Step::Announce,
            (Step::Announce, true) => Step::Look,
            (Step::Look, true) => Step::Sleep,
            (Step::Look, false) => Step::Withdraw,
            (Step::Announce | Step::Sleep | Step::Withdraw, _) => Step::Return,
            (Step::Drain, false) | (Step::Return, _) => Step::Over(self.outcome),
            (Step::Over(_), _) => self.step,
        };
    }
}

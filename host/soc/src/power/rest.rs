//! Rest: a kernel stops its own domain until there is something to do.

use super::{Ask, Asker, Effect, Job, NOBODY, Power};
use abi::soc::{command, error, state};

/// The rest of a domain in state RESTING.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rest {
    /// Chip time at which it ends.
    pub until: u64,
    /// The domain has been stopped.
    pub is_stopped: bool,
}

impl Power {
    /// Returns the time of the next [`super::Event::Time`] that has an effect.
    pub fn alarm(&self) -> Option<u64> {
        let rests = self.domains.iter().filter(|domain| domain.state == state::RESTING);
        rests.map(|domain| domain.rest.until).min().filter(|&at| at != u64::MAX)
    }

    /// Ends the rest of those domains that `ends` selects.
    pub(super) fn end_rests(&mut self, ends: impl Fn(usize, &Rest) -> bool) {
        for d in 0..self.domains.len() {
            let domain = &self.domains[d];
            // While a job is in progress, a WAKE waits for it.
            let is_ending = domain.waiting.iter().any(|ask| ask.command == command::WAKE);
            if domain.state == state::RESTING && !is_ending && ends(d, &domain.rest) {
                let wake = Ask { asker: NOBODY, command: command::WAKE, arguments: [0; 2] };
                self.power_request(d, wake);
            }
        }
    }

    /// A domain has stopped that may have served the devices. Those that rest may not listen to
    /// them, so they wake if no other domain runs (docs/design/rest.md).
    pub(super) fn wake_a_server(&mut self) {
        if !self.domains.iter().any(|domain| domain.state == state::RUNNING) {
            self.end_rests(|_, _| true);
        }
    }

    pub(super) fn rest(&mut self, asker: Asker, d: usize, [until, vectors]: [u64; 2]) {
        if self.domains[d].state != state::RUNNING {
            return self.answer(asker, error::STATE, 0);
        }
        self.domains[d].rest = Rest { until, is_stopped: false };
        self.effects.push(Effect::Listen(d, vectors));
        self.set_state(d, state::RESTING);
        self.answer(asker, error::NONE, 0);
    }

    pub(super) fn sleep(&mut self, asker: Asker, d: usize) {
        match self.domains[d].state {
            state::RESTING => self.start_job(asker, d, Job::Stop, 0),
            _ => self.answer(asker, error::STATE, 0),
        }
    }

    /// Returns a domain that rests to RUNNING.
    pub(super) fn end_rest(&mut self, asker: Asker, d: usize) {
        let is_stopped = std::mem::take(&mut self.domains[d].rest.is_stopped);
        self.effects.push(Effect::Listen(d, 0));
        self.set_state(d, state::RUNNING);
        match is_stopped {
            true => self.start_job(asker, d, Job::Continue, 0),
            false => self.answer(asker, error::NONE, 0),
        }
    }
}

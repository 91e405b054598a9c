//! What follows the end of a domain's QEMU.

use super::{CRASH_LOOP, CRASH_WINDOW_NS, Effect, Fate, LAST_EPOCH, Power};
use abi::soc::{error, state};

impl Power {
    pub(super) fn ended(&mut self, d: usize, now: u64) {
        let domain = &mut self.domains[d];
        domain.alive = false;
        domain.condemned = false;
        let hung = std::mem::take(&mut domain.hung);
        domain.deaths += 1;
        domain.resume = 0;
        domain.crashes.push_back(now);
        while domain.crashes.front().is_some_and(|&t| now.saturating_sub(t) > CRASH_WINDOW_NS) {
            domain.crashes.pop_front();
        }
        let fate = self.fate(d);
        let domain = &mut self.domains[d];
        let pending = domain.job.take();
        self.effects.push(Effect::Fence(d));
        self.forget_requests_of(d);
        self.set_state(d, state::DEAD);
        self.effects.push(Effect::Died(d, fate));
        match fate {
            Fate::Essential if hung => self.effects.push(Effect::Again),
            Fate::Essential | Fate::Last => self.effects.push(Effect::End(false)),
            Fate::Restarts => self.boot(d),
            // What the dead domain would have done falls to those that are left.
            Fate::Stays | Fate::GivenUp => self.end_rests(|_, _| true),
        }
        if let Some(pending) = pending {
            self.answer_unless_dead(d, pending.asker, error::PLATFORM);
        }
        self.serve_waiting(d);
    }

    /// Returns what happens to a domain that has just died.
    fn fate(&mut self, d: usize) -> Fate {
        let is_last = self.domains.iter().all(|domain| !domain.alive);
        let domain = &mut self.domains[d];
        let again = domain.again.take().unwrap_or(domain.policy.restart);
        let is_given_up = domain.crashes.len() > CRASH_LOOP
            || domain.deaths >= domain.policy.max_deaths
            || domain.epoch == LAST_EPOCH;
        match again {
            _ if domain.policy.essential => Fate::Essential,
            true if !is_given_up => Fate::Restarts,
            _ if is_last => Fate::Last,
            true => Fate::GivenUp,
            false => Fate::Stays,
        }
    }
}

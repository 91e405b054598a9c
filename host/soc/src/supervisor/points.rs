//! Points of a run in the lab (`lab::points`): a domain dies or is stopped before an access.

use super::Supervisor;
use crate::power::{Event, NOBODY};
use abi::soc::{command, state};

/// A domain that was stopped is woken so much later, if no other domain has done so, in ns.
const ASLEEP_NS: u64 = 20_000_000;

/// A domain that was stopped.
pub(super) struct Stopped {
    domain: usize,
    epoch: u64,
    /// When it is woken.
    until: u64,
}

impl Supervisor {
    /// Kills and stops domains that have reached a point, and wakes those whose time is over.
    pub(super) fn carry_out_points(&mut self) {
        for point in self.gate().take_points() {
            let domains = &self.parts.config.domains;
            let Some(d) = domains.iter().position(|domain| domain.name == point.domain) else {
                continue;
            };
            let us = self.now() / 1000;
            log::info!("{} reaches {} at {us} us.", point.domain, point.option());
            if point.kills {
                self.step(Event::Crash(d));
                continue;
            }
            self.step(Event::Request(NOBODY, command::INACTIVE, d as u64, 0));
            let epoch = self.power.view(d).map_or(0, |view| view.epoch);
            self.stopped.push(Stopped { domain: d, epoch, until: self.now() + ASLEEP_NS });
        }
        let now = self.now();
        let due = self.stopped.extract_if(.., |stopped| stopped.until <= now).collect::<Vec<_>>();
        for Stopped { domain, epoch, .. } in due {
            let is_same = |view: &crate::power::View| view.epoch == epoch;
            let view = self.power.view(domain).filter(is_same);
            if view.is_some_and(|view| view.state == state::INACTIVE) {
                self.step(Event::Request(NOBODY, command::WAKE, domain as u64, 0));
            }
        }
    }

    /// Returns when the next stopped domain is due.
    pub(super) fn next_wake(&self) -> Option<u64> {
        self.stopped.iter().map(|stopped| stopped.until).min()
    }
}

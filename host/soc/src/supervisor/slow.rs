//! Reports a domain that does not come up, once per boot, with its registers: a hanging boot
//! reports nothing. The reaction is left to people.

use super::Supervisor;
use crate::qmp::Order;
use rustix::event::Timespec;
use std::time::{Duration, Instant};

/// The booting domains and their deadlines, in host time: even in the lab, a person waits for a
/// slow boot.
pub(super) struct Boots {
    patience: Duration,
    until: Vec<Option<Instant>>,
}

impl Boots {
    pub fn new(domains: usize, patience: Duration) -> Boots {
        Boots { patience, until: vec![None; domains] }
    }

    /// Domain `d` begins to boot, or has left that state.
    pub fn note(&mut self, d: usize, boots: bool) {
        self.until[d] = boots.then(|| Instant::now() + self.patience);
    }

    /// Returns the time until the first one is late.
    pub fn left(&self) -> Option<Timespec> {
        let first = self.until.iter().flatten().min()?;
        let left = first.saturating_duration_since(Instant::now());
        let tv_sec = left.as_secs().try_into().unwrap_or(i64::MAX);
        Some(Timespec { tv_sec, tv_nsec: left.subsec_nanos().into() })
    }

    /// Returns a domain that has become late; each is returned once.
    fn next(&mut self) -> Option<usize> {
        let now = Instant::now();
        let d = self.until.iter().position(|until| until.is_some_and(|until| until <= now))?;
        self.until[d] = None;
        Some(d)
    }
}

impl Supervisor {
    /// In a reproducible run only the log is written, and in the lab a QEMU may be stopped while it
    /// has the turn. A QEMU with another job is not asked for its registers, because it may be
    /// waiting for that job.
    pub(super) fn tell_of_slow_boots(&mut self) {
        while let Some(d) = self.boots.next() {
            let said = format!("{} has not come up for {:?}", self.name(d), self.boots.patience);
            log::warn!("{said}; it has sent {} requests.", self.handled[d]);
            if self.gate().is_lab() || self.parts.config.exact {
                continue;
            }
            if let Some(voice) = &self.parts.voice {
                voice.say(&format!("{said}; see soc.log."));
            }
            let idle = self.power.view(d).is_some_and(|view| !view.busy);
            if let Some(qemu) = self.qemus[d].as_ref().filter(|_| idle) {
                qemu.order(Order::Look);
            }
        }
    }
}

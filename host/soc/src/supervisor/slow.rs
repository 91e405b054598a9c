//! A domain that does not come up is told of, once a boot, with where it stands: a boot that hangs
//! says nothing by itself. What to do about it is left to people.

use super::Supervisor;
use crate::qmp::Order;
use rustix::event::Timespec;
use std::time::{Duration, Instant};

/// Who boots, and until when that is nothing to wonder at. Host time: in the lab, too, a boot that
/// takes long is one that somebody waits for.
pub(super) struct Boots {
    patience: Duration,
    until: Vec<Option<Instant>>,
}

impl Boots {
    pub fn new(domains: usize, patience: Duration) -> Boots {
        Boots { patience, until: vec![None; domains] }
    }

    /// Domain `d` begins to boot, or is in another state.
    pub fn note(&mut self, d: usize, boots: bool) {
        self.until[d] = boots.then(|| Instant::now() + self.patience);
    }

    /// Until the first of them is slow.
    pub fn left(&self) -> Option<Timespec> {
        let first = self.until.iter().flatten().min()?;
        let left = first.saturating_duration_since(Instant::now());
        let tv_sec = left.as_secs().try_into().unwrap_or(i64::MAX);
        Some(Timespec { tv_sec, tv_nsec: left.subsec_nanos().into() })
    }

    /// One that has become slow; each is said once.
    fn next(&mut self) -> Option<usize> {
        let now = Instant::now();
        let d = self.until.iter().position(|until| until.is_some_and(|until| until <= now))?;
        self.until[d] = None;
        Some(d)
    }
}

impl Supervisor {
    /// Of a run that must repeat only the log is told, and in the lab a QEMU may stand with
    /// everybody's turn. Nor is one asked that has another job, which may be what it waits for.
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

//! The timers that this kernel keeps for the services, and those that it leaves to other kernels
//! while it rests (docs/design/rest.md).

use super::served::Registered;
use super::{Platform, Services};
use abi::service::ALL;
use core::sync::atomic::Ordering;
use kernel_sched::ThreadId;

/// For each service the time of its timer; `u64::MAX` if it wants none.
pub type Timers = [u64; ALL.len()];

/// The timers of services that may all have something to do.
pub const ALL_DUE: Timers = [0; ALL.len()];
/// The timers of services of which none has anything to do.
pub const NONE_DUE: Timers = [u64::MAX; ALL.len()];

impl Services {
    /// Lets the thread of [`Services::keep`] read the timers again.
    pub(super) fn look_at_timers(&self, platform: &Platform) {
        self.changed.wake_all(&platform.scheduler);
    }

    /// Returns the earliest time at which a service wants its timer; `u64::MAX` if none does.
    pub(super) fn timer(&self) -> u64 {
        let timers = self.all().into_iter().map(Registered::timer);
        timers.min().unwrap_or(u64::MAX)
    }

    /// Returns the thread whose deadline [`Services::next_deadline`] replaces in a rest.
    pub fn timers_thread(&self) -> Option<ThreadId> {
        self.thread.get().copied()
    }

    /// Returns the earliest time at which this kernel has to be awake for its services;
    /// `u64::MAX` if there is none. `keeps`: also for the timers of shared services.
    pub fn next_deadline(&self, keeps: bool) -> u64 {
        if self.owed.load(Ordering::Relaxed) != 0 {
            return 0;
        }
        let kept = self.all().into_iter().filter(|service| keeps || !service.is_shared());
        kept.map(Registered::timer).min().unwrap_or(u64::MAX)
    }

    /// Returns the timers of the shared services that this kernel has.
    pub fn shared_timers(&self) -> Timers {
        let timer = |service: &dyn Registered| match service.is_shared() {
            true => service.timer(),
            false => u64::MAX,
        };
        self.all().map(timer)
    }

    /// Takes timers of the shared services from another kernel. Returns false if this changes
    /// nothing. From any context.
    pub fn take_timers(&self, platform: &Platform, timers: &Timers) -> bool {
        let mut has_taken = false;
        for (service, &at) in self.all().into_iter().zip(timers) {
            has_taken |= service.is_shared() && service.take_timer(at);
        }
        if has_taken {
            self.look_at_timers(platform);
        }
        has_taken
    }
}

//! Wakes of parked callers, here and on other kernels.

use super::Services;
use base::id::DomainId;
use core::sync::atomic::Ordering;
use kernel_msg::Refusal;
use kernel_platform::Platform;
use kernel_platform::peers::Procedure;
use kernel_sched::ThreadId;
use share::{Outbox, Token};
use zerocopy::{FromBytes, IntoBytes};

/// When a wake is sent again that found no room in the ring.
const AGAIN_NS: u64 = 10_000_000;

impl Services {
    pub(super) fn wake_all(&self, platform: &Platform) {
        self.all_woken.fetch_add(1, Ordering::Relaxed);
        self.parked.wake_all(&platform.scheduler);
    }

    /// Performs the wakes that a step requested.
    #[inline]
    pub(super) fn perform(&self, platform: &Platform, outbox: &Outbox) {
        for &token in outbox.wakes() {
            self.wake(platform, token);
        }
        if outbox.wakes_all() {
            self.wake_all(platform);
            let all = Token::default();
            platform.peers.ids().for_each(|peer| self.notify_resting(platform, peer, all));
        }
    }

    fn wake(&self, platform: &Platform, token: Token) {
        if token.kernel() != platform.me {
            self.notify(platform, token.kernel(), token);
            platform.peers.wake_sleeper(platform, token.kernel());
        } else if token.epoch() == platform.epoch {
            self.woken(token).note(token.sequence);
            platform.scheduler.wake(ThreadId::from_token(token.thread));
        }
    }

    /// Handles a wake from another kernel's step: of one token, or of all parked callers (the empty
    /// token). From any context.
    pub fn heard_wake(&self, platform: &Platform, payload: &[u8]) -> Result<usize, Refusal> {
        let token = Token::read_from_bytes(payload).map_err(|_| Refusal::Refused)?;
        match token == Token::default() {
            true => self.wake_all(platform),
            false if token.kernel() == platform.me => self.wake(platform, token),
            false => {}
        }
        Ok(0)
    }

    /// Sends kernel `peer` a wake of `token`, and wakes the kernel if it rests.
    fn notify_resting(&self, platform: &Platform, peer: DomainId, token: Token) {
        self.notify(platform, peer, token);
        platform.peers.wake_resting(platform, peer);
    }

    /// Sends kernel `peer` a wake of `token`, now or later.
    fn notify(&self, platform: &Platform, peer: DomainId, token: Token) {
        if !platform.peers.notify(peer, Procedure::Wake, token.as_bytes()) {
            self.owed.fetch_or(1 << peer.0, Ordering::Relaxed);
            self.changed.wake_all(&platform.scheduler);
        }
    }

    /// Sends the wakes that are owed, to all parked callers. Returns the time at which to call it
    /// again; `u64::MAX`: no wake is owed.
    pub(super) fn pay_owed(&self, platform: &Platform) -> u64 {
        let owed = self.owed.swap(0, Ordering::Relaxed);
        let peers = platform.peers.ids().filter(|peer| owed >> peer.0 & 1 != 0);
        peers.for_each(|peer| self.notify_resting(platform, peer, Token::default()));
        match self.owed.load(Ordering::Relaxed) {
            0 => u64::MAX,
            _ => arch::time::soc_time() + AGAIN_NS,
        }
    }
}

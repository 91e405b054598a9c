//! Delayed wakes between kernels: one wake for several reads or writes of a pipe.
//!
//! Two kernels that take turns at a pipe move its pages, and all other pages of the service, each
//! time. Without a delay, a writer would wake a reader in another kernel for each piece, and a
//! reader that drains a full pipe would wake its writer for each read. Such a wake is delayed until
//! the pipe is nearly full or empty, or for [`DELAY`].
//!
//! Contract: a wake within a kernel is never delayed. Nor is the wake by a thread's first write
//! after a different request, so a request and its answer take no longer.

use super::{Call, Key, Vfs};
use abi::boot::MAX_DOMAINS;
use abi::fs::{Op, Request};
use alloc::vec::Vec;
use share::{Effects, Token};

/// Maximum delay of a wake, in ns.
const DELAY: u64 = 1_000_000;
/// Maximum number of keys with a delayed wake.
const MOST: usize = 16;

/// The last request of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Last {
    thread: u64,
    /// The handle that it wrote to; 0: another operation.
    written: u64,
}

/// The delayed wakes.
#[derive(Debug, Default)]
pub struct Late {
    keys: Vec<Key>,
    /// When they are due.
    at: Option<u64>,
    /// The service must request a timer.
    is_new: bool,
    /// By kernel.
    last: [Last; MAX_DOMAINS],
    /// This step writes to the handle to which the same thread wrote in its kernel's last step.
    goes_on: bool,
}

impl Late {
    /// Notes a request at its beginning.
    pub fn begin(&mut self, token: Token, request: &Request) {
        let written = if request.op == Op::Write as u16 { request.handle } else { 0 };
        let now = Last { thread: token.thread, written };
        let Some(last) = self.last.get_mut(usize::from(token.kernel)) else { return };
        self.goes_on = written != 0 && *last == now;
        *last = now;
    }

    /// Returns whether this step continues a sequence of writes.
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Delays the wake of `key`; returns false if there is no room for it.
    fn put(&mut self, key: Key, now: u64) -> bool {
        if self.keys.contains(&key) {
            return true;
        }
        if self.keys.len() >= MOST || self.keys.try_reserve(1).is_err() {
            return false;
        }
        self.keys.push(key);
        if self.at.is_none() {
            self.at = Some(now.saturating_add(DELAY));
            self.is_new = true;
        }
        true
    }

    fn forget(&mut self, key: Key) {
        self.keys.retain(|&known| known != key);
    }
}

impl Vfs {
    /// Wakes the callers parked at `key`. The wake is delayed if only one caller is, in another
    /// kernel, and there is not yet enough for it (`is_enough`).
    pub(super) fn wake_in_time(&mut self, key: Key, is_enough: bool, call: &mut Call<'_>) {
        let here = call.token.kernel;
        let alone = self.parked.only(key);
        let is_elsewhere = alone.is_some_and(|(waiting, _)| waiting.kernel != here);
        if !is_enough && is_elsewhere && self.late.put(key, call.now) {
            return;
        }
        self.late.forget(key);
        self.parked.wake(key, call.effects);
    }

    /// Handles a timer. Returns whether there are delayed wakes; those that are due are performed.
    pub(super) fn wake_late(&mut self, now: u64, effects: &mut dyn Effects) -> bool {
        let Some(at) = self.late.at else { return false };
        // If this one was early, another is needed.
        self.late.is_new = true;
        if at <= now {
            self.late.at = None;
            for key in core::mem::take(&mut self.late.keys) {
                self.parked.wake(key, effects);
            }
        }
        true
    }

    /// Requests a timer if one is needed.
    pub(super) fn time_late(&mut self, effects: &mut dyn Effects) {
        if core::mem::take(&mut self.late.is_new)
            && let Some(at) = [self.late.at, self.write_at].into_iter().flatten().min()
        {
            effects.timer(at);
        }
    }
}

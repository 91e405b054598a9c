//! Wakes between kernels that come a little later, for all that happens until then.
//!
//! Two kernels that take turns at a pipe take its pages, and all of the service's, from each other
//! each time. A writer that goes on writing would wake a reader in another kernel for each piece,
//! and a reader that drains a full pipe its writer for each read. So such a wake waits until most
//! of the pipe is full, or empty, or [`DELAY`] is over.
//!
//! Contract: a wake within a kernel is never late, and neither is the first write of a thread
//! behind anything else that it asks, so a question and its answer are as quick as ever.

use super::{Call, Key, Vfs};
use abi::boot::MAX_DOMAINS;
use abi::fs::{Op, Request};
use alloc::vec::Vec;
use share::{Effects, Token};

/// How late a wake may be, in ns.
const DELAY: u64 = 1_000_000;
/// Most keys whose wake waits.
const MOST: usize = 16;

/// What a thread asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Last {
    thread: u64,
    /// The handle that it wrote to; 0: it did something else.
    written: u64,
}

/// Wakes that wait.
#[derive(Debug, Default)]
pub struct Late {
    keys: Vec<Key>,
    /// When they are over.
    at: Option<u64>,
    /// A timer is to be asked for.
    is_new: bool,
    /// What was asked last, of each kernel.
    last: [Last; MAX_DOMAINS],
    /// This step goes on with what its thread did in the one before: it writes to the same handle.
    goes_on: bool,
}

impl Late {
    /// A request begins.
    pub fn begin(&mut self, token: Token, request: &Request) {
        let written = if request.op == Op::Write as u16 { request.handle } else { 0 };
        let now = Last { thread: token.thread, written };
        let Some(last) = self.last.get_mut(usize::from(token.kernel)) else { return };
        self.goes_on = written != 0 && *last == now;
        *last = now;
    }

    /// Does this step go on writing?
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Has the wake of `key` wait; false: it cannot.
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
    /// Wakes who waits for `key`: now if that `is_enough` for it, or a little later.
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

    /// A timer came; true: it was one for wakes that wait, and they are made if it is time.
    pub(super) fn wake_late(&mut self, now: u64, effects: &mut dyn Effects) -> bool {
        let Some(at) = self.late.at else { return false };
        // The next timer is another's, or ours once more if this one was early.
        self.late.is_new = true;
        if at <= now {
            self.late.at = None;
            for key in core::mem::take(&mut self.late.keys) {
                self.parked.wake(key, effects);
            }
        }
        true
    }

    /// Asks for a timer, where one is wanted.
    pub(super) fn time_late(&mut self, effects: &mut dyn Effects) {
        if core::mem::take(&mut self.late.is_new)
            && let Some(at) = [self.late.at, self.write_at].into_iter().flatten().min()
        {
            effects.timer(at);
        }
    }
}

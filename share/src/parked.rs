//! Wait queues inside a service's state.
//!
//! Contract: the service chooses the keys; a token may wait for several. A parked token is woken
//! once, however many of its keys become ready, unless it is removed before (its request was
//! repeated or cancelled, or its kernel died). A wake of a key wakes all its waiters, in order of
//! arrival; the first one that repeats its request gets what there is, and the others are parked
//! again. So a waiter that does not use its wake delays no other waiter.

use crate::service::{Effects, Token};
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};

/// A set of waiters: two sorted lists, because there are few waiters and a step searches both.
#[derive(Debug)]
pub struct Parked<K> {
    /// Token, key, arrival number; sorted by token.
    waits: Vec<(Token, K, u64)>,
    /// Key, arrival number, token, bytes wanted; sorted by key, then by arrival.
    order: Vec<(K, u64, Token, usize)>,
    next: u64,
    most: usize,
}

/// Capacity that an empty list keeps.
const KEPT: usize = 16;

/// Gives unused capacity back. If the arena has no memory for a smaller copy, the list stays as it
/// is.
fn trim<T: Copy>(list: &mut Vec<T>) {
    if list.capacity() <= KEPT || list.len() > list.capacity() / 4 {
        return;
    }
    let mut less = Vec::new();
    if less.try_reserve_exact(KEPT.max(2 * list.len())).is_ok() {
        less.extend_from_slice(list);
        *list = less;
    }
}

impl<K: Copy + Ord> Parked<K> {
    /// Creates an empty queue for at most `most` entries.
    pub const fn new(most: usize) -> Self {
        Parked { waits: Vec::new(), order: Vec::new(), next: 0, most }
    }

    /// Adds `key` to what `token` waits for. Returns `None` when the queue or the arena is full.
    pub fn park(&mut self, token: Token, key: K) -> Option<()> {
        self.park_with(token, key, 0)
    }

    /// Does the same as [`Parked::park`]; `room` is the number of bytes the waiter takes, which
    /// [`Parked::only`] returns.
    pub fn park_with(&mut self, token: Token, key: K, room: usize) -> Option<()> {
        if self.order.len() >= self.most {
            return None;
        }
        let own = self.waits.partition_point(|wait| wait.0 < token);
        let mut at = own;
        while let Some(&(_, known, _)) = self.waits.get(at).filter(|wait| wait.0 == token) {
            if known == key {
                return Some(());
            }
            at += 1;
        }
        self.waits.try_reserve(1).ok()?;
        self.order.try_reserve(1).ok()?;
        // `at` is after the other waits of this token, `last` after the other waiters for this key.
        self.waits.insert(at, (token, key, self.next));
        let last = self.order.partition_point(|wait| wait.0 <= key);
        self.order.insert(last, (key, self.next, token, room));
        self.next += 1;
        Some(())
    }

    /// Removes all waits of `token`.
    pub fn forget(&mut self, token: Token) {
        let from = self.waits.partition_point(|wait| wait.0 < token);
        if self.waits.get(from).is_none_or(|wait| wait.0 != token) {
            return;
        }
        let own = self.waits[from..].iter().take_while(|wait| wait.0 == token).count();
        for (_, key, number) in self.waits.drain(from..from + own) {
            let wait = self.order.binary_search_by(|known| (known.0, known.1).cmp(&(key, number)));
            if let Ok(at) = wait {
                self.order.remove(at);
            }
        }
        self.trim();
    }

    fn trim(&mut self) {
        trim(&mut self.waits);
        trim(&mut self.order);
    }

    /// Returns the waiter for `key` and the bytes it takes, if there is exactly one.
    pub fn only(&self, key: K) -> Option<(Token, usize)> {
        let from = self.order.partition_point(|wait| wait.0 < key);
        let mut waiting = self.order[from..].iter().take_while(|wait| wait.0 == key);
        let first = waiting.next()?;
        waiting.next().is_none().then_some((first.2, first.3))
    }

    /// Wakes all waiters for `key`.
    pub fn wake(&mut self, key: K, effects: &mut dyn Effects) {
        let from = self.order.partition_point(|wait| wait.0 < key);
        while let Some(&(_, _, token, _)) = self.order.get(from).filter(|wait| wait.0 == key) {
            self.forget(token);
            effects.wake(token);
        }
    }

    /// Wakes all waiters for keys that are `ready`.
    pub fn wake_ready(&mut self, ready: impl Fn(K) -> bool, effects: &mut dyn Effects) {
        let mut next = self.order.first().map(|wait| wait.0);
        while let Some(key) = next {
            if ready(key) {
                self.wake(key, effects);
            }
            let end = self.order.partition_point(|wait| wait.0 <= key);
            next = self.order.get(end).map(|wait| wait.0);
        }
    }

    /// Removes all waiters from one epoch of a kernel.
    pub fn gone(&mut self, kernel: DomainId, epoch: Epoch) {
        let lost = |t: &Token| t.kernel() == kernel && t.epoch() == epoch;
        self.waits.retain(|wait| !lost(&wait.0));
        self.order.retain(|wait| !lost(&wait.2));
        self.trim();
    }

    /// Returns the number of parked tokens.
    pub fn count(&self) -> usize {
        self.waits.chunk_by(|one, other| one.0 == other.0).count()
    }
}

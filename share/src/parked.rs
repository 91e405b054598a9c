//! Who waits for what, in the state of a service.
//!
//! Contract: the service chooses the keys, and whether somebody waits for several. A token that
//! is parked is woken once, whatever it waits for and how often that
//! happens, or forgotten (it asked again, cancelled, or its kernel is gone). All who wait at one
//! key are woken, in the order in which they came; whoever asks first gets what there is, and the
//! others park once more. So a wake that its receiver does not use is never one that another needs.

use crate::form::{Effects, Token};
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};

/// The records: two sorted lists, for there are few, and a step looks into both.
#[derive(Debug)]
pub struct Parked<K> {
    /// By token.
    waits: Vec<(Token, K, u64)>,
    /// By key, and by when they came; with how much they take.
    order: Vec<(K, u64, Token, usize)>,
    next: u64,
    most: usize,
}

/// Places that a list keeps though nobody waits.
const KEPT: usize = 16;

/// Gives back what a list has no use for. The state it is part of may be full: then it stays.
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
    /// Nobody yet, and `most` places in which somebody may wait.
    pub const fn new(most: usize) -> Self {
        Parked { waits: Vec::new(), order: Vec::new(), next: 0, most }
    }

    /// `token` waits for `key`, beside what it waits for already. `None`: no place is left.
    pub fn park(&mut self, token: Token, key: K) -> Option<()> {
        self.park_with(token, key, 0)
    }

    /// The same, with how much it takes, for [`Parked::only`].
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
        // The newest of its token, and of its key.
        self.waits.insert(at, (token, key, self.next));
        let last = self.order.partition_point(|wait| wait.0 <= key);
        self.order.insert(last, (key, self.next, token, room));
        self.next += 1;
        Some(())
    }

    /// Removes all of `token`.
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

    /// Who waits for `key`, if it is one, and how much it takes.
    pub fn only(&self, key: K) -> Option<(Token, usize)> {
        let from = self.order.partition_point(|wait| wait.0 < key);
        let mut waiting = self.order[from..].iter().take_while(|wait| wait.0 == key);
        let first = waiting.next()?;
        waiting.next().is_none().then_some((first.2, first.3))
    }

    /// Wakes all who wait for `key`.
    pub fn wake(&mut self, key: K, effects: &mut dyn Effects) {
        let from = self.order.partition_point(|wait| wait.0 < key);
        while let Some(&(_, _, token, _)) = self.order.get(from).filter(|wait| wait.0 == key) {
            self.forget(token);
            effects.wake(token);
        }
    }

    /// Wakes all who wait for a key that is ready.
    pub fn wake_ready(&mut self, ready: impl Fn(K) -> bool, effects: &mut dyn Effects) {
        let mut next = self.order.first().map(|wait| wait.0);
        while let Some(key) = next {
            if ready(key) {
                self.wake(key, effects);
            }
            let behind = self.order.partition_point(|wait| wait.0 <= key);
            next = self.order.get(behind).map(|wait| wait.0);
        }
    }

    /// Removes all of a kernel's life.
    pub fn gone(&mut self, kernel: DomainId, epoch: Epoch) {
        let lost = |t: &Token| t.kernel() == kernel && t.epoch() == epoch;
        self.waits.retain(|wait| !lost(&wait.0));
        self.order.retain(|wait| !lost(&wait.2));
        self.trim();
    }

    /// How many tokens are parked.
    pub fn count(&self) -> usize {
        self.waits.chunk_by(|one, other| one.0 == other.0).count()
    }
}

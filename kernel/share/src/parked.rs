//! Who waits for what, in the state of a service.
//!
//! Contract: the service chooses the keys, and whether somebody waits for several. A token that
//! is parked is woken once, whatever it waits for and how often that
//! happens, or forgotten (it asked again, cancelled, or its kernel is gone). All who wait at one
//! key are woken, in the order in which they came; whoever asks first gets what there is, and the
//! others park once more. So a wake that its receiver does not use is never one that another needs.

use crate::form::{Effects, Token};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};
use core::ops::Bound;

/// Behind every token, where it does not count who waits.
const LAST: Token =
    Token { epoch: u16::MAX, kernel: u8::MAX, reserved: 0, sequence: u32::MAX, thread: u64::MAX };

/// The records.
#[derive(Debug)]
pub struct Parked<K> {
    waits: BTreeMap<Token, Vec<(K, u64)>>,
    order: BTreeSet<(K, u64, Token)>,
    next: u64,
    most: usize,
}

impl<K: Copy + Ord> Parked<K> {
    /// Nobody yet, and `most` places in which somebody may wait.
    pub const fn new(most: usize) -> Self {
        Parked { waits: BTreeMap::new(), order: BTreeSet::new(), next: 0, most }
    }

    /// `token` waits for `key`, beside what it waits for already. `None`: no place is left.
    pub fn park(&mut self, token: Token, key: K) -> Option<()> {
        if self.order.len() >= self.most {
            return None;
        }
        let waits = self.waits.entry(token).or_default();
        if waits.iter().any(|(k, _)| *k == key) {
            return Some(());
        }
        waits.push((key, self.next));
        self.order.insert((key, self.next, token));
        self.next += 1;
        Some(())
    }

    /// Removes all of `token`.
    pub fn forget(&mut self, token: Token) {
        for (key, number) in self.waits.remove(&token).unwrap_or_default() {
            self.order.remove(&(key, number, token));
        }
    }

    /// Wakes all who wait for `key`.
    pub fn wake(&mut self, key: K, effects: &mut dyn Effects) {
        let from = (key, 0, Token::default());
        while let Some(&(at, _, token)) = self.order.range(from..).next()
            && at == key
        {
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
            let behind = (Bound::Excluded((key, u64::MAX, LAST)), Bound::Unbounded);
            next = self.order.range(behind).next().map(|wait| wait.0);
        }
    }

    /// Removes all of a kernel's life.
    pub fn gone(&mut self, kernel: DomainId, epoch: Epoch) {
        let lost = |t: &Token| t.kernel() == kernel && t.epoch() == epoch;
        self.waits.retain(|token, _| !lost(token));
        self.order.retain(|(_, _, token)| !lost(token));
    }

    /// How many tokens are parked.
    pub fn count(&self) -> usize {
        self.waits.len()
    }
}

//! Who waits for what.
//!
//! Contract: a token that is parked is woken once, whatever it waits for and how often that
//! happens, or forgotten (it asked again, cancelled, or its kernel is gone). All who wait at one
//! key are woken, in the order in which they came; whoever asks first gets what there is, and the
//! others park once more. So a wake that its receiver does not use is never one that another needs.

use abi::fs::Errno;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};
use kernel_share::{Effects, Token};

/// Most places in which somebody waits.
pub const WAITS: usize = 16_384;

/// What can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A pipe has data, or no writer.
    Readable(u32),
    /// A pipe has room, or no reader.
    Writable(u32),
    /// What a file system calls so.
    File(u32, u64),
}

type Wait = (Key, u64);

/// The records.
#[derive(Debug, Default)]
pub struct Parked {
    waits: BTreeMap<Token, Vec<Wait>>,
    order: BTreeSet<(Key, u64, Token)>,
    next: u64,
}

impl Parked {
    /// `token` waits for `key`, beside what it waits for already.
    pub fn park(&mut self, token: Token, key: Key) -> Result<(), Errno> {
        if self.order.len() >= WAITS {
            return Err(Errno::Nomem);
        }
        let waits = self.waits.entry(token).or_default();
        if waits.iter().any(|(k, _)| *k == key) {
            return Ok(());
        }
        waits.push((key, self.next));
        self.order.insert((key, self.next, token));
        self.next += 1;
        Ok(())
    }

    /// Removes all of `token`.
    pub fn forget(&mut self, token: Token) {
        for (key, number) in self.waits.remove(&token).unwrap_or_default() {
            self.order.remove(&(key, number, token));
        }
    }

    /// Wakes all who wait for `key`.
    pub fn wake(&mut self, key: Key, effects: &mut dyn Effects) {
        let from = (key, 0, Token::default());
        while let Some(&(at, _, token)) = self.order.range(from..).next()
            && at == key
        {
            self.forget(token);
            effects.wake(token);
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

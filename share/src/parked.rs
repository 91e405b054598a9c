//! Wait queues inside a service's state.
//!
//! Contract: the service chooses the keys; a token may wait for several. A parked token is woken
//! once, however many of its keys become ready, unless it is removed before (its request was
//! repeated or cancelled, or its kernel died). A wake of a key wakes all its waiters, in order of
//! arrival; the first one that repeats its request gets what there is, and the others are parked
//! again. So a waiter that does not use its wake delays no other waiter.
//!
//! However many keys a token waits for, and however many tokens one call wakes, an operation moves
//! each entry at most once.

use crate::service::{Effects, Token};
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};

/// A key that a token waits for.
#[derive(Clone, Copy, Debug)]
struct Wait<K> {
    token: Token,
    key: K,
    /// The process tree that it is charged to; 0: the system.
    tree: u32,
    /// The token was woken: [`Parked::sweep`] removes it. Set in its first entry only.
    is_woken: bool,
}

/// A waiter for a key.
#[derive(Clone, Copy, Debug)]
struct Waiter<K> {
    key: K,
    token: Token,
    /// Bytes wanted.
    room: usize,
}

/// A set of waiters: two sorted lists, because there are few waiters and a step searches both.
#[derive(Debug)]
pub struct Parked<K> {
    /// Sorted by token.
    waits: Vec<Wait<K>>,
    /// Sorted by key, then by arrival.
    order: Vec<Waiter<K>>,
    /// The number of keys that each tree waits for; sorted by tree, without the system.
    trees: Vec<(u32, u32)>,
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

/// Moves the repetitions of sorted keys to the end. Returns the others.
fn distinct<K: Copy + Ord>(keys: &mut [K]) -> &[K] {
    keys.sort_unstable();
    let mut count = 0;
    for at in 0..keys.len() {
        if count == 0 || keys[count - 1] != keys[at] {
            keys[count] = keys[at];
            count += 1;
        }
    }
    &keys[..count]
}

impl<K: Copy + Ord> Parked<K> {
    /// Creates an empty queue for at most `most` entries.
    pub const fn new(most: usize) -> Self {
        Parked { waits: Vec::new(), order: Vec::new(), trees: Vec::new(), most }
    }

    /// Adds `key` to what `token` waits for. Returns `None` when the queue or the arena is full.
    pub fn park(&mut self, token: Token, key: K) -> Option<()> {
        self.park_with(token, key, 0)
    }

    /// Does the same as [`Parked::park`]; `room` is the number of bytes the waiter takes, which
    /// [`Parked::only`] returns.
    pub fn park_with(&mut self, token: Token, key: K, room: usize) -> Option<()> {
        let from = self.place(token);
        let mut own = self.waits[from..].iter().take_while(|wait| wait.token == token);
        if own.any(|wait| wait.key == key) {
            return Some(());
        }
        self.add(token, &[key], (0, room))
    }

    /// Adds all `keys` to what `token` waits for, which is nothing yet. They are charged to process
    /// tree `tree`; 0: the system. Returns `None`, without an effect, when the queue or the arena
    /// is full. Reorders the keys.
    pub fn park_all(&mut self, token: Token, keys: &mut [K], tree: u32) -> Option<()> {
        self.add(token, distinct(keys), (tree, 0))
    }

    /// Adds sorted keys that `token` does not wait for yet.
    fn add(&mut self, token: Token, keys: &[K], (tree, room): (u32, usize)) -> Option<()> {
        let count = keys.len();
        if self.most.saturating_sub(self.order.len()) < count {
            return None;
        }
        self.waits.try_reserve(count).ok()?;
        self.order.try_reserve(count).ok()?;
        self.charge(tree, count as u32)?;
        // After the other waits of this token.
        let at = self.waits.partition_point(|wait| wait.token <= token);
        let wait = |&key: &K| Wait { token, key, tree, is_woken: false };
        self.waits.splice(at..at, keys.iter().map(wait));
        self.merge(token, keys, room);
        Some(())
    }

    /// Inserts waiters for sorted keys, each after the other waiters for its key.
    fn merge(&mut self, token: Token, keys: &[K], room: usize) {
        let mut old = self.order.len();
        self.order.extend(keys.iter().map(|&key| Waiter { key, token, room }));
        let mut end = self.order.len();
        for &key in keys.iter().rev() {
            let from = self.order[..old].partition_point(|waiter| waiter.key <= key);
            let moved = old - from;
            self.order.copy_within(from..old, end - moved);
            (old, end) = (from, end - moved - 1);
            self.order[end] = Waiter { key, token, room };
        }
    }

    /// Counts `more` keys of a tree. `None`: there is no memory for that.
    fn charge(&mut self, tree: u32, more: u32) -> Option<()> {
        if tree == 0 || more == 0 {
            return Some(());
        }
        match self.trees.binary_search_by_key(&tree, |known| known.0) {
            Ok(at) => self.trees[at].1 += more,
            Err(at) => {
                self.trees.try_reserve(1).ok()?;
                self.trees.insert(at, (tree, more));
            }
        }
        Some(())
    }

    fn release(trees: &mut Vec<(u32, u32)>, tree: u32) {
        if let Ok(at) = trees.binary_search_by_key(&tree, |known| known.0) {
            trees[at].1 -= 1;
            if trees[at].1 == 0 {
                trees.remove(at);
            }
        }
    }

    /// Returns the number of keys that process tree `tree` waits for.
    pub fn held_by(&self, tree: u32) -> usize {
        let found = self.trees.binary_search_by_key(&tree, |known| known.0);
        found.map_or(0, |at| self.trees[at].1 as usize)
    }

    /// Returns how many further keys there may be.
    pub fn left(&self) -> usize {
        self.most.saturating_sub(self.order.len())
    }

    /// Returns the place of a token's first wait, or where it would be.
    fn place(&self, token: Token) -> usize {
        self.waits.partition_point(|wait| wait.token < token)
    }

    /// Removes all waits of `token`.
    #[inline]
    pub fn forget(&mut self, token: Token) {
        // The token of a new request is usually the greatest.
        if self.waits.last().is_some_and(|last| token <= last.token) {
            self.forget_waits(token);
        }
    }

    #[inline(never)]
    fn forget_waits(&mut self, token: Token) {
        let from = self.place(token);
        let own = self.waits[from..].iter().take_while(|wait| wait.token == token).count();
        match own {
            0 => return,
            1 => {
                let key = self.waits[from].key;
                let first = self.order.partition_point(|waiter| waiter.key < key);
                let mine = self.order[first..].iter().position(|waiter| waiter.token == token);
                if let Some(at) = mine {
                    self.order.remove(first + at);
                }
            }
            _ => self.order.retain(|waiter| waiter.token != token),
        }
        for wait in self.waits.drain(from..from + own) {
            Self::release(&mut self.trees, wait.tree);
        }
        self.trim();
    }

    fn trim(&mut self) {
        trim(&mut self.waits);
        trim(&mut self.order);
        trim(&mut self.trees);
    }

    /// Returns the waiter for `key` and the bytes it takes, if there is exactly one.
    pub fn only(&self, key: K) -> Option<(Token, usize)> {
        let from = self.order.partition_point(|waiter| waiter.key < key);
        let mut waiting = self.order[from..].iter().take_while(|waiter| waiter.key == key);
        let first = waiting.next()?;
        waiting.next().is_none().then_some((first.token, first.room))
    }

    /// Wakes all waiters for `key`.
    pub fn wake(&mut self, key: K, effects: &mut dyn Effects) {
        let from = self.order.partition_point(|waiter| waiter.key < key);
        let woken = self.wake_run(from, key, effects);
        self.remove_woken(woken);
    }

    /// Wakes all waiters for keys that are `ready`.
    pub fn wake_ready(&mut self, ready: impl Fn(K) -> bool, effects: &mut dyn Effects) {
        let (mut next, mut woken) = (0, (0, Token::default()));
        while let Some(key) = self.order.get(next).map(|waiter| waiter.key) {
            if ready(key) {
                let more = self.wake_run(next, key, effects);
                woken = if more.0 == 0 { woken } else { (woken.0 + more.0, more.1) };
            }
            next += self.order[next..].iter().take_while(|waiter| waiter.key == key).count();
        }
        self.remove_woken(woken);
    }

    /// Wakes the waiters for `key`, the first of which is at `from`, unless this call of a caller
    /// has woken them. Returns how many, and the last one.
    fn wake_run(&mut self, from: usize, key: K, effects: &mut dyn Effects) -> (usize, Token) {
        let mut woken = (0, Token::default());
        let run = self.order[from..].iter().take_while(|waiter| waiter.key == key);
        for &Waiter { token, .. } in run {
            let at = self.waits.partition_point(|wait| wait.token < token);
            if let Some(wait) = self.waits.get_mut(at)
                && !core::mem::replace(&mut wait.is_woken, true)
            {
                effects.wake(token);
                woken = (woken.0 + 1, token);
            }
        }
        woken
    }

    /// Removes the tokens that were woken, given how many and one of them.
    fn remove_woken(&mut self, (count, token): (usize, Token)) {
        match count {
            0 => {}
            1 => self.forget(token),
            _ => self.sweep(),
        }
    }

    /// Removes all tokens that were woken.
    fn sweep(&mut self) {
        let waits = &self.waits;
        let is_woken = |token: Token| {
            let at = waits.partition_point(|wait| wait.token < token);
            waits.get(at).is_some_and(|wait| wait.is_woken)
        };
        self.order.retain(|waiter| !is_woken(waiter.token));
        let (trees, mut last) = (&mut self.trees, None);
        self.waits.retain(|wait| {
            if wait.is_woken {
                last = Some(wait.token);
            }
            let is_over = last == Some(wait.token);
            if is_over {
                Self::release(trees, wait.tree);
            }
            !is_over
        });
        self.trim();
    }

    /// Removes all waiters from one epoch of a kernel.
    pub fn gone(&mut self, kernel: DomainId, epoch: Epoch) {
        let lost = |t: &Token| t.kernel() == kernel && t.epoch() == epoch;
        let trees = &mut self.trees;
        self.waits.retain(|wait| {
            let is_lost = lost(&wait.token);
            if is_lost {
                Self::release(trees, wait.tree);
            }
            !is_lost
        });
        self.order.retain(|waiter| !lost(&waiter.token));
        self.trim();
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the number of parked tokens.
    pub fn count(&self) -> usize {
        self.waits.chunk_by(|one, other| one.token == other.token).count()
    }
}

//! Entries that are not in the page table any more and that cores may still hold.

use crate::entry::{Leaf, PAGE, size, start};
use crate::filter::Filter;
use crate::report::Site;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of levels.
const LEVELS: u32 = crate::entry::ROOT + 1;

/// What an entry was before it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Was {
    /// No mapping; only RV64 may hold that.
    Invalid,
    /// A mapping.
    Leaf(Leaf),
    /// A table, which cached walks may still use.
    Link(u64),
}

/// Whose walks see a store to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Of no core for certain.
    NoCore,
    /// The core's own.
    Own,
    /// Of all cores.
    All,
}

/// An entry that has changed.
#[derive(Clone, Copy, Debug)]
pub struct Stale {
    /// First address that it covers.
    pub va: u64,
    /// Its level.
    pub level: u32,
    /// What it was.
    pub was: Was,
    /// The cores that may hold it.
    pub cores: u64,
    /// The store that changed it.
    pub writer: Site,
    /// Whose walks see that store.
    pub reach: Reach,
    /// Cores that have begun, and not completed, an invalidation on all cores.
    pub leaving: u64,
    /// Cores that have begun one of their own.
    pub leaving_own: u64,
}

impl Stale {
    /// Returns the memory that it refers to, and its length.
    pub fn memory(&self) -> Option<(u64, u64)> {
        match self.was {
            Was::Invalid => None,
            Was::Leaf(leaf) => Some((leaf.pa, size(self.level))),
            Was::Link(table) => Some((table, PAGE)),
        }
    }
}

/// All stale entries, by level and address.
pub struct Stales {
    all: BTreeMap<(u32, u64), Vec<Stale>>,
    filter: Arc<Filter>,
}

impl Stales {
    /// Creates an empty set, which `filter` counts.
    pub fn new(filter: Arc<Filter>) -> Stales {
        Stales { all: BTreeMap::new(), filter }
    }

    /// Adds an entry.
    pub fn add(&mut self, stale: Stale) {
        let same = self.all.entry((stale.level, stale.va)).or_default();
        if let Some(known) = same.iter_mut().find(|known| known.was == stale.was) {
            // Held again: invalidations that have begun do not count.
            return *known = stale;
        }
        same.push(stale);
        self.filter.count(stale.va, stale.level, stale.memory(), true);
    }

    /// Visits the entries that cover `va`.
    pub fn covering(&self, va: u64) -> impl Iterator<Item = &Stale> {
        (0..LEVELS).filter_map(move |level| self.all.get(&(level, start(va, level)))).flatten()
    }

    /// Visits the entries that overlap the range of an entry of `level` at `va`.
    pub fn overlapping(&self, va: u64, level: u32) -> impl Iterator<Item = &Stale> {
        let last = va + (size(level) - 1);
        let within = (0..level).flat_map(move |below| self.all.range((below, va)..=(below, last)));
        within.flat_map(|(_, all)| all).chain(self.covering(va).filter(move |it| it.level >= level))
    }

    /// Visits all entries.
    pub fn iter(&self) -> impl Iterator<Item = &Stale> {
        self.all.values().flatten()
    }

    /// Changes the entries that cover `va`, or all, and removes those that no core holds then.
    pub fn update(&mut self, va: Option<u64>, mut change: impl FnMut(&mut Stale)) {
        let filter = &self.filter;
        let mut keep = |all: &mut Vec<Stale>| {
            all.retain_mut(|stale| {
                change(stale);
                if stale.cores == 0 {
                    filter.count(stale.va, stale.level, stale.memory(), false);
                }
                stale.cores != 0
            });
            !all.is_empty()
        };
        let Some(va) = va else {
            return self.all.retain(|_, all| keep(all));
        };
        for level in 0..LEVELS {
            let key = (level, start(va, level));
            if let Some(all) = self.all.get_mut(&key)
                && !keep(all)
            {
                self.all.remove(&key);
            }
        }
    }
}

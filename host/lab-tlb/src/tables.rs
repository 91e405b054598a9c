//! A copy of the page table, so that a store shows what it has changed.

use crate::entry::{ENTRIES, Entry, Isa, Leaf, ROOT, decode, index, size, start};
use std::collections::BTreeMap;

/// Reads a word of RAM by its physical address.
pub type Memory<'m> = &'m dyn Fn(u64) -> u64;

/// A mapping and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its first address.
    pub va: u64,
    /// The level of its entry.
    pub level: u32,
    /// The mapping.
    pub leaf: Leaf,
}

/// A changed entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The first address that the entry covers.
    pub va: u64,
    /// Its level.
    pub level: u32,
    /// Mappings that were reachable through the old entry.
    pub before: Vec<Mapped>,
    /// Mappings that are reachable through the new one.
    pub after: Vec<Mapped>,
    /// The table that the old entry referred to.
    pub unlinked: Option<u64>,
    /// All tables that are reachable now and were not.
    pub linked: Vec<u64>,
    /// All tables that were reachable and are not any more.
    pub dropped: Vec<u64>,
}

struct Table {
    level: u32,
    va: u64,
    entries: Box<[u64; ENTRIES]>,
}

/// The tables that are reachable from a root, by physical address.
pub struct Tables {
    isa: Isa,
    root: Option<u64>,
    all: BTreeMap<u64, Table>,
}

impl Tables {
    /// Creates it without a root.
    pub fn new(isa: Isa) -> Tables {
        Tables { isa, root: None, all: BTreeMap::new() }
    }

    /// Returns the root.
    pub fn root(&self) -> Option<u64> {
        self.root
    }

    /// Copies the tables of another root and returns their addresses.
    pub fn adopt(&mut self, root: u64, memory: Memory<'_>) -> Vec<u64> {
        self.all.clear();
        self.root = Some(root);
        let mut change = Change::default();
        self.link(root, (ROOT, 0), memory, &mut change);
        change.linked
    }

    /// Forgets the root and its tables, and returns their addresses.
    pub fn clear(&mut self) -> Vec<u64> {
        self.root = None;
        std::mem::take(&mut self.all).into_keys().collect()
    }

    /// Returns the mapping of `va`.
    pub fn find(&self, va: u64) -> Option<Mapped> {
        let mut table = self.root?;
        loop {
            let Table { level, entries, .. } = self.all.get(&table)?;
            match decode(self.isa, *level, entries[index(va, *level)]) {
                Entry::Invalid => return None,
                Entry::Table(next) => table = next,
                Entry::Leaf(leaf) => {
                    return Some(Mapped { va: start(va, *level), level: *level, leaf });
                }
            }
        }
    }

    /// Compares the entry at `pa` with memory. Returns what has changed.
    pub fn update(&mut self, pa: u64, memory: Memory<'_>) -> Option<Change> {
        let (frame, at) = (start(pa, 0), (pa - start(pa, 0)) as usize / 8);
        let new = memory(pa & !7);
        let table = self.all.get_mut(&frame)?;
        let old = std::mem::replace(&mut table.entries[at], new);
        if old == new {
            return None;
        }
        let (level, va) = (table.level, address(table.va, table.level, at));
        let mut change = Change { va, level, ..Change::default() };
        match decode(self.isa, level, old) {
            Entry::Invalid => {}
            Entry::Leaf(leaf) => change.before.push(Mapped { va, level, leaf }),
            Entry::Table(table) => {
                change.unlinked = Some(table);
                self.unlink(table, &mut change);
            }
        }
        match decode(self.isa, level, new) {
            Entry::Invalid => {}
            Entry::Leaf(leaf) => change.after.push(Mapped { va, level, leaf }),
            Entry::Table(table) => self.link(table, (level - 1, va), memory, &mut change),
        }
        Some(change)
    }

    fn link(&mut self, pa: u64, at: (u32, u64), memory: Memory<'_>, change: &mut Change) {
        let (level, va) = at;
        if self.all.contains_key(&pa) {
            return;
        }
        let entries = Box::new(std::array::from_fn(|i| memory(pa + 8 * i as u64)));
        let copy: Box<[u64; ENTRIES]> = entries;
        let found: Vec<(u64, Entry)> = copy
            .iter()
            .enumerate()
            .filter(|(_, raw)| **raw != 0)
            .map(|(i, &raw)| (address(va, level, i), decode(self.isa, level, raw)))
            .collect();
        self.all.insert(pa, Table { level, va, entries: copy });
        change.linked.push(pa);
        for (va, entry) in found {
            match entry {
                Entry::Invalid => {}
                Entry::Leaf(leaf) => change.after.push(Mapped { va, level, leaf }),
                Entry::Table(next) => self.link(next, (level - 1, va), memory, change),
            }
        }
    }

    fn unlink(&mut self, pa: u64, change: &mut Change) {
        let Some(Table { level, va, entries }) = self.all.remove(&pa) else { return };
        change.dropped.push(pa);
        for (i, &raw) in entries.iter().enumerate().filter(|(_, raw)| **raw != 0) {
            match decode(self.isa, level, raw) {
                Entry::Invalid => {}
                Entry::Leaf(leaf) => {
                    change.before.push(Mapped { va: address(va, level, i), level, leaf });
                }
                Entry::Table(next) => self.unlink(next, change),
            }
        }
    }
}

/// Returns the first address that entry `index` of a table of `level` at `va` covers. Addresses are
/// of 48 bits, and extended.
fn address(va: u64, level: u32, index: usize) -> u64 {
    let plain = va.wrapping_add(index as u64 * size(level));
    ((plain << 16) as i64 >> 16) as u64
}

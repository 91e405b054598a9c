//! The entries of a directory: by name, and by cookie for listings.
//!
//! Contract: an entry keeps its cookie as long as its name exists, even when the name moves to
//! another node; a cookie is never reused. So a listing during changes shows each entry that stays
//! exactly once.

use super::memory::ENTRY;
use crate::filesystem::{Kind, Node};
use abi::fs::FIRST_COOKIE;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::ops::ControlFlow;

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub node: Node,
    pub kind: Kind,
    cookie: u64,
}

#[derive(Debug)]
pub struct Directory {
    /// The parent; of the root, itself.
    pub parent: Node,
    /// Number of subdirectories.
    pub directories: u64,
    names: BTreeMap<Box<[u8]>, Slot>,
    order: BTreeMap<u64, Box<[u8]>>,
    next: u64,
}

impl Directory {
    pub fn new(parent: Node) -> Directory {
        Directory {
            parent,
            directories: 0,
            names: BTreeMap::new(),
            order: BTreeMap::new(),
            next: FIRST_COOKIE,
        }
    }

    /// Returns what an entry of this name is charged.
    pub fn cost(name: &[u8]) -> u64 {
        ENTRY + 2 * name.len() as u64
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the entry of this name.
    pub fn get(&self, name: &[u8]) -> Option<Slot> {
        self.names.get(name).copied()
    }

    /// Makes the name refer to `node`; adds it if it does not exist.
    pub fn set(&mut self, name: &[u8], node: Node, kind: Kind) {
        self.directories += u64::from(kind == Kind::Directory);
        if let Some(slot) = self.names.get_mut(name) {
            self.directories -= u64::from(slot.kind == Kind::Directory);
            (slot.node, slot.kind) = (node, kind);
            return;
        }
        self.names.insert(name.into(), Slot { node, kind, cookie: self.next });
        self.order.insert(self.next, name.into());
        self.next += 1;
    }

    pub fn remove(&mut self, name: &[u8]) {
        if let Some(slot) = self.names.remove(name) {
            self.order.remove(&slot.cookie);
            self.directories -= u64::from(slot.kind == Kind::Directory);
        }
    }

    /// Passes the entries from a cookie on to `each` until it breaks. Returns whether it reached
    /// the end.
    pub fn visit(
        &self,
        from: u64,
        mut each: impl FnMut(u64, &[u8], Slot) -> ControlFlow<()>,
    ) -> bool {
        for (cookie, name) in self.order.range(from..) {
            if let Some(slot) = self.names.get(name)
                && each(*cookie, name, *slot).is_break()
            {
                return false;
            }
        }
        true
    }
}

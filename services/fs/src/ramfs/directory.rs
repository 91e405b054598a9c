//! The entries of a directory: by name, and by cookie for who lists them.
//!
//! Contract: an entry keeps its cookie as long as its name is there, also when the name goes over
//! to another node; a cookie is never given again. So a listing under changes shows each entry
//! that stays exactly once.

use super::memory::ENTRY;
use crate::filesystem::{Kind, Node};
use abi::fs::FIRST_COOKIE;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::ops::ControlFlow;

/// What has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Which node.
    pub node: Node,
    /// What it is.
    pub kind: Kind,
    cookie: u64,
}

/// A directory.
#[derive(Debug)]
pub struct Directory {
    /// The one above; of the root, itself.
    pub parent: Node,
    /// Directories in it.
    pub directories: u64,
    names: BTreeMap<Box<[u8]>, Slot>,
    order: BTreeMap<u64, Box<[u8]>>,
    next: u64,
}

impl Directory {
    /// An empty one.
    pub fn new(parent: Node) -> Directory {
        Directory {
            parent,
            directories: 0,
            names: BTreeMap::new(),
            order: BTreeMap::new(),
            next: FIRST_COOKIE,
        }
    }

    /// What an entry of this name costs.
    pub fn cost(name: &[u8]) -> u64 {
        ENTRY + 2 * name.len() as u64
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Is there nothing in it?
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// What has this name.
    pub fn get(&self, name: &[u8]) -> Option<Slot> {
        self.names.get(name).copied()
    }

    /// The name is `node`'s from now on.
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

    /// The name is nobody's from now on.
    pub fn remove(&mut self, name: &[u8]) {
        if let Some(slot) = self.names.remove(name) {
            self.order.remove(&slot.cookie);
            self.directories -= u64::from(slot.kind == Kind::Directory);
        }
    }

    /// Entries from a cookie on, with their cookies.
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

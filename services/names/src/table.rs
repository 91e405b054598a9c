//! The names, and the doors that they lead to.
//!
//! Contract: a name leads to one door of one life of a kernel. No name is below another one, as no
//! file is below another file. The names of the system are registered by the system only. The
//! limits of the board and of each process tree hold after each call. Each call that changes
//! something gives the table a higher edition; a refused one changes nothing. A call takes time for
//! [`NAMES`] and [`SYSTEM_NAMES`] entries at most.

use abi::names::{Errno, Listed, NAMES, Name, SYSTEM_NAMES, TREE_NAMES, first_edition};
use alloc::collections::BTreeMap;
use core::ops::Bound::{Excluded, Unbounded};
use share::Token;

/// One life of a kernel, from its start to its death or restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub kernel: u8,
    /// Counts the kernel's lives.
    pub epoch: u16,
}

impl Life {
    /// Returns the caller's kernel and its life.
    pub fn of(token: Token) -> Life {
        Life { kernel: token.kernel, epoch: token.epoch }
    }
}

/// Where a name leads, and for which process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub life: Life,
    /// A number by which that kernel knows where to deliver the ends of new channels.
    pub door: u64,
    /// Hash of the contract.
    pub contract: [u8; 16],
    /// 0: the system, whose names count in no tree.
    pub tree: u32,
    pub pid: u32,
}

impl Entry {
    fn is_at(&self, life: Life, door: u64) -> bool {
        self.life == life && self.door == door
    }

    fn listed(&self, name: Name) -> Listed {
        let Entry { life: Life { kernel, epoch }, contract, pid, .. } = *self;
        Listed { name, contract, pid, kernel: kernel.into(), epoch }
    }
}

/// All names of the board.
#[derive(Debug)]
pub struct Table {
    names: BTreeMap<Name, Entry>,
    edition: u64,
}

impl Table {
    /// Creates an empty table; `lives` is the number of starts of the service.
    pub fn new(lives: u32) -> Table {
        Table { names: BTreeMap::new(), edition: first_edition(lives) }
    }

    pub fn edition(&self) -> u64 {
        self.edition
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Adds a name. Repeating it has no effect, so a kernel may ask again when it does not know
    /// whether a request was executed.
    pub fn register(&mut self, name: Name, entry: Entry) -> Result<(), Errno> {
        if !name.is_valid() {
            return Err(Errno::Inval);
        }
        if name.is_of_system() && entry.tree != 0 {
            return Err(Errno::Perm);
        }
        match self.names.get(&name) {
            Some(present) if *present == entry => return Ok(()),
            Some(_) => return Err(Errno::Exist),
            None => {}
        }
        self.has_place(&name)?;
        self.has_room(entry.tree)?;
        self.names.insert(name, entry);
        self.edition += 1;
        Ok(())
    }

    /// Checks that no name is above or below `name`.
    fn has_place(&self, name: &Name) -> Result<(), Errno> {
        if self.names.keys().any(|other| other.is_below(name)) {
            return Err(Errno::Isdir);
        }
        if self.names.keys().any(|other| name.is_below(other)) {
            return Err(Errno::Notdir);
        }
        Ok(())
    }

    /// Checks that a process tree, or the system, may have another name.
    fn has_room(&self, tree: u32) -> Result<(), Errno> {
        let of_system = self.of_tree(0);
        let (count, most) = match tree {
            0 => (of_system, SYSTEM_NAMES),
            _ if self.of_tree(tree) >= TREE_NAMES => return Err(Errno::Dquot),
            _ => (self.names.len() - of_system, NAMES),
        };
        if count < most { Ok(()) } else { Err(Errno::Nospc) }
    }

    /// Returns the number of names of a process tree; 0: of the system.
    fn of_tree(&self, tree: u32) -> usize {
        self.names.values().filter(|entry| entry.tree == tree).count()
    }

    /// Removes a name, which must be of this door.
    pub fn remove(&mut self, name: Name, life: Life, door: u64) -> Result<(), Errno> {
        self.names.get(&name).filter(|entry| entry.is_at(life, door)).ok_or(Errno::Noent)?;
        self.names.remove(&name);
        self.edition += 1;
        Ok(())
    }

    pub fn find(&self, name: Name) -> Option<&Entry> {
        self.names.get(&name)
    }

    /// Removes all names of a door. Returns how many.
    pub fn close(&mut self, life: Life, door: u64) -> usize {
        self.remove_all(|entry| entry.is_at(life, door))
    }

    /// Removes all names that were registered in this life of a kernel, or in an earlier one.
    /// Returns how many.
    pub fn end(&mut self, last: Life) -> usize {
        let Life { kernel, epoch } = last;
        self.remove_all(|entry| entry.life.kernel == kernel && entry.life.epoch <= epoch)
    }

    fn remove_all(&mut self, is_gone: impl Fn(&Entry) -> bool) -> usize {
        let before = self.names.len();
        self.names.retain(|_, entry| !is_gone(entry));
        let removed = before - self.names.len();
        self.edition += u64::from(removed != 0);
        removed
    }

    /// Returns the names above `above`, in ascending order.
    pub fn above(&self, above: Name) -> impl Iterator<Item = Listed> {
        let later = self.names.range((Excluded(above), Unbounded));
        later.map(|(&name, entry)| entry.listed(name))
    }
}

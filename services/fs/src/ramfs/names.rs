//! Operations that change names. Each one first checks everything, then charges its memory, and
//! then makes its changes, none of which can fail.

use super::directory::{Directory, Slot};
use super::memory::{DIRECTORY, NODE};
use super::{Body, Content, Inode, NAMES, RamFs};
use crate::filesystem::{Kind, Make, Node, Result, Stop};
use abi::fs::{Errno, NAME};
use alloc::boxed::Box;
use alloc::vec::Vec;

impl RamFs {
    pub(super) fn directory(&self, node: Node) -> Result<&Directory> {
        match &self.inode(node)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::Notdir.into()),
        }
    }

    /// Returns a directory to change, and updates its times.
    fn changing(&mut self, node: Node, now: u64) -> Result<&mut Directory> {
        let inode = self.inode_mut(node)?;
        inode.touch(now);
        match &mut inode.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::Notdir.into()),
        }
    }

    fn slot(&self, directory: Node, name: &[u8]) -> Result<Slot> {
        self.directory(directory)?.get(name).ok_or(Stop::Failed(Errno::Noent))
    }

    /// Checks that this name can be added. A removed directory accepts none.
    fn check_new(&self, directory: Node, name: &[u8]) -> Result<()> {
        let there = self.directory(directory)?.get(name);
        if name.len() > NAME {
            return Err(Errno::Nametoolong.into());
        }
        if self.inode(directory)?.names == 0 {
            return Err(Errno::Noent.into());
        }
        if there.is_some() { Err(Errno::Exist.into()) } else { Ok(()) }
    }

    pub(super) fn make_node(
        &mut self,
        directory: Node,
        name: &[u8],
        what: Make<'_>,
        now: u64,
    ) -> Result<Node> {
        self.check_new(directory, name)?;
        let (body, cost) = match what {
            Make::Directory => (Body::Directory(Directory::new(directory)), DIRECTORY),
            Make::File => (Body::File(Content::default()), 0),
            Make::Link(text) => (Body::Link(copy(text)?), text.len() as u64),
        };
        self.memory.take(NODE + Directory::cost(name) + cost)?;
        let (node, kind) = (self.next, body.kind());
        self.next += 1;
        self.nodes.insert(node, Inode::new(body, now));
        self.changing(directory, now)?.set(name, node, kind);
        Ok(node)
    }

    pub(super) fn add_name(
        &mut self,
        directory: Node,
        name: &[u8],
        node: Node,
        now: u64,
    ) -> Result<()> {
        self.check_new(directory, name)?;
        let inode = self.inode(node)?;
        let kind = inode.body.kind();
        if kind == Kind::Directory {
            return Err(Errno::Perm.into());
        }
        if inode.names == 0 {
            return Err(Errno::Noent.into());
        }
        if inode.names >= NAMES {
            return Err(Errno::Mlink.into());
        }
        self.memory.take(Directory::cost(name))?;
        self.changing(directory, now)?.set(name, node, kind);
        let inode = self.inode_mut(node)?;
        inode.names += 1;
        inode.changed = now;
        Ok(())
    }

    /// Removes one name from a node's count.
    fn drop_name(&mut self, node: Node, now: u64) {
        if let Some(inode) = self.nodes.get_mut(&node) {
            inode.names = inode.names.saturating_sub(1);
            inode.changed = now;
        }
        self.settle(node);
    }

    pub(super) fn remove_name(&mut self, directory: Node, name: &[u8], now: u64) -> Result<()> {
        let slot = self.slot(directory, name)?;
        if slot.kind == Kind::Directory {
            return Err(Errno::Isdir.into());
        }
        self.changing(directory, now)?.remove(name);
        self.memory.give(Directory::cost(name));
        self.drop_name(slot.node, now);
        Ok(())
    }

    pub(super) fn remove_directory(
        &mut self,
        directory: Node,
        name: &[u8],
        now: u64,
    ) -> Result<()> {
        let slot = self.slot(directory, name)?;
        if !self.directory(slot.node)?.is_empty() {
            return Err(Errno::Notempty.into());
        }
        self.changing(directory, now)?.remove(name);
        self.memory.give(Directory::cost(name));
        self.drop_name(slot.node, now);
        Ok(())
    }

    pub(super) fn move_name(
        &mut self,
        from: Node,
        name: &[u8],
        to: Node,
        new: &[u8],
        now: u64,
    ) -> Result<()> {
        let moved = self.slot(from, name)?;
        let replaced = self.check_move(moved, to, new)?;
        if replaced.is_some_and(|slot| slot.node == moved.node) {
            return Ok(());
        }
        let (old_cost, new_cost) = (Directory::cost(name), Directory::cost(new));
        match replaced {
            Some(_) => self.memory.give(old_cost),
            None if new_cost > old_cost => self.memory.take(new_cost - old_cost)?,
            None => self.memory.give(old_cost - new_cost),
        }
        self.changing(from, now)?.remove(name);
        self.changing(to, now)?.set(new, moved.node, moved.kind);
        let inode = self.inode_mut(moved.node)?;
        inode.changed = now;
        if let Body::Directory(directory) = &mut inode.body {
            directory.parent = to;
        }
        if let Some(slot) = replaced {
            self.drop_name(slot.node, now);
        }
        Ok(())
    }

    /// Checks that POSIX lets `moved` take this name. Returns the entry that it replaces.
    fn check_move(&self, moved: Slot, to: Node, new: &[u8]) -> Result<Option<Slot>> {
        let replaced = self.directory(to)?.get(new);
        if self.inode(to)?.names == 0 {
            return Err(Errno::Noent.into());
        }
        let is_directory = moved.kind == Kind::Directory;
        if is_directory && self.is_inside(to, moved.node)? {
            return Err(Errno::Inval.into());
        }
        let Some(slot) = replaced else {
            self.check_new(to, new)?;
            return Ok(None);
        };
        if slot.node == moved.node {
            return Ok(replaced);
        }
        match (is_directory, slot.kind == Kind::Directory) {
            (true, false) => Err(Errno::Notdir.into()),
            (false, true) => Err(Errno::Isdir.into()),
            (true, true) if !self.directory(slot.node)?.is_empty() => Err(Errno::Notempty.into()),
            _ => Ok(replaced),
        }
    }

    /// Returns whether `node`, which has a name, is this directory or below it.
    fn is_inside(&self, mut node: Node, directory: Node) -> Result<bool> {
        loop {
            if node == directory {
                return Ok(true);
            }
            let parent = self.directory(node)?.parent;
            if parent == node {
                return Ok(false);
            }
            node = parent;
        }
    }
}

fn copy(text: &[u8]) -> Result<Box<[u8]>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(text.len()).map_err(|_| Errno::Nomem)?;
    bytes.extend_from_slice(text);
    Ok(bytes.into_boxed_slice())
}

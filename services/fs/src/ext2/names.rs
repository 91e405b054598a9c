//! Operations that change names: make, link, unlink, rmdir, rename.
//!
//! Contract: that of [`crate::filesystem`]. An inode that loses its last name has no links from
//! then on and is in the list of orphans ([`super::tidy`]).

use super::cache::Class;
use super::draft::Note;
use super::entries;
use super::index::Spot;
use super::inode::{FAST, Inode};
use super::layout::{LINKS, ROOT, kind_code};
use super::{Ext2, Result};
use crate::filesystem::{Kind, Make, Node};
use abi::fs::{Errno, NAME};

/// Maximum depth of the target when a directory is moved.
const DEEP: usize = 200;

impl Ext2 {
    /// Returns the inode of a directory.
    pub(super) fn directory(&mut self, directory: Node) -> Result<(u32, Inode)> {
        let (inode, node) = self.known(directory)?;
        if node.is_directory() { Ok((inode, node)) } else { Err(Errno::Notdir.into()) }
    }

    fn spot(&mut self, directory: Node, name: &[u8]) -> Result<(u32, Spot)> {
        let (inode, node) = self.directory(directory)?;
        let spot = self.find(inode, &node, name)?;
        Ok((inode, spot.ok_or(Errno::Noent)?))
    }

    /// Checks that this name can be added. A removed directory accepts none.
    fn check_new(&mut self, directory: Node, name: &[u8]) -> Result<u32> {
        let (inode, node) = self.directory(directory)?;
        let there = self.find(inode, &node, name)?;
        if name.is_empty() || name.len() > NAME {
            return Err(Errno::Nametoolong.into());
        }
        if self.orphans.contains(&inode) {
            return Err(Errno::Noent.into());
        }
        if there.is_some() { Err(Errno::Exist.into()) } else { Ok(inode) }
    }

    pub(super) fn make_node(
        &mut self,
        directory: Node,
        name: &[u8],
        what: Make<'_>,
        now: u64,
    ) -> Result<Node> {
        let dir = self.check_new(directory, name)?;
        let kind = match what {
            Make::Directory => Kind::Directory,
            Make::File => Kind::File,
            Make::Link(_) => Kind::Link,
        };
        let is_directory = kind == Kind::Directory;
        let inode = self.take_inode(dir, is_directory)?;
        let mut node = Inode::new(kind, now);
        match what {
            Make::Directory => self.fill_directory(inode, &mut node, dir)?,
            Make::Link(text) => self.fill_link(inode, &mut node, text)?,
            Make::File => {}
        }
        self.new_inode(inode, &mut node)?;
        self.insert(dir, (name, inode, kind_code(kind)), None, now)?;
        if is_directory {
            self.count_link(dir, 1)?;
        }
        self.note(Note::Touched(inode));
        Ok(self.node_of(inode))
    }

    fn fill_directory(&mut self, inode: u32, node: &mut Inode, parent: u32) -> Result<()> {
        let (block, _) = self.ensure(node, 0, self.goal(inode))?;
        let (bytes, typed) = (self.geometry.block, self.geometry.typed);
        let code = if typed { kind_code(Kind::Directory) } else { 0 };
        let data = self.fresh(block, Class::Meta);
        entries::write(data, 0, 12, b".", inode, code);
        entries::write(data, 12, bytes - 12, b"..", parent, code);
        (node.size, node.links) = (bytes as u64, 2);
        Ok(())
    }

    fn fill_link(&mut self, inode: u32, node: &mut Inode, text: &[u8]) -> Result<()> {
        if text.len() >= self.geometry.block {
            return Err(Errno::Nametoolong.into());
        }
        node.size = text.len() as u64;
        if node.size >= FAST {
            let (block, _) = self.ensure(node, 0, self.goal(inode))?;
            if let Some(place) = self.fresh(block, Class::Data).get_mut(..text.len()) {
                place.copy_from_slice(text);
            }
            return Ok(());
        }
        for (pointer, piece) in node.pointers.iter_mut().zip(text.chunks(4)) {
            let mut word = [0; 4];
            word[..piece.len()].copy_from_slice(piece);
            *pointer = u32::from_le_bytes(word);
        }
        Ok(())
    }

    /// Counts one subdirectory more or fewer.
    fn count_link(&mut self, dir: u32, by: i16) -> Result<()> {
        let mut node = self.inode(dir)?;
        if by > 0 && node.links >= LINKS {
            return Err(Errno::Mlink.into());
        }
        node.links = node.links.saturating_add_signed(by);
        self.put_inode(dir, &node)
    }

    pub(super) fn add_name(
        &mut self,
        directory: Node,
        name: &[u8],
        node: Node,
        now: u64,
    ) -> Result<()> {
        let dir = self.check_new(directory, name)?;
        let (inode, mut file) = self.known(node)?;
        if file.is_directory() {
            return Err(Errno::Perm.into());
        }
        if self.orphans.contains(&inode) {
            return Err(Errno::Noent.into());
        }
        if file.links >= LINKS {
            return Err(Errno::Mlink.into());
        }
        let code = kind_code(file.kind()?);
        self.insert(dir, (name, inode, code), None, now)?;
        file.links += 1;
        file.changed = now;
        self.note(Note::Touched(inode));
        self.put_inode(inode, &file)
    }

    /// Removes one link of an inode.
    fn drop_name(&mut self, inode: u32, now: u64) -> Result<()> {
        let mut node = self.inode(inode)?;
        node.changed = now;
        if node.is_directory() || node.links <= 1 {
            node.links = 0;
            self.enlist(inode, &mut node);
            self.note(Note::Orphan(inode));
        } else {
            node.links -= 1;
        }
        self.note(Note::Touched(inode));
        self.put_inode(inode, &node)
    }

    pub(super) fn remove_name(&mut self, directory: Node, name: &[u8], now: u64) -> Result<()> {
        let (dir, spot) = self.spot(directory, name)?;
        if self.named(spot.inode)?.is_directory() {
            return Err(Errno::Isdir.into());
        }
        self.remove(dir, spot, now)?;
        self.drop_name(spot.inode, now)
    }

    pub(super) fn remove_directory(
        &mut self,
        directory: Node,
        name: &[u8],
        now: u64,
    ) -> Result<()> {
        let (dir, spot) = self.spot(directory, name)?;
        let gone = self.named(spot.inode)?;
        self.check_empty(spot.inode, &gone)?;
        self.remove(dir, spot, now)?;
        self.count_link(dir, -1)?;
        self.drop_name(spot.inode, now)
    }

    fn check_empty(&mut self, inode: u32, node: &Inode) -> Result<()> {
        if !node.is_directory() {
            return Err(Errno::Notdir.into());
        }
        if inode == ROOT {
            return Err(Errno::Io.into());
        }
        if self.index(inode, node)?.is_empty() { Ok(()) } else { Err(Errno::Notempty.into()) }
    }

    pub(super) fn move_name(
        &mut self,
        from: Node,
        name: &[u8],
        to: Node,
        new: &[u8],
        now: u64,
    ) -> Result<()> {
        let (source, old) = self.spot(from, name)?;
        let moved = self.named(old.inode)?;
        let (target, there) = self.check_move(old.inode, &moved, to, new)?;
        if there.is_some_and(|spot| spot.inode == old.inode) {
            return Ok(());
        }
        let is_directory = moved.is_directory();
        let entry = (old.inode, kind_code(moved.kind()?));
        self.remove(source, old, now)?;
        match there {
            Some(spot) => self.replace(target, spot, entry, now)?,
            None => {
                let near = (source == target).then_some(old);
                self.insert(target, (new, entry.0, entry.1), near, now)?;
            }
        }
        if let Some(spot) = there {
            self.drop_name(spot.inode, now)?;
            if is_directory {
                self.count_link(target, -1)?;
            }
        }
        if is_directory && source != target {
            self.move_directory(old.inode, source, target)?;
        }
        let mut moved = self.inode(old.inode)?;
        moved.changed = now;
        self.note(Note::Touched(old.inode));
        self.put_inode(old.inode, &moved)
    }

    /// Moves a directory to another parent.
    fn move_directory(&mut self, inode: u32, source: u32, target: u32) -> Result<()> {
        self.count_link(source, -1)?;
        self.count_link(target, 1)?;
        let node = self.inode(inode)?;
        let (block, at, _) = self.above(&node)?;
        let code = if self.geometry.typed { kind_code(Kind::Directory) } else { 0 };
        entries::replace(self.edit(block, Class::Meta)?, at, target, code);
        Ok(())
    }

    /// Returns where a directory's `..` is, and its inode.
    fn above(&mut self, node: &Inode) -> Result<(u32, usize, u32)> {
        self.blocks_of(node)?;
        let block = self.map(node, 0)?.ok_or(Errno::Io)?;
        for entry in entries::entries(self.view(block)?).take(2) {
            let entry = entry?;
            if entry.name == b".." {
                return Ok((block, entry.at, entry.inode));
            }
        }
        Err(Errno::Io.into())
    }

    pub(super) fn parent_of(&mut self, node: &Inode) -> Result<u32> {
        let (_, _, parent) = self.above(node)?;
        if parent == 0 || parent > self.geometry.inodes {
            return Err(Errno::Io.into());
        }
        Ok(parent)
    }

    /// Checks that POSIX lets `moved` take this name. Returns the entry that it replaces.
    fn check_move(
        &mut self,
        inode: u32,
        moved: &Inode,
        to: Node,
        new: &[u8],
    ) -> Result<(u32, Option<Spot>)> {
        let (target, directory) = self.directory(to)?;
        let there = self.find(target, &directory, new)?;
        if self.orphans.contains(&target) {
            return Err(Errno::Noent.into());
        }
        let is_directory = moved.is_directory();
        if is_directory && self.is_inside(target, inode)? {
            return Err(Errno::Inval.into());
        }
        let Some(spot) = there else {
            return Ok((self.check_new(to, new)?, None));
        };
        if spot.inode == inode {
            return Ok((target, there));
        }
        let replaced = self.named(spot.inode)?;
        match (is_directory, replaced.is_directory()) {
            (true, false) => Err(Errno::Notdir.into()),
            (false, true) => Err(Errno::Isdir.into()),
            (true, true) => {
                self.check_empty(spot.inode, &replaced)?;
                Ok((target, there))
            }
            _ => Ok((target, there)),
        }
    }

    /// Returns whether this directory is the other one or below it.
    fn is_inside(&mut self, mut inode: u32, directory: u32) -> Result<bool> {
        for _ in 0..DEEP {
            if inode == directory {
                return Ok(true);
            }
            if inode == ROOT {
                return Ok(false);
            }
            let node = self.named(inode)?;
            inode = self.parent_of(&node)?;
        }
        Err(Errno::Nametoolong.into())
    }
}

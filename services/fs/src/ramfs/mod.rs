//! A file system in memory.
//!
//! Contract: it never takes more than its budget ([`memory`]); a request beyond it is
//! [`Errno::Nospc`] and changes nothing. Files are sparse ([`content`]). A file without names lives
//! until it is closed. Reading changes nothing, not even the access time: when kernels share the
//! state, readers would otherwise take its pages from each other.

pub mod content;
pub mod directory;
pub mod memory;
mod names;

use crate::filesystem::{Entry, FileSystem, Kind, Make, Node, Result, Space, Stop, Times};
use abi::fs::{Errno, Stat};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use content::Content;
use core::ops::ControlFlow;
use directory::Directory;
use memory::{DIRECTORY, Memory, NODE};

const ROOT: Node = 1;
/// Maximum bytes that one step allocates.
pub const RESERVED: u64 = 256 * 1024;
/// Maximum number of names of a file.
pub const NAMES: u64 = 65_535;

#[derive(Debug)]
enum Body {
    Directory(Directory),
    File(Content),
    Link(Box<[u8]>),
}

impl Body {
    fn kind(&self) -> Kind {
        match self {
            Body::Directory(_) => Kind::Directory,
            Body::File(_) => Kind::File,
            Body::Link(_) => Kind::Link,
        }
    }
}

#[derive(Debug)]
struct Inode {
    body: Body,
    /// Number of names; of a directory 1, or 0 once it is removed.
    names: u64,
    /// Number of openings.
    holds: u64,
    accessed: u64,
    modified: u64,
    changed: u64,
}

impl Inode {
    fn new(body: Body, now: u64) -> Inode {
        Inode { body, names: 1, holds: 0, accessed: now, modified: now, changed: now }
    }

    fn touch(&mut self, now: u64) {
        (self.modified, self.changed) = (now, now);
    }
}

#[derive(Debug)]
pub struct RamFs {
    nodes: BTreeMap<Node, Inode>,
    next: Node,
    memory: Memory,
}

impl RamFs {
    /// Creates an empty file system of `budget` bytes. Its root directory is not charged.
    pub fn new(budget: u64) -> RamFs {
        let root = Inode::new(Body::Directory(Directory::new(ROOT)), 0);
        let nodes = BTreeMap::from([(ROOT, root)]);
        RamFs { nodes, next: ROOT + 1, memory: Memory::new(budget) }
    }

    /// Reduces the budget by `bytes`. Fails if they are not free.
    pub fn shrink(&mut self, bytes: u64) -> core::result::Result<(), Errno> {
        self.memory.shrink(bytes)
    }

    fn inode(&self, node: Node) -> Result<&Inode> {
        self.nodes.get(&node).ok_or(Stop::Failed(Errno::Noent))
    }

    fn inode_mut(&mut self, node: Node) -> Result<&mut Inode> {
        self.nodes.get_mut(&node).ok_or(Stop::Failed(Errno::Noent))
    }

    fn content(&mut self, node: Node) -> Result<(&mut Inode, &mut Memory)> {
        let inode = self.nodes.get_mut(&node).ok_or(Errno::Noent)?;
        match inode.body {
            Body::File(_) => Ok((inode, &mut self.memory)),
            Body::Directory(_) => Err(Errno::Isdir.into()),
            Body::Link(_) => Err(Errno::Inval.into()),
        }
    }

    /// Changes a file's content, and its times if that succeeds.
    fn change<T>(
        &mut self,
        node: Node,
        now: u64,
        how: impl FnOnce(&mut Content, &mut Memory) -> core::result::Result<T, Errno>,
    ) -> Result<T> {
        self.memory.reap();
        let (inode, memory) = self.content(node)?;
        let Body::File(content) = &mut inode.body else { return Err(Errno::Inval.into()) };
        let done = how(content, memory)?;
        inode.touch(now);
        Ok(done)
    }

    /// Drops a node that has no names and is not open.
    fn settle(&mut self, node: Node) {
        let over = |inode: &Inode| inode.names == 0 && inode.holds == 0;
        if !self.nodes.get(&node).is_some_and(over) {
            return;
        }
        let Some(inode) = self.nodes.remove(&node) else { return };
        self.memory.give(NODE);
        match inode.body {
            Body::File(mut content) => content.bury(&mut self.memory),
            Body::Link(text) => self.memory.give(text.len() as u64),
            Body::Directory(_) => self.memory.give(DIRECTORY),
        }
        self.memory.reap();
    }
}

impl FileSystem for RamFs {
    fn root(&mut self) -> Node {
        ROOT
    }

    fn lookup(&mut self, directory: Node, name: &[u8]) -> Result<Node> {
        let slot = self.directory(directory)?.get(name);
        Ok(slot.ok_or(Errno::Noent)?.node)
    }

    fn parent(&mut self, directory: Node) -> Result<Node> {
        Ok(self.directory(directory)?.parent)
    }

    fn kind(&mut self, node: Node) -> Result<Kind> {
        Ok(self.inode(node)?.body.kind())
    }

    fn stat(&mut self, node: Node) -> Result<Stat> {
        let inode = self.inode(node)?;
        let (links, size) = match &inode.body {
            Body::Directory(d) if inode.names == 0 => (0, d.len() as u64),
            Body::Directory(d) => (2 + d.directories, d.len() as u64),
            Body::File(content) => (inode.names, content.size()),
            Body::Link(text) => (inode.names, text.len() as u64),
        };
        Ok(Stat {
            node,
            kind: inode.body.kind().code(),
            links,
            size,
            accessed: inode.accessed,
            modified: inode.modified,
            changed: inode.changed,
            ..Stat::default()
        })
    }

    fn read_link(&mut self, node: Node, into: &mut Vec<u8>) -> Result<()> {
        let Body::Link(text) = &self.inode(node)?.body else { return Err(Errno::Inval.into()) };
        into.try_reserve(text.len()).map_err(|_| Errno::Nomem)?;
        into.extend_from_slice(text);
        Ok(())
    }

    fn list(
        &mut self,
        directory: Node,
        from: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<bool> {
        Ok(self.directory(directory)?.visit(from, |cookie, name, slot| {
            let more = each(Entry { cookie, name, node: slot.node, kind: slot.kind });
            if more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }))
    }

    fn read(&mut self, node: Node, offset: u64, into: &mut [u8]) -> Result<usize> {
        let (inode, _) = self.content(node)?;
        let Body::File(content) = &inode.body else { return Err(Errno::Inval.into()) };
        Ok(content.read(offset, into))
    }

    fn write(&mut self, node: Node, offset: u64, from: &[u8], now: u64) -> Result<usize> {
        if from.is_empty() {
            return self.content(node).map(|_| 0);
        }
        self.change(node, now, |content, memory| content.write(offset, from, memory))
    }

    fn set_size(&mut self, node: Node, size: u64, now: u64) -> Result<()> {
        self.change(node, now, |content, memory| content.set_size(size, memory))
    }

    fn allocate(&mut self, node: Node, offset: u64, length: u64, now: u64) -> Result<u64> {
        self.change(node, now, |content, memory| content.reserve(offset, length, RESERVED, memory))
    }

    fn set_times(&mut self, node: Node, times: Times, now: u64) -> Result<()> {
        let inode = self.inode_mut(node)?;
        inode.accessed = times.accessed.unwrap_or(inode.accessed);
        inode.modified = times.modified.unwrap_or(inode.modified);
        inode.changed = now;
        Ok(())
    }

    fn make(&mut self, directory: Node, name: &[u8], what: Make<'_>, now: u64) -> Result<Node> {
        self.make_node(directory, name, what, now)
    }

    fn link(&mut self, directory: Node, name: &[u8], node: Node, now: u64) -> Result<()> {
        self.add_name(directory, name, node, now)
    }

    fn unlink(&mut self, directory: Node, name: &[u8], now: u64) -> Result<()> {
        self.remove_name(directory, name, now)
    }

    fn rmdir(&mut self, directory: Node, name: &[u8], now: u64) -> Result<()> {
        self.remove_directory(directory, name, now)
    }

    fn rename(&mut self, from: Node, name: &[u8], to: Node, new: &[u8], now: u64) -> Result<()> {
        self.move_name(from, name, to, new, now)
    }

    fn hold(&mut self, node: Node) -> Result<()> {
        self.inode_mut(node)?.holds += 1;
        Ok(())
    }

    fn release(&mut self, node: Node) {
        if let Some(inode) = self.nodes.get_mut(&node) {
            inode.holds = inode.holds.saturating_sub(1);
        }
        self.settle(node);
    }

    fn space(&mut self) -> Result<Space> {
        Ok(Space { total: self.memory.budget(), free: self.memory.free() })
    }
}

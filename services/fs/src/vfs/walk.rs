//! Path resolution.
//!
//! Contract: a path never leaves the directory where it starts. `..` goes back along the
//! directories that were passed, so it does not look up a parent; at the start it is
//! [`Errno::Perm`], and so are absolute paths and links. A path passes at most [`LINKS`] symbolic
//! links, [`WAY`] directories and [`TEXT`] bytes.

use super::handles::Place;
use super::{Result, Vfs};
use crate::filesystem::{FileSystem, Kind};
use abi::fs::{Errno, LINKS, NAME, PATH};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use smallvec::{SmallVec, smallvec};

/// Maximum number of directories passed.
pub const WAY: usize = 1024;
/// Maximum bytes of a path and the texts of its links.
pub const TEXT: usize = 16 * 1024;

/// The name of an entry; a short one needs no memory of the arena.
pub type Name = SmallVec<[u8; 32]>;

/// What to do with a symbolic link as the last component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Follow it.
    Follow,
    /// Return it, unless a `/` follows.
    Keep,
    /// Return it: its name is going to change.
    Name,
}

/// The result of a path.
#[derive(Debug)]
pub struct Found {
    /// The directory that holds the last component.
    pub directory: Place,
    /// The last component; empty if it is `.` or `..`.
    pub name: Name,
    /// The node of that name, if there is one.
    pub node: Option<Place>,
    /// Whether the path ends in a way that requires a directory.
    pub slash: bool,
}

/// The unresolved text: the path, and on top of it the links being followed.
struct Ahead<'a> {
    texts: SmallVec<[(Cow<'a, [u8]>, usize); 2]>,
    bytes: usize,
}

impl<'a> Ahead<'a> {
    fn push(&mut self, text: Cow<'a, [u8]>) -> Result<()> {
        self.bytes += text.len();
        match text.first() {
            None => return Err(Errno::Noent.into()),
            Some(b'/') => return Err(Errno::Perm.into()),
            Some(_) if self.bytes > TEXT => return Err(Errno::Nametoolong.into()),
            Some(_) => {}
        }
        self.texts.push((text, 0));
        Ok(())
    }

    /// Returns whether there is a next component, which it copies to `into`.
    fn next(&mut self, into: &mut Name) -> Result<bool> {
        into.clear();
        while let Some((text, at)) = self.texts.last_mut() {
            let rest = &text[*at..];
            let skip = rest.iter().take_while(|b| **b == b'/').count();
            let length = rest[skip..].iter().take_while(|b| **b != b'/').count();
            if length == 0 {
                self.texts.pop();
                continue;
            }
            if length > NAME {
                return Err(Errno::Nametoolong.into());
            }
            into.extend_from_slice(&rest[skip..skip + length]);
            *at += skip + length;
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns whether only slashes are left, and whether there is one.
    fn ends(&self) -> (bool, bool) {
        let mut slash = false;
        for (text, at) in &self.texts {
            if text[*at..].iter().any(|b| *b != b'/') {
                return (false, true);
            }
            slash |= *at < text.len();
        }
        (true, slash)
    }
}

impl Vfs {
    /// Resolves `path` from the directory `base`.
    pub(super) fn walk(&mut self, base: Place, path: &[u8], end: End) -> Result<Found> {
        if path.len() > PATH {
            return Err(Errno::Nametoolong.into());
        }
        if path.contains(&0) {
            return Err(Errno::Inval.into());
        }
        let mut ahead = Ahead { texts: SmallVec::new(), bytes: 0 };
        ahead.push(Cow::Borrowed(path))?;
        let mut way: SmallVec<[Place; 8]> = smallvec![base];
        let (mut name, mut links) = (Name::new(), 0);
        loop {
            let Some(&directory) = way.last() else { return Err(Errno::Perm.into()) };
            if !ahead.next(&mut name)? {
                // The path consists of slashes, dots and links to such.
                let node = Some(directory);
                return Ok(Found { directory, name, node, slash: true });
            }
            let (last, slash) = ahead.ends();
            if matches!(&*name, b"." | b"..") {
                if name.len() == 2 {
                    way.pop();
                }
                continue;
            }
            let node = match self.child(directory, &name) {
                Err(error) if error == Errno::Noent.into() && last => None,
                other => Some(other?),
            };
            let Some(place) = node else { return Ok(Found { directory, name, node, slash }) };
            let kind = self.on(place, |fs, node| fs.kind(node))?;
            let follow = !last || end == End::Follow || (end == End::Keep && slash);
            if kind == Kind::Link && follow {
                links += 1;
                if links > LINKS {
                    return Err(Errno::Loop.into());
                }
                let mut text = Vec::new();
                self.on(place, |fs, node| fs.read_link(node, &mut text))?;
                ahead.push(Cow::Owned(text))?;
            } else if last {
                return Ok(Found { directory, name, node, slash });
            } else if kind != Kind::Directory {
                return Err(Errno::Notdir.into());
            } else if way.len() >= WAY {
                return Err(Errno::Nametoolong.into());
            } else {
                way.push(place);
            }
        }
    }

    /// Returns the node of this name, or what is mounted over it.
    fn child(&mut self, directory: Place, name: &[u8]) -> Result<Place> {
        if let Some(shown) = self.shown(directory, name) {
            return Ok(shown);
        }
        let node = self.on(directory, |fs, node| fs.lookup(node, name))?;
        Ok(self.over(Place { node, ..directory }))
    }
}

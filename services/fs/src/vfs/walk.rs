//! From a path to what it leads to.
//!
//! Contract: a path never leaves the directory it begins at. `..` goes back along the way that was
//! taken, so it needs no look at what is above, and at the beginning it is [`Errno::Perm`]; so are
//! absolute paths and links. At most [`LINKS`] symbolic links, [`WAY`] directories and [`TEXT`]
//! bytes are followed.

use super::handles::Place;
use super::{Result, Vfs};
use crate::filesystem::{FileSystem, Kind};
use abi::fs::{Errno, LINKS, NAME, PATH};
use alloc::vec::Vec;

/// Most directories on a way.
pub const WAY: usize = 1024;
/// Most bytes of path and links.
pub const TEXT: usize = 16 * 1024;

/// What happens to a symbolic link at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is followed.
    Follow,
    /// It is what is meant, unless a `/` follows.
    Keep,
    /// It is what is meant: its name is going to change.
    Name,
}

/// Where a path leads.
#[derive(Debug)]
pub struct Found {
    /// The directory of the last name.
    pub directory: Place,
    /// The last name; empty when that is `.` or `..`.
    pub name: Vec<u8>,
    /// What has it.
    pub node: Option<Place>,
    /// It says that it means a directory.
    pub slash: bool,
}

/// What is still to be walked: the path, and above it the links that are being followed.
struct Ahead {
    texts: Vec<(Vec<u8>, usize)>,
    bytes: usize,
}

impl Ahead {
    fn push(&mut self, text: Vec<u8>) -> Result<()> {
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

    /// The next component, if there is one.
    fn next(&mut self, into: &mut Vec<u8>) -> Result<bool> {
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

    /// Whether nothing but slashes is left, and whether there are any.
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
    /// Walks `path` from the directory `base`.
    pub(super) fn walk(&mut self, base: Place, path: &[u8], end: End) -> Result<Found> {
        if path.len() > PATH {
            return Err(Errno::Nametoolong.into());
        }
        if path.contains(&0) {
            return Err(Errno::Inval.into());
        }
        let mut ahead = Ahead { texts: Vec::new(), bytes: 0 };
        ahead.push(path.to_vec())?;
        let mut way = Vec::from([base]);
        let (mut name, mut links) = (Vec::with_capacity(NAME), 0);
        loop {
            let Some(&directory) = way.last() else { return Err(Errno::Perm.into()) };
            if !ahead.next(&mut name)? {
                // A path of slashes and links to `.` only.
                let node = Some(directory);
                return Ok(Found { directory, name, node, slash: true });
            }
            let (last, slash) = ahead.ends();
            if name == b"." || name == b".." {
                if name == b".." {
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
                ahead.push(text)?;
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

    /// What has this name, through what is mounted over it.
    fn child(&mut self, directory: Place, name: &[u8]) -> Result<Place> {
        if let Some(shown) = self.shown(directory, name) {
            return Ok(shown);
        }
        let node = self.on(directory, |fs, node| fs.lookup(node, name))?;
        Ok(self.over(Place { node, ..directory }))
    }
}

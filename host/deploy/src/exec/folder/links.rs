//! Symbolic links that a program makes or moves.
//!
//! Contract: none of them leads out of the folder, for the programs of the host that follow it
//! later. A link goes up at its beginning only, and not above the folder. What its names lead to is
//! a file, a directory, or again such a link. So this holds by induction, whatever else the program
//! makes. Links that were in the folder before are not judged until the program moves them.

use super::{Folder, told};
use abi::fs::Errno;
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum number of entries of a directory that is moved up, with all below it. A larger one is
/// copied by its program, as if it moved to another file system.
const ENTRIES: usize = 65_536;

/// Returns whether a link with this text could lead out of the folder, in a directory `depth` names
/// below it.
pub fn leads_out(text: &[u8], depth: usize) -> bool {
    let (mut ups, mut has_name) = (0, false);
    for part in text.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            // The name before it may be a link: this could lead up from anywhere.
            b".." if has_name => return true,
            b".." => ups += 1,
            _ => has_name = true,
        }
    }
    text.first() == Some(&b'/') || ups > depth
}

/// Returns how many names below the folder a directory is.
pub fn depth(directory: &Path) -> usize {
    directory.components().count()
}

impl Folder {
    /// Checks that no link at `path` or below it leads out when `path` is moved to a directory that
    /// is `to` names below the folder. A directory that does not come closer to the top needs no
    /// search. Fails with `Perm`, or with `Xdev` if the directory is too large to be searched.
    pub(super) fn may_move(&self, path: &Path, to: usize) -> Result<(), Errno> {
        let from = path.parent().map_or(0, depth);
        match self.at(path)?.kind {
            abi::fs::kind::LINK => self.check_link(path, to),
            abi::fs::kind::DIRECTORY if to < from => self.check_links_below(path, from - to),
            _ => Ok(()),
        }
    }

    /// Checks that a new name for `path`, in a directory `to` names below the folder, leads out no
    /// more than the old one.
    pub(super) fn may_link(&self, path: &Path, to: usize) -> Result<(), Errno> {
        match self.at(path)?.kind {
            abi::fs::kind::LINK => self.check_link(path, to),
            _ => Ok(()),
        }
    }

    fn check_link(&self, path: &Path, depth: usize) -> Result<(), Errno> {
        let file = self.at(path)?.file;
        let text = rustix::fs::readlinkat(file, "", Vec::new()).map_err(told)?;
        if leads_out(text.as_bytes(), depth) { Err(Errno::Perm) } else { Ok(()) }
    }

    /// Checks all links below `top`, which is to be `rise` names closer to the folder.
    fn check_links_below(&self, top: &Path, rise: usize) -> Result<(), Errno> {
        let (mut directories, mut left) = (vec![top.to_path_buf()], ENTRIES);
        while let Some(directory) = directories.pop() {
            for (name, kind) in self.entries_of(&directory)? {
                left = left.checked_sub(1).ok_or(Errno::Xdev)?;
                let path = directory.join(name);
                match kind {
                    FileType::Directory => directories.push(path),
                    FileType::Symlink => self.check_link(&path, depth(&directory) - rise)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Returns names and types in a directory, found without following links.
    fn entries_of(&self, directory: &Path) -> Result<Vec<(PathBuf, FileType)>, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = rustix::fs::openat2(&self.top, directory, flags, Mode::empty(), resolve);
        let mut all = vec![];
        for entry in Dir::new(file.map_err(told)?).map_err(told)? {
            let entry = entry.map_err(told)?;
            let name = PathBuf::from(OsStr::from_bytes(entry.file_name().to_bytes()));
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                // The file system does not say.
                FileType::Unknown => match self.at(&directory.join(&name)) {
                    Ok(found) => FileType::from_raw_mode(found.stat.st_mode),
                    Err(_) => continue,
                },
                known => known,
            };
            all.push((name, kind));
        }
        Ok(all)
    }
}

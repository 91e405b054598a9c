//! Functions on paths.
//!
//! A path is UTF-8 and is sent to the file service from the program's memory; two paths are joined
//! in the scratch space. A path that leaves its directory (upwards, absolute or through a link)
//! fails with [`Errno::NOTCAPABLE`].

use crate::descriptors::{FILESTAT, known};
use crate::errno::{Done, Errno, Halt};
use crate::memory::{check, piece, store, store_u32};
use crate::process::{Process, SCRATCH};
use crate::system::{System, ask, ask_path};
use crate::wasi::{fstflags, lookupflags, rights};
use abi::fs::{Op, PATH, Request, flag, kind};
use zerocopy::IntoBytes;

const _: () = assert!(2 * PATH <= SCRATCH);

/// Returns a path in the program's memory, and its length.
pub(crate) fn name(memory: &mut [u8], at: u32, length: u32) -> Result<(&mut [u8], u16), Errno> {
    let path = piece(memory, at, length)?;
    if path.len() > PATH {
        return Err(Errno::NAMETOOLONG);
    }
    if core::str::from_utf8(path).is_err() {
        return Err(Errno::ILSEQ);
    }
    Ok((path, length as u16))
}

/// Converts the lookup flags.
pub(crate) fn follow(lookup: u32) -> Result<u16, Errno> {
    let follow = known(lookup, lookupflags::SYMLINK_FOLLOW)? != 0;
    Ok(if follow { flag::FOLLOW } else { 0 })
}

impl Process {
    /// Sends a request with one path and no result.
    fn simple(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        (op, right): (Op, u64),
        fd: u32,
        (path, length): (u32, u32),
    ) -> Done {
        let directory = self.directory(fd, right)?;
        let (bulk, name) = name(memory, path, length)?;
        ask_path(system, Request { name, ..Request::new(op, directory.handle) }, bulk)?;
        Ok(())
    }

    /// Copies two paths to the scratch space; returns their lengths.
    fn both(
        &mut self,
        memory: &mut [u8],
        first: (u32, u32),
        second: (u32, u32),
    ) -> Result<(u16, u16), Errno> {
        let mut at = 0usize;
        let mut lengths = [0; 2];
        for ((path, length), into) in [first, second].into_iter().zip(&mut lengths) {
            let (bytes, name) = name(memory, path, length)?;
            let end = at.saturating_add(bytes.len());
            self.scratch.get_mut(at..end).ok_or(Errno::NAMETOOLONG)?.copy_from_slice(bytes);
            (at, *into) = (end, name);
        }
        Ok((lengths[0], lengths[1]))
    }

    pub fn path_create_directory(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        fd: u32,
        path: u32,
        length: u32,
    ) -> Done {
        let what = (Op::Mkdir, rights::PATH_CREATE_DIRECTORY);
        self.simple(memory, system, what, fd, (path, length))
    }

    pub fn path_remove_directory(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        fd: u32,
        path: u32,
        length: u32,
    ) -> Done {
        let what = (Op::Rmdir, rights::PATH_REMOVE_DIRECTORY);
        self.simple(memory, system, what, fd, (path, length))
    }

    pub fn path_unlink_file(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        fd: u32,
        path: u32,
        length: u32,
    ) -> Done {
        let what = (Op::Unlink, rights::PATH_UNLINK_FILE);
        self.simple(memory, system, what, fd, (path, length))
    }

    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn path_filestat_get(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        fd: u32,
        lookup: u32,
        path: u32,
        length: u32,
        stat: u32,
    ) -> Done {
        let directory = self.directory(fd, rights::PATH_FILESTAT_GET)?;
        check(memory, stat, FILESTAT)?;
        let flags = follow(lookup)?;
        let (bulk, name) = name(memory, path, length)?;
        let request = Request { name, flags, ..Request::new(Op::StatPath, directory.handle) };
        let reply = ask_path(system, request, bulk)?;
        store(memory, stat, reply.stat.as_bytes())?;
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn path_filestat_set_times(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        fd: u32,
        lookup: u32,
        path: u32,
        length: u32,
        accessed: u64,
        modified: u64,
        which: u32,
    ) -> Done {
        let directory = self.directory(fd, rights::PATH_FILESTAT_SET_TIMES)?;
        let flags = known(which, fstflags::ALL)? | follow(lookup)?;
        let (bulk, name) = name(memory, path, length)?;
        let request = Request::new(Op::SetTimesPath, directory.handle);
        ask_path(system, Request { name, flags, accessed, modified, ..request }, bulk)?;
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn path_link(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        old_fd: u32,
        lookup: u32,
        old: u32,
        old_length: u32,
        new_fd: u32,
        new: u32,
        new_length: u32,
    ) -> Done {
        let source = self.directory(old_fd, rights::PATH_LINK_SOURCE)?;
        let target = self.directory(new_fd, rights::PATH_LINK_TARGET)?;
        let flags = follow(lookup)?;
        let (name, other) = self.both(memory, (old, old_length), (new, new_length))?;
        let request = Request::new(Op::Link, source.handle);
        let request = Request { name, other, flags, second: target.handle, ..request };
        match ask(system, request, &mut self.scratch) {
            Err(Halt::Failed(Errno::PERM)) => {}
            other => return other.map(|_| ()),
        }
        // PERM has two causes: the source is a directory, or a path leaves its directory.
        let request = Request { name, flags, ..Request::new(Op::StatPath, source.handle) };
        let found = system.files(request, &mut self.scratch)?;
        let directory = found.error == 0 && found.stat.kind == kind::DIRECTORY;
        Err(if directory { Errno::PERM.into() } else { Errno::NOTCAPABLE.into() })
    }

    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn path_rename(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        fd: u32,
        old: u32,
        old_length: u32,
        new_fd: u32,
        new: u32,
        new_length: u32,
    ) -> Done {
        let source = self.directory(fd, rights::PATH_RENAME_SOURCE)?;
        let target = self.directory(new_fd, rights::PATH_RENAME_TARGET)?;
        let (name, other) = self.both(memory, (old, old_length), (new, new_length))?;
        let request = Request::new(Op::Rename, source.handle);
        let request = Request { name, other, second: target.handle, ..request };
        ask_path(system, request, &mut self.scratch)?;
        Ok(())
    }

    /// Creates a symbolic link. A target that can only lead outside is refused.
    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn path_symlink(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        old: u32,
        old_length: u32,
        fd: u32,
        new: u32,
        new_length: u32,
    ) -> Done {
        let directory = self.directory(fd, rights::PATH_SYMLINK)?;
        let (name, other) = self.both(memory, (old, old_length), (new, new_length))?;
        if name != 0 && self.scratch.first() == Some(&b'/') {
            return Err(Errno::NOTCAPABLE.into());
        }
        let request = Request { name, other, ..Request::new(Op::Symlink, directory.handle) };
        ask_path(system, request, &mut self.scratch)?;
        Ok(())
    }

    /// Returns the text of a symbolic link, truncated to the buffer.
    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn path_readlink(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        fd: u32,
        path: u32,
        length: u32,
        buffer: u32,
        bytes: u32,
        used: u32,
    ) -> Done {
        let directory = self.directory(fd, rights::PATH_READLINK)?;
        check(memory, buffer, bytes)?;
        check(memory, used, 4)?;
        let (name, _) = self.both(memory, (path, length), (path, 0))?;
        let request = Request { name, ..Request::new(Op::Readlink, directory.handle) };
        let reply = ask_path(system, request, &mut self.scratch)?;
        let text = self.scratch.get(..reply.filled as usize).ok_or(Errno::IO)?;
        let text = text.get(..bytes as usize).unwrap_or(text);
        store(memory, buffer, text)?;
        store_u32(memory, used, text.len() as u32)?;
        Ok(())
    }
}

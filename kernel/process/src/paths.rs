//! Functions on paths.
//!
//! A path is UTF-8 and is sent to the file service from the program's memory; two paths are joined
//! in the scratch space. A path that leaves its directory (upwards, absolute or through a link)
//! fails with [`Errno::NOTCAPABLE`].

use crate::descriptors::{FILESTAT, known};
use crate::errno::{Done, Errno, Halt};
use crate::memory::{Bytes, GuestMemory, SCRATCH};
use crate::process::Process;
use crate::system::{System, ask, ask_path};
use crate::wasi::{fstflags, lookupflags, rights};
use abi::fs::{Op, PATH, Request, flag, kind};
use zerocopy::IntoBytes;

const _: () = assert!(2 * PATH <= SCRATCH);

/// Checks a path; returns its length.
fn checked(path: &[u8]) -> Result<u16, Errno> {
    match u16::try_from(path.len()) {
        Ok(length) if path.len() <= PATH => match core::str::from_utf8(path) {
            Ok(_) => Ok(length),
            Err(_) => Err(Errno::ILSEQ),
        },
        _ => Err(Errno::NAMETOOLONG),
    }
}

impl GuestMemory<'_> {
    /// Returns a path, for one request, and its length: in place, or in the scratch space.
    pub(crate) fn path(&mut self, at: u32, length: u32) -> Result<(&mut [u8], u16), Errno> {
        self.check(at, length)?;
        if length as usize > PATH {
            return Err(Errno::NAMETOOLONG);
        }
        let (from, to) = (at as usize, at as usize + length as usize);
        let path = match &mut self.bytes {
            Bytes::Own(bytes) => bytes.get_mut(from..to).ok_or(Errno::FAULT)?,
            shared @ Bytes::Shared(_) => {
                let room = self.scratch.room()?;
                let path = room.get_mut(..length as usize).ok_or(Errno::NAMETOOLONG)?;
                shared.read(at, path)?;
                path
            }
        };
        let length = checked(path)?;
        Ok((path, length))
    }

    /// Copies two paths to the scratch space, one after the other. Returns their lengths.
    fn two_paths(&mut self, first: (u32, u32), second: (u32, u32)) -> Result<(u16, u16), Errno> {
        let mut at = 0usize;
        let mut lengths = [0; 2];
        for ((path, length), into) in [first, second].into_iter().zip(&mut lengths) {
            self.check(path, length)?;
            if length as usize > PATH {
                return Err(Errno::NAMETOOLONG);
            }
            let end = at.saturating_add(length as usize);
            let room = self.scratch.room()?.get_mut(at..end).ok_or(Errno::NAMETOOLONG)?;
            self.bytes.read(path, room)?;
            (at, *into) = (end, checked(room)?);
        }
        Ok((lengths[0], lengths[1]))
    }
}

/// Converts the lookup flags.
pub(crate) fn follow(lookup: u32) -> Result<u16, Errno> {
    let follow = known(lookup, lookupflags::SYMLINK_FOLLOW)? != 0;
    Ok(if follow { flag::FOLLOW } else { 0 })
}

impl Process {
    /// Sends a request with one path and no result.
    fn simple(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        (op, right): (Op, u64),
        fd: u32,
        (path, length): (u32, u32),
    ) -> Done {
        let directory = self.directory(fd, right)?;
        let (bulk, name) = memory.path(path, length)?;
        let request = Request { name, ..Request::new(op, directory.file()?) };
        self.ask_below(system, (fd, &directory), request, bulk)?;
        Ok(())
    }

    pub fn path_create_directory(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        path: u32,
        length: u32,
    ) -> Done {
        let what = (Op::Mkdir, rights::PATH_CREATE_DIRECTORY);
        self.simple(memory, system, what, fd, (path, length))
    }

    pub fn path_remove_directory(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        path: u32,
        length: u32,
    ) -> Done {
        let what = (Op::Rmdir, rights::PATH_REMOVE_DIRECTORY);
        self.simple(memory, system, what, fd, (path, length))
    }

    pub fn path_unlink_file(
        &self,
        memory: &mut GuestMemory<'_>,
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
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        lookup: u32,
        path: u32,
        length: u32,
        stat: u32,
    ) -> Done {
        let directory = self.directory(fd, rights::PATH_FILESTAT_GET)?;
        memory.check(stat, FILESTAT)?;
        let flags = follow(lookup)?;
        let (bulk, name) = memory.path(path, length)?;
        let request = Request { name, flags, ..Request::new(Op::StatPath, directory.file()?) };
        let reply = self.ask_below(system, (fd, &directory), request, bulk)?;
        memory.store(stat, reply.stat.as_bytes())?;
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn path_filestat_set_times(
        &self,
        memory: &mut GuestMemory<'_>,
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
        let (bulk, name) = memory.path(path, length)?;
        let request = Request::new(Op::SetTimesPath, directory.file()?);
        let request = Request { name, flags, accessed, modified, ..request };
        self.ask_below(system, (fd, &directory), request, bulk)?;
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn path_link(
        &self,
        memory: &mut GuestMemory<'_>,
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
        let (name, other) = memory.two_paths((old, old_length), (new, new_length))?;
        let request = Request::new(Op::Link, source.file()?);
        let request = Request { name, other, flags, second: target.file()?, ..request };
        match ask(system, request, memory.scratch.room()?) {
            Err(Halt::Failed(Errno::PERM)) => {}
            Err(Halt::Failed(Errno::STALE)) => {
                return self.renew_both(system, [(old_fd, &source), (new_fd, &target)]);
            }
            other => return other.map(|_| ()),
        }
        // PERM has two causes: the source is a directory, or a path leaves its directory.
        let request = Request { name, flags, ..Request::new(Op::StatPath, source.file()?) };
        let found = system.files(request, memory.scratch.room()?)?;
        let directory = found.error == 0 && found.stat.kind == kind::DIRECTORY;
        Err(if directory { Errno::PERM.into() } else { Errno::NOTCAPABLE.into() })
    }

    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn path_rename(
        &self,
        memory: &mut GuestMemory<'_>,
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
        let (name, other) = memory.two_paths((old, old_length), (new, new_length))?;
        let request = Request::new(Op::Rename, source.file()?);
        let request = Request { name, other, second: target.file()?, ..request };
        match ask_path(system, request, memory.scratch.room()?) {
            Err(Halt::Failed(Errno::STALE)) => {
                self.renew_both(system, [(fd, &source), (new_fd, &target)])
            }
            done => done.map(|_| ()),
        }
    }

    /// Creates a symbolic link. A target that can only lead outside is refused.
    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn path_symlink(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        old: u32,
        old_length: u32,
        fd: u32,
        new: u32,
        new_length: u32,
    ) -> Done {
        let directory = self.directory(fd, rights::PATH_SYMLINK)?;
        let (name, other) = memory.two_paths((old, old_length), (new, new_length))?;
        if name != 0 && memory.scratch.room()?.first() == Some(&b'/') {
            return Err(Errno::NOTCAPABLE.into());
        }
        let request = Request { name, other, ..Request::new(Op::Symlink, directory.file()?) };
        self.ask_below(system, (fd, &directory), request, memory.scratch.room()?)?;
        Ok(())
    }

    /// Returns the text of a symbolic link, truncated to the buffer.
    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn path_readlink(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        path: u32,
        length: u32,
        buffer: u32,
        bytes: u32,
        used: u32,
    ) -> Done {
        let directory = self.directory(fd, rights::PATH_READLINK)?;
        memory.check(buffer, bytes)?;
        memory.check(used, 4)?;
        let (name, _) = memory.two_paths((path, length), (path, 0))?;
        let request = Request { name, ..Request::new(Op::Readlink, directory.file()?) };
        let reply = self.ask_below(system, (fd, &directory), request, memory.scratch.room()?)?;
        let GuestMemory { bytes: into, scratch } = memory;
        let text = scratch.room()?.get(..reply.filled as usize).ok_or(Errno::IO)?;
        let text = text.get(..bytes as usize).unwrap_or(text);
        into.store(buffer, text)?;
        into.store_u32(used, text.len() as u32)?;
        Ok(())
    }
}

//! `path_open`, pipes and terminals.

use crate::descriptors::{known, to_service};
use crate::errno::{Done, Errno, Halt};
use crate::memory::{check, store_u32};
use crate::paths::{follow, name};
use crate::process::Process;
use crate::system::{System, ask, ask_path};
use crate::table::Descriptor;
use crate::wasi::{fdflags, filetype, oflags, rights};
use abi::fs::{Op, Request, Stat, flag, kind};
use abi::program::terminal;

/// Rights that require opening for reading.
const READS: u64 = rights::FD_READ | rights::FD_READDIR;
/// Rights that require opening for writing.
const WRITES: u64 = rights::FD_WRITE | rights::FD_ALLOCATE | rights::FD_FILESTAT_SET_SIZE;

/// Arguments of `path_open`.
struct OpenRequest {
    /// [`oflags`].
    how: u32,
    /// [`fdflags`].
    flags: u16,
    base: u64,
    inheriting: u64,
}

impl OpenRequest {
    /// Checks that the directory's inheriting rights cover the requested ones.
    fn allowed(&self, directory: &Descriptor) -> Result<(), Errno> {
        let mut passed = self.base | self.inheriting;
        if self.flags & fdflags::DSYNC != 0 {
            passed |= rights::FD_DATASYNC;
        }
        if self.flags & (fdflags::SYNC | fdflags::RSYNC) != 0 {
            passed |= rights::FD_SYNC;
        }
        let missing = passed & !directory.inheriting;
        if missing == 0 { Ok(()) } else { Err(Errno::NOTCAPABLE) }
    }

    /// Returns the rights that the directory itself needs.
    fn needed(&self) -> u64 {
        let mut needed = rights::PATH_OPEN;
        if self.how & oflags::CREAT != 0 {
            needed |= rights::PATH_CREATE_FILE;
        }
        if self.how & oflags::TRUNC != 0 {
            needed |= rights::PATH_FILESTAT_SET_SIZE;
        }
        needed
    }

    /// Returns the flags for the file service.
    fn flags(&self) -> u16 {
        let truncates = self.how & oflags::TRUNC != 0;
        let pairs = [
            (self.base & READS != 0, flag::READ),
            (self.base & WRITES != 0 || truncates, flag::WRITE),
            (self.how & oflags::CREAT != 0, flag::CREATE),
            (self.how & oflags::DIRECTORY != 0, flag::DIRECTORY),
            (self.how & oflags::EXCL != 0, flag::EXCLUSIVE),
            (truncates, flag::TRUNCATE),
        ];
        let set = pairs.into_iter().filter(|(set, _)| *set);
        set.fold(to_service(self.flags), |all, (_, flag)| all | flag)
    }
}

impl Process {
    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn path_open(
        &mut self,
        memory: &mut [u8],
        system: &mut dyn System,
        fd: u32,
        lookup: u32,
        path: u32,
        length: u32,
        how: u32,
        base: u64,
        inheriting: u64,
        flags: u32,
        opened: u32,
    ) -> Done {
        known(how, oflags::ALL)?;
        let wanted = OpenRequest { how, flags: known(flags, fdflags::ALL)?, base, inheriting };
        let directory = self.directory(fd, wanted.needed())?;
        wanted.allowed(&directory)?;
        check(memory, opened, 4)?;
        let number = self.table.free(0)?;
        let (bulk, name) = name(memory, path, length)?;
        let flags = wanted.flags() | follow(lookup)?;
        let request = Request { name, flags, ..Request::new(Op::Open, directory.handle) };
        let handle = ask_path(system, request, bulk)?.handle;
        let stat = self.stat_of(system, handle, how & oflags::DIRECTORY != 0)?;
        let descriptor = Descriptor::of(handle, &stat, base, inheriting);
        let descriptor = Descriptor { syncs: wanted.flags & fdflags::SYNCS, ..descriptor };
        self.enter(system, number, descriptor)?;
        store_u32(memory, opened, number)?;
        Ok(())
    }

    /// Returns the metadata of a new handle; closes it on failure.
    fn stat_of(&self, system: &mut dyn System, handle: u64, directory: bool) -> Result<Stat, Halt> {
        if directory {
            return Ok(Stat { kind: filetype::DIRECTORY, ..Stat::default() });
        }
        let found = ask(system, Request::new(Op::Stat, handle), &mut []);
        if found.is_err() {
            let _ = system.files(Request::new(Op::Close, handle), &mut []);
        }
        Ok(found?.stat)
    }

    /// Sets mode and foreground group of a terminal.
    pub fn terminal(
        &mut self,
        _memory: &mut [u8],
        system: &mut dyn System,
        fd: u32,
        mode: u32,
        group: u32,
    ) -> Done {
        let handle = self.table.get(fd)?.handle;
        let all = [
            (terminal::RAW, flag::RAW),
            (terminal::COOKED, flag::COOKED),
            (terminal::GROUP, flag::GROUP),
        ];
        let known = all.iter().fold(0, |known, (mode, _)| known | mode);
        // No descriptor has handle 0, which would create a terminal.
        if mode & !known != 0 || handle == 0 {
            return Err(Errno::INVAL.into());
        }
        if mode & terminal::GROUP != 0 && group != 0 {
            self.reaches_group(system, group)?;
        }
        let set = all.iter().filter(|(wanted, _)| mode & wanted != 0);
        let flags = set.fold(0, |flags, (_, flag)| flags | flag);
        let length = group.into();
        ask(system, Request { flags, length, ..Request::new(Op::Terminal, handle) }, &mut [])?;
        Ok(())
    }

    /// Creates a pipe and stores its descriptors, read end and write end, at `ends`.
    pub fn pipe(&mut self, memory: &mut [u8], system: &mut dyn System, ends: u32) -> Done {
        check(memory, ends, 8)?;
        let reader = self.table.free(0)?;
        let writer = self.table.free(reader.saturating_add(1))?;
        let reply = ask(system, Request::new(Op::Pipe, 0), &mut [])?;
        let end =
            |handle, other: u64| Descriptor::new(handle, kind::PIPE, rights::STREAM & !other, 0);
        let second = self.enter(system, writer, end(reply.other, rights::FD_READ));
        self.enter(system, reader, end(reply.handle, rights::FD_WRITE))?;
        second?;
        store_u32(memory, ends, reader)?;
        store_u32(memory, ends.saturating_add(4), writer)?;
        Ok(())
    }
}

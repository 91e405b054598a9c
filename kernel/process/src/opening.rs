//! `path_open`, pipes and terminals.

use crate::descriptors::known;
use crate::errno::{Done, Errno, Halt};
use crate::memory::GuestMemory;
use crate::object::to_service;
use crate::paths::follow;
use crate::process::Process;
use crate::system::{System, ask};
use crate::table::Descriptor;
use crate::wasi::{fdflags, filetype, oflags, rights};
use abi::fs::{Op, Reply, Request, Stat, flag, kind};
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
        &self,
        memory: &mut GuestMemory<'_>,
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
        memory.check(opened, 4)?;
        self.table.free(0)?;
        let flags = wanted.flags() | follow(lookup)?;
        let (bulk, name) = memory.path(path, length)?;
        let request = Request { name, flags, ..Request::new(Op::Open, directory.file()?) };
        let found = self.ask_below(system, (fd, &directory), request, bulk)?;
        let stat = self.stat_of(system, &found, how & oflags::DIRECTORY != 0)?;
        let descriptor = Descriptor::of(found.handle, &stat, base, inheriting);
        let descriptor = Descriptor { syncs: wanted.flags & fdflags::SYNCS, ..descriptor };
        let number = self.enter(system, descriptor)?;
        memory.store_u32(opened, number)?;
        Ok(())
    }

    /// Returns the metadata of what was opened; closes it on failure.
    fn stat_of(
        &self,
        system: &mut dyn System,
        opened: &Reply,
        directory: bool,
    ) -> Result<Stat, Halt> {
        if directory {
            return Ok(Stat { kind: filetype::DIRECTORY, ..Stat::default() });
        }
        if let Some(stat) = opened.opened() {
            return Ok(stat);
        }
        let handle = opened.handle;
        let found = ask(system, Request::new(Op::Stat, handle), &mut []);
        if found.is_err() {
            let _ = system.files(Request::new(Op::Close, handle), &mut []);
        }
        Ok(found?.stat)
    }

    /// Sets mode and foreground group of a terminal.
    pub fn terminal(
        &self,
        _memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        mode: u32,
        group: u32,
    ) -> Done {
        let handle = self.table.get(fd)?.file()?;
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
    pub fn pipe(&self, memory: &mut GuestMemory<'_>, system: &mut dyn System, ends: u32) -> Done {
        memory.check(ends, 8)?;
        self.table.two_free()?;
        let reply = ask(system, Request::new(Op::Pipe, 0), &mut [])?;
        let end =
            |handle, other: u64| Descriptor::new(handle, kind::PIPE, rights::STREAM & !other, 0);
        let reader = self.enter(system, end(reply.handle, rights::FD_WRITE));
        let writer = self.enter(system, end(reply.other, rights::FD_READ));
        let (reader, writer) = match (reader, writer) {
            (Ok(reader), Ok(writer)) => (reader, writer),
            // Another thread has taken the last numbers meanwhile.
            (Ok(number), Err(why)) | (Err(why), Ok(number)) => {
                let _ = self.fd_close(memory, system, number);
                return Err(why);
            }
            (Err(why), Err(_)) => return Err(why),
        };
        memory.store_u32(ends, reader)?;
        memory.store_u32(ends.saturating_add(4), writer)?;
        Ok(())
    }
}

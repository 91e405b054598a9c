//! The requests to the file service as functions.
//!
//! Contract: an [`Ask`] carries a request to the service and returns its reply, after waiting if
//! the service parks the request. This module does not depend on how that happens.

use crate::served;
use abi::fs::{Dirent, Errno, Mounted, Op, Poll, Reply, Request, Stat, flag, reply_flag, source};
use alloc::vec;
use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

/// Sends a request with its bulk to the service and returns the reply.
pub type Ask<'a> = &'a mut dyn FnMut(Request, &mut [u8]) -> Reply;

pub type Result<T> = core::result::Result<T, Errno>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    pub name: Vec<u8>,
    /// [`abi::fs::kind`].
    pub kind: u8,
    pub node: u64,
    /// The cookie from which to continue after it.
    pub next: u64,
}

/// The requests as functions, over a callback that carries them.
pub struct Client<'a>(pub Ask<'a>);

impl Client<'_> {
    fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Result<Reply> {
        let reply = (self.0)(request, bulk);
        if reply.error == 0 { Ok(reply) } else { Err(reply.errno()) }
    }

    fn named(&mut self, op: Op, directory: u64, path: &[u8], flags: u16) -> Result<Reply> {
        let name = u16::try_from(path.len()).map_err(|_| Errno::Nametoolong)?;
        self.ask(Request { name, flags, ..Request::new(op, directory) }, &mut path.to_vec())
    }

    fn two(&mut self, request: Request, first: &[u8], second: &[u8]) -> Result<Reply> {
        let name = u16::try_from(first.len()).map_err(|_| Errno::Nametoolong)?;
        let other = u16::try_from(second.len()).map_err(|_| Errno::Nametoolong)?;
        self.ask(Request { name, other, ..request }, &mut [first, second].concat())
    }

    /// Opens `/`.
    pub fn root(&mut self) -> Result<u64> {
        Ok(self.ask(Request::new(Op::Root, 0), &mut [])?.handle)
    }

    /// Opens `/` for `work`, and closes it afterwards.
    pub fn at_root<T>(&mut self, work: impl FnOnce(&mut Self, u64) -> Result<T>) -> Result<T> {
        let root = self.root()?;
        let done = work(self, root);
        self.close(root).and(done)
    }

    /// Fills in which handles are ready, and returns how many. With WAIT in `flags` it waits for
    /// one.
    pub fn poll(&mut self, polls: &mut [Poll], flags: u16) -> Result<u64> {
        let length = size_of_val(polls) as u64;
        let request = Request { flags, length, ..Request::new(Op::Poll, 0) };
        Ok(self.ask(request, polls.as_mut_bytes())?.value)
    }

    /// Opens the file at a path.
    pub fn open(&mut self, directory: u64, path: &[u8], flags: u16) -> Result<u64> {
        Ok(self.named(Op::Open, directory, path, flags)?.handle)
    }

    /// The same, with the file's metadata if the answer has them.
    pub fn open_known(
        &mut self,
        directory: u64,
        path: &[u8],
        flags: u16,
    ) -> Result<(u64, Option<Stat>)> {
        let reply = self.named(Op::Open, directory, path, flags)?;
        Ok((reply.handle, reply.opened()))
    }

    pub fn close(&mut self, handle: u64) -> Result<()> {
        self.ask(Request::new(Op::Close, handle), &mut []).map(|_| ())
    }

    /// Duplicates a handle.
    pub fn dup(&mut self, handle: u64) -> Result<u64> {
        Ok(self.ask(Request::new(Op::Dup, handle), &mut [])?.handle)
    }

    /// Creates a pipe. Returns its read end and its write end.
    pub fn pipe(&mut self, flags: u16) -> Result<(u64, u64)> {
        let reply = self.ask(Request { flags, ..Request::new(Op::Pipe, 0) }, &mut [])?;
        Ok((reply.handle, reply.other))
    }

    /// Creates a terminal. Returns its displaying end and its programs' end.
    pub fn terminal(&mut self, flags: u16) -> Result<(u64, u64)> {
        let reply = self.ask(Request { flags, ..Request::new(Op::Terminal, 0) }, &mut [])?;
        Ok((reply.handle, reply.other))
    }

    /// Sets a terminal's mode or foreground group. Returns both.
    pub fn set_terminal(&mut self, end: u64, flags: u16, group: u32) -> Result<(u16, u32)> {
        let length = group.into();
        let request = Request { flags, length, ..Request::new(Op::Terminal, end) };
        let reply = self.ask(request, &mut [])?;
        Ok((reply.flags, reply.value as u32))
    }

    /// Reads at the position. Returns 0 at the end.
    pub fn read(&mut self, handle: u64, into: &mut [u8]) -> Result<usize> {
        let request = Request { length: into.len() as u64, ..Request::new(Op::Read, handle) };
        Ok(self.ask(request, into)?.filled as usize)
    }

    /// Reads at `offset`.
    pub fn read_at(&mut self, handle: u64, offset: u64, into: &mut [u8]) -> Result<usize> {
        let length = into.len() as u64;
        let request = Request { flags: flag::AT, offset, length, ..Request::new(Op::Read, handle) };
        Ok(self.ask(request, into)?.filled as usize)
    }

    /// Writes at the position, or at the end if the handle appends. May be short.
    pub fn write(&mut self, handle: u64, from: &[u8]) -> Result<usize> {
        let request = Request { length: from.len() as u64, ..Request::new(Op::Write, handle) };
        Ok(self.ask(request, &mut from.to_vec())?.value as usize)
    }

    /// Writes all of `from`, in as many requests as it takes.
    pub fn write_all(&mut self, handle: u64, mut from: &[u8]) -> Result<()> {
        while !from.is_empty() {
            match self.write(handle, from)? {
                0 => return Err(Errno::Nospc),
                bytes => from = from.get(bytes..).ok_or(Errno::Io)?,
            }
        }
        Ok(())
    }

    /// Writes at `offset`. May be short.
    pub fn write_at(&mut self, handle: u64, offset: u64, from: &[u8]) -> Result<usize> {
        let length = from.len() as u64;
        let request =
            Request { flags: flag::AT, offset, length, ..Request::new(Op::Write, handle) };
        Ok(self.ask(request, &mut from.to_vec())?.value as usize)
    }

    /// Truncates or extends a file.
    pub fn set_size(&mut self, handle: u64, length: u64) -> Result<()> {
        let request = Request { length, ..Request::new(Op::SetSize, handle) };
        self.ask(request, &mut []).map(|_| ())
    }

    /// Returns the metadata of a handle's file.
    pub fn stat(&mut self, handle: u64) -> Result<Stat> {
        Ok(self.ask(Request::new(Op::Stat, handle), &mut [])?.stat)
    }

    /// Returns the metadata of the file at a path.
    pub fn stat_path(&mut self, directory: u64, path: &[u8], flags: u16) -> Result<Stat> {
        Ok(self.named(Op::StatPath, directory, path, flags)?.stat)
    }

    pub fn mkdir(&mut self, directory: u64, path: &[u8]) -> Result<()> {
        self.named(Op::Mkdir, directory, path, 0).map(|_| ())
    }

    /// Removes an empty directory.
    pub fn rmdir(&mut self, directory: u64, path: &[u8]) -> Result<()> {
        self.named(Op::Rmdir, directory, path, 0).map(|_| ())
    }

    /// Removes a name of anything but a directory.
    pub fn unlink(&mut self, directory: u64, path: &[u8]) -> Result<()> {
        self.named(Op::Unlink, directory, path, 0).map(|_| ())
    }

    /// Renames, within one file system.
    pub fn rename(&mut self, from: u64, path: &[u8], to: u64, new: &[u8]) -> Result<()> {
        let request = Request { second: to, ..Request::new(Op::Rename, from) };
        self.two(request, path, new).map(|_| ())
    }

    /// Adds a name to a file.
    pub fn link(&mut self, from: u64, path: &[u8], to: u64, new: &[u8]) -> Result<()> {
        let request = Request { second: to, ..Request::new(Op::Link, from) };
        self.two(request, path, new).map(|_| ())
    }

    /// Creates a symbolic link with this text at `path`.
    pub fn symlink(&mut self, directory: u64, text: &[u8], path: &[u8]) -> Result<()> {
        self.two(Request::new(Op::Symlink, directory), text, path).map(|_| ())
    }

    /// Returns the size of the file system and its free space, in bytes.
    pub fn space(&mut self, handle: u64) -> Result<(u64, u64)> {
        let reply = self.ask(Request::new(Op::Statfs, handle), &mut [])?;
        Ok((reply.value, reply.other))
    }

    /// Returns the properties of the file system, [`abi::fs::reply_flag`]s.
    pub fn about(&mut self, handle: u64) -> Result<u16> {
        Ok(self.ask(Request::new(Op::Statfs, handle), &mut [])?.flags)
    }

    /// Makes a file durable.
    pub fn sync(&mut self, handle: u64) -> Result<()> {
        let begin = Request::new(Op::Sync, handle);
        let reply = self.ask(begin, &mut [])?;
        begin.follow_up(&reply).map_or(Ok(()), |wait| self.ask(wait, &mut []).map(|_| ()))
    }

    /// Makes a whole file system durable and marks it clean. Returns false if removed files are
    /// still open, so that it cannot be marked clean.
    pub fn settle(&mut self, handle: u64) -> Result<bool> {
        let request = Request { flags: flag::WHOLE, ..Request::new(Op::Sync, handle) };
        Ok(self.ask(request, &mut [])?.value != 0)
    }

    /// Mounts the file system on a disk over a directory. It may take `memory` bytes.
    pub fn mount(
        &mut self,
        root: u64,
        path: &[u8],
        disk: u64,
        memory: u64,
        how: u16,
    ) -> Result<()> {
        let name = u16::try_from(path.len()).map_err(|_| Errno::Nametoolong)?;
        let request = Request {
            name,
            second: disk,
            length: memory,
            flags: how,
            ..Request::new(Op::Mount, root)
        };
        self.ask(request, &mut path.to_vec()).map(|_| ())
    }

    /// Shows the device files as `name` in the root directory; `seed` seeds the random numbers.
    pub fn mount_devices(&mut self, root: u64, name: &[u8], seed: &[u8]) -> Result<()> {
        let (second, flags) = (source::DEVICES, flag::SHOWN);
        let request = Request { second, flags, ..Request::new(Op::Mount, root) };
        self.two(request, name, seed).map(|_| ())
    }

    /// Mounts a served file system without a path. `mounts` shows it as `name`. Returns a handle of
    /// its root.
    pub fn mount_held(&mut self, number: u64, name: &[u8]) -> Result<u64> {
        let (second, flags, length) = (source::SERVED + number, flag::HELD, served::MEMORY);
        let request = Request { second, flags, length, ..Request::new(Op::Mount, 0) };
        Ok(self.two(request, name, &[])?.handle)
    }

    /// Unmounts a file system that is held.
    pub fn unmount(&mut self, number: u64) -> Result<()> {
        self.ask(Request::new(Op::Unmount, source::SERVED + number), &mut []).map(|_| ())
    }

    /// Lists all mounted file systems with their paths.
    pub fn mounts(&mut self) -> Result<Vec<(Mounted, Vec<u8>)>> {
        let (mut all, mut bulk) = (Vec::new(), vec![0; 2048]);
        loop {
            let (offset, length) = (all.len() as u64, bulk.len() as u64);
            let request = Request { offset, length, ..Request::new(Op::Mounts, 0) };
            let reply = self.ask(request, &mut bulk)?;
            let mut rest = bulk.get(..reply.filled as usize).ok_or(Errno::Io)?;
            while let Ok((head, tail)) = Mounted::read_from_prefix(rest) {
                let path = tail.split_at_checked(head.path.into()).ok_or(Errno::Io)?;
                all.push((head, path.0.to_vec()));
                rest = path.1;
            }
            if reply.flags & reply_flag::END != 0 || reply.value == 0 {
                return Ok(all);
            }
        }
    }

    /// Lists a directory from a cookie on, in at most `room` bytes. Returns true if this is the
    /// end.
    pub fn list_some(
        &mut self,
        directory: u64,
        from: u64,
        room: usize,
    ) -> Result<(Vec<Listed>, bool)> {
        let mut bulk = vec![0; room];
        let (offset, length) = (from, room as u64);
        let request = Request { offset, length, ..Request::new(Op::Readdir, directory) };
        let reply = self.ask(request, &mut bulk)?;
        bulk.truncate(reply.filled as usize);
        Ok((unpack(&bulk), reply.flags & reply_flag::END != 0))
    }

    /// Lists a whole directory, `room` bytes at a time.
    pub fn list(&mut self, directory: u64, room: usize) -> Result<Vec<Listed>> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let (some, end) = self.list_some(directory, from, room)?;
            from = some.last().map_or(from, |entry| entry.next);
            all.extend(some);
            if end {
                return Ok(all);
            }
        }
    }
}

/// Unpacks the entries in the bulk of a Readdir.
pub fn unpack(mut bytes: &[u8]) -> Vec<Listed> {
    let mut all = Vec::new();
    while let Ok((head, rest)) = Dirent::read_from_prefix(bytes) {
        let Some((name, rest)) = rest.split_at_checked(head.name as usize) else { break };
        let (kind, node, next) = (head.kind, head.node, head.next);
        all.push(Listed { name: name.to_vec(), kind, node, next });
        bytes = rest;
    }
    all
}

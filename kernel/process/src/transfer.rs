//! Transfers between the program's memory and a file or a socket.
//!
//! A short count is not an error. After a partial transfer, an error or an interruption is left to
//! the next call. A single buffer goes to the service directly. Several buffers that fit in
//! the scratch space are one request, so that a pipe takes them atomically; larger ones are one
//! request each. A read from a stream is one request and waits for no more data; a write to one
//! waits until everything is written, unless it must not wait. Data go to the buffers that the list
//! named at the start, even if they overwrite the list.

use crate::errno::{Errno, Halt, Interrupted};
use crate::memory::{Bytes, GuestMemory, SCRATCH, bounds, entry};
use crate::system::System;
use crate::table::Descriptor;
use crate::wasi::{IOVEC, IOVECS, filetype, rights};
use abi::fs::{Errno as FileError, Op, Request, STEP, flag};
use abi::net;
use alloc::vec::Vec;

/// What a request for a read or a write has moved.
pub(crate) type Moved = Result<Result<u64, FileError>, Interrupted>;

/// When to stop sending requests for one buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// A file: a short transfer means its end; a long one may have been cut to the size of a
    /// message.
    End,
    /// A stream being read: after one request.
    Once,
    /// A stream being written, or to be read completely, with waiting: when everything is moved.
    All,
}

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

impl Way {
    /// Returns the right that it takes.
    #[inline]
    pub fn right(self) -> u64 {
        match self {
            Way::In => rights::FD_READ,
            Way::Out => rights::FD_WRITE,
        }
    }
}

/// What a transfer goes through: a request of one of the services, which it repeats.
pub(crate) trait Channel {
    fn reads(&self) -> bool;

    /// Returns whether each transfer is one datagram, even one without bytes.
    fn has_datagrams(&self) -> bool;

    /// Sends one request; returns the number of bytes moved. One of a stream may wait for others.
    fn step(
        &mut self,
        system: &mut dyn System,
        bulk: &mut [u8],
        is_stream: bool,
    ) -> Result<u32, Halt>;
}

/// A read or write of a file.
pub(crate) struct FileChannel(pub Request);

impl FileChannel {
    /// Reads or writes at the position, or at an offset.
    #[inline]
    pub fn new(way: Way, handle: u64, offset: Option<u64>) -> FileChannel {
        let op = if way == Way::In { Op::Read } else { Op::Write };
        let flags = if offset.is_some() { flag::AT } else { 0 };
        let offset = offset.unwrap_or(0);
        FileChannel(Request { flags, offset, ..Request::new(op, handle) })
    }

    /// Takes note of what a request has moved of `most` bytes. Returns how many.
    pub fn moved(&mut self, moved: Moved, most: usize) -> Result<u32, Halt> {
        let moved = moved?.map_err(Errno::from)?.min(most as u64);
        self.0.offset = self.0.offset.saturating_add(moved);
        Ok(moved as u32)
    }

    /// Writes what can be written without waiting.
    pub fn send_now(mut self, system: &mut dyn System, bulk: &mut [u8]) -> Result<(), Halt> {
        self.0.length = bulk.len() as u64;
        let now = system.monotonic();
        system.files_until(self.0, bulk, now)?;
        Ok(())
    }
}

impl Channel for FileChannel {
    #[inline]
    fn reads(&self) -> bool {
        self.0.op == Op::Read as u16
    }

    #[inline]
    fn has_datagrams(&self) -> bool {
        false
    }

    #[inline(always)]
    fn step(
        &mut self,
        system: &mut dyn System,
        bulk: &mut [u8],
        is_stream: bool,
    ) -> Result<u32, Halt> {
        self.0.length = bulk.len() as u64;
        let moved = system.transfer(&self.0, bulk, is_stream);
        self.moved(moved, bulk.len())
    }
}

/// Receiving or sending by a socket.
pub(crate) struct SocketChannel {
    pub request: net::Request,
    pub datagrams: bool,
    /// The answer to the latest request.
    pub reply: net::Reply,
}

impl SocketChannel {
    /// Fails with [`Errno::NOTSOCK`] if this is no socket.
    #[inline]
    pub fn new(way: Way, descriptor: &Descriptor) -> Result<SocketChannel, Errno> {
        let op = if way == Way::In { net::Op::Receive } else { net::Op::Send };
        let datagrams = descriptor.kind == filetype::DATAGRAMS;
        let request = net::Request::new(op, descriptor.socket()?);
        Ok(SocketChannel { request, datagrams, reply: net::Reply::default() })
    }

    /// Returns when a transfer through it is complete.
    pub fn until(&self) -> Until {
        if self.datagrams || self.reads() { Until::Once } else { Until::All }
    }
}

impl Channel for SocketChannel {
    #[inline]
    fn reads(&self) -> bool {
        self.request.op == net::Op::Receive as u16
    }

    #[inline]
    fn has_datagrams(&self) -> bool {
        self.datagrams
    }

    fn step(&mut self, system: &mut dyn System, bulk: &mut [u8], _: bool) -> Result<u32, Halt> {
        let length = bulk.len().min(STEP);
        self.request.length = length as u32;
        self.reply = system.sockets(self.request, bulk.get_mut(..length).unwrap_or_default())?;
        match self.reply.errno() {
            net::Errno::Success => {}
            // The connection ended with the state of the service.
            net::Errno::Restarted if !self.datagrams => return Err(Errno::CONNRESET.into()),
            error => return Err(Errno::from(error).into()),
        }
        let moved = if self.reads() { self.reply.filled.into() } else { self.reply.value };
        Ok(moved.min(length as u64) as u32)
    }
}

impl Until {
    /// Returns when a read or a write of a file is complete.
    #[inline]
    pub fn of(way: Way, is_stream: bool) -> Until {
        match way {
            _ if !is_stream => Until::End,
            Way::In => Until::Once,
            Way::Out => Until::All,
        }
    }

    /// Returns whether to continue after a request that moved `moved` bytes.
    fn continues_after(self, moved: u32) -> bool {
        match self {
            Until::End => moved >= 1024,
            Until::Once => false,
            Until::All => moved != 0,
        }
    }
}

/// A buffer in the program's memory.
#[derive(Clone, Copy)]
struct Piece {
    at: u32,
    length: u32,
}

/// The buffers of a list.
struct Buffers {
    list: u32,
    count: u32,
    /// Total bytes.
    total: u32,
    /// Number of non-empty buffers, and the last of them.
    full: u32,
    last: Piece,
    /// A buffer overlaps the list, so a read would change it.
    covers: bool,
    /// A copy of the list, in that case.
    kept: Option<Vec<Piece>>,
}

impl Buffers {
    fn part(&self, memory: &Bytes<'_>, index: u32) -> Result<Piece, Errno> {
        match &self.kept {
            Some(kept) => kept.get(index as usize).copied().ok_or(Errno::FAULT),
            None => vector(memory, self.list, index),
        }
    }

    #[cold]
    #[inline(never)]
    fn keep(&mut self, memory: &Bytes<'_>) -> Result<(), Errno> {
        let mut kept = Vec::new();
        kept.try_reserve_exact(self.count as usize).map_err(|_| Errno::NOMEM)?;
        for index in 0..self.count {
            kept.push(vector(memory, self.list, index)?);
        }
        self.kept = Some(kept);
        Ok(())
    }
}

/// Returns an entry of a list.
#[inline]
fn vector(memory: &Bytes<'_>, list: u32, index: u32) -> Result<Piece, Errno> {
    let [at, length] = memory.load(entry(list, index, IOVEC)?)?;
    Ok(Piece { at, length })
}

/// Returns how many bytes the null device moves, which needs neither these nor a service.
#[inline]
pub(crate) fn by_null(memory: &Bytes<'_>, way: Way, list: u32, count: u32) -> Result<u32, Errno> {
    let all = check_list(memory, list, count)?;
    Ok(if way == Way::In { 0 } else { all.total })
}

/// Checks a list: it is inside the memory and not too long.
#[inline]
fn check_list(memory: &Bytes<'_>, list: u32, count: u32) -> Result<Buffers, Errno> {
    if count > IOVECS {
        return Err(Errno::INVAL);
    }
    let last = Piece { at: 0, length: 0 };
    let mut all = Buffers { list, count, total: 0, full: 0, last, covers: false, kept: None };
    let end = u64::from(list) + u64::from(count) * u64::from(IOVEC);
    for index in 0..count {
        let one = vector(memory, list, index)?;
        memory.check(one.at, one.length)?;
        if one.length != 0 {
            all.full += 1;
            all.last = one;
            let one_end = u64::from(one.at) + u64::from(one.length);
            all.covers |= u64::from(one.at) < end && u64::from(list) < one_end;
            all.total = all.total.checked_add(one.length).ok_or(Errno::INVAL)?;
        }
    }
    Ok(all)
}

/// A transfer.
pub(crate) struct Transfer<'a, C> {
    pub channel: C,
    pub until: Until,
    pub system: &'a mut dyn System,
}

impl<C: Channel> Transfer<'_, C> {
    /// Transfers the buffers of a list of `count` entries; returns the number of bytes.
    #[inline(always)]
    pub fn run(
        &mut self,
        memory: &mut GuestMemory<'_>,
        list: u32,
        count: u32,
    ) -> Result<u32, Halt> {
        if count == 1 {
            let one = vector(memory, list, 0)?;
            memory.check(one.at, one.length)?;
            if one.length != 0 {
                return self.direct(memory, one);
            }
        }
        self.run_list(memory, list, count)
    }

    /// The same for any list.
    #[inline(never)]
    fn run_list(
        &mut self,
        memory: &mut GuestMemory<'_>,
        list: u32,
        count: u32,
    ) -> Result<u32, Halt> {
        let mut all = check_list(memory, list, count)?;
        if all.covers && all.full > 1 && self.reads() {
            all.keep(memory)?;
        }
        let fits = all.total as usize <= SCRATCH && (self.until != Until::All || !self.reads());
        match all.full {
            0 if self.channel.has_datagrams() => self.step(&mut []),
            0 => Ok(0),
            1 => self.direct(memory, all.last),
            _ if fits || self.until == Until::Once => self.transfer_joined(memory, &all),
            _ => self.transfer_each(memory, &all),
        }
    }

    fn reads(&self) -> bool {
        self.channel.reads()
    }

    #[inline(always)]
    fn step(&mut self, bulk: &mut [u8]) -> Result<u32, Halt> {
        self.channel.step(self.system, bulk, self.until != Until::End)
    }

    /// Transfers one buffer, which is not empty.
    #[inline(always)]
    fn direct(&mut self, memory: &mut GuestMemory<'_>, part: Piece) -> Result<u32, Halt> {
        match &mut memory.bytes {
            Bytes::Own(bytes) => {
                let (from, to) = bounds(bytes.len(), part.at, part.length as usize)?;
                let buffer = bytes.get_mut(from..to).ok_or(Errno::FAULT)?;
                let moved = self.step(buffer)?;
                Ok(self.finish(buffer, moved))
            }
            Bytes::Shared(_) => self.copied(memory, part),
        }
    }

    /// Continues the transfer of a buffer of which so much was moved, unless it is over. Returns
    /// how many bytes are moved then.
    #[inline]
    pub fn finish(&mut self, buffer: &mut [u8], moved: u32) -> u32 {
        let is_over = moved as usize >= buffer.len() || !self.until.continues_after(moved);
        if is_over { moved } else { self.continued(buffer, moved) }
    }

    /// Transfers the rest of a buffer, as far as that works. Returns how many bytes are moved then.
    #[inline(never)]
    fn continued(&mut self, buffer: &mut [u8], done: u32) -> u32 {
        let rest = buffer.get_mut(done as usize..).unwrap_or_default();
        let moved = self.repeat(rest.len() as u32, |this, moved| {
            this.step(rest.get_mut(moved as usize..).unwrap_or_default())
        });
        done + moved.unwrap_or(0)
    }

    /// The same by way of a buffer.
    #[inline(never)]
    fn copied(&mut self, memory: &mut GuestMemory<'_>, part: Piece) -> Result<u32, Halt> {
        self.repeat(part.length, |this, done| {
            let (at, rest) = (part.at.saturating_add(done), part.length - done);
            // Threads that wait for a stream hold no memory of the kernel meanwhile.
            let length = if this.until == Until::End { rest } else { rest.min(SCRATCH as u32) };
            match this.reads() {
                true => memory.fill(at, length, |buffer| this.step(buffer)),
                false => memory.lend(at, length, |buffer| this.step(buffer))?,
            }
        })
    }

    /// Repeats `step`, which gets the number of bytes moved so far and returns how many more it has
    /// moved, up to `length`.
    #[inline]
    fn repeat(
        &mut self,
        length: u32,
        mut step: impl FnMut(&mut Self, u32) -> Result<u32, Halt>,
    ) -> Result<u32, Halt> {
        let mut done = 0u32;
        while done < length {
            let moved = match step(self, done) {
                Err(_) if done != 0 => break,
                other => other?,
            };
            done += moved;
            if !self.until.continues_after(moved) {
                break;
            }
        }
        Ok(done)
    }

    /// Transfers several buffers, one after the other.
    fn transfer_each(&mut self, memory: &mut GuestMemory<'_>, all: &Buffers) -> Result<u32, Halt> {
        let mut done = 0u32;
        for index in 0..all.count {
            let part = all.part(memory, index)?;
            if part.length == 0 {
                continue;
            }
            let moved = match self.direct(memory, part) {
                Err(_) if done != 0 => break,
                other => other?,
            };
            done = done.saturating_add(moved);
            if moved < part.length {
                break;
            }
        }
        Ok(done)
    }

    /// Transfers several buffers as one.
    fn transfer_joined(
        &mut self,
        memory: &mut GuestMemory<'_>,
        all: &Buffers,
    ) -> Result<u32, Halt> {
        let GuestMemory { bytes: memory, scratch } = memory;
        let length = SCRATCH.min(all.total as usize);
        let bulk = scratch.room()?.get_mut(..length).ok_or(Errno::IO)?;
        if self.reads() {
            for index in 0..all.count {
                let part = all.part(memory, index)?;
                memory.touch(part.at, part.length.min(SCRATCH as u32))?;
            }
            let moved = self.step(bulk)?;
            scatter(memory, all, bulk.get(..moved as usize).ok_or(Errno::IO)?)?;
            Ok(moved)
        } else {
            gather(memory, all, bulk)?;
            match self.until {
                // A stream that takes less now takes the rest later.
                Until::All => self.repeat(length as u32, |this, done| {
                    this.step(bulk.get_mut(done as usize..).unwrap_or_default())
                }),
                _ => self.step(bulk),
            }
        }
    }
}

/// Copies the buffers to one place.
fn gather(memory: &Bytes<'_>, all: &Buffers, mut into: &mut [u8]) -> Result<(), Errno> {
    for index in 0..all.count {
        let part = all.part(memory, index)?;
        let (to, rest) = into.split_at_mut(into.len().min(part.length as usize));
        memory.read(part.at, to)?;
        into = rest;
    }
    Ok(())
}

/// Copies from one place to the buffers.
fn scatter(memory: &mut Bytes<'_>, all: &Buffers, mut from: &[u8]) -> Result<(), Errno> {
    for index in 0..all.count {
        let part = all.part(memory, index)?;
        let (now, rest) = from.split_at(from.len().min(part.length as usize));
        memory.store(part.at, now)?;
        from = rest;
    }
    Ok(())
}

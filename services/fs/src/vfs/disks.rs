//! I/O of file systems on disks. The drivers of a disk, at most one in each kernel, take I/Os from
//! the service and report their completion, by ordinary requests.
//!
//! ```text
//!   a step: the file system's next_io --> ahead --NextIo--> out --IoDone--> the file system
//!             wakes a driver                ^                |                wakes callers
//!                                           '- its kernel died
//! ```
//! Contract: an I/O is taken by one driver at a time. If the driver's kernel dies, its I/Os are
//! issued again to any driver: reads, writes and flushes may be repeated. A waiting driver is woken
//! ([`super::listener`]). If that wake is lost, or its kernel does not come, the next step wakes
//! all of them, at the latest when a caller that waits for the disk repeats its request.

use super::handles::Place;
use super::listener::Listeners;
use super::{Call, Halt, MOUNTS, Result, Vfs};
use crate::any::AnyFs;
use crate::ext2::{Ext2, Io, What};
use abi::fs::{Errno, Reply, flag, io};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};
use share::{Effects, Token};

/// Number of I/Os that are fetched from a file system before a driver takes them.
const AHEAD: usize = 8;
/// Maximum number of I/Os that the drivers have taken, together.
pub const OUT: usize = 16;
/// Largest number of a disk.
pub const DISKS: u64 = 64;

/// An I/O that a driver has taken.
#[derive(Debug)]
struct Out {
    by: (DomainId, Epoch),
    io: Io,
    /// The data read so far.
    came: Vec<u8>,
}

/// The disk of a mounted file system.
#[derive(Debug)]
pub struct Disk {
    number: u64,
    ahead: VecDeque<Io>,
    out: BTreeMap<u64, Out>,
    drivers: Listeners,
    last: u32,
}

impl Disk {
    /// Creates a disk without I/Os.
    pub fn new(number: u64) -> Disk {
        let (ahead, out) = (VecDeque::new(), BTreeMap::new());
        Disk { number, ahead, out, drivers: Listeners::default(), last: 0 }
    }

    /// Wakes drivers if there are I/Os, and those that do not finish what they have taken.
    fn call(&mut self, now: u64, effects: &mut dyn Effects) {
        if !self.out.is_empty() {
            self.drivers.urge(now, effects);
        }
        self.drivers.call(self.ahead.len(), now, effects);
    }

    /// Puts the I/Os that `kernel` had taken back in front of the others. Returns whether there
    /// were any.
    fn take_back(&mut self, kernel: (DomainId, Epoch)) -> bool {
        let theirs = self.out.iter().filter(|(_, out)| out.by == kernel);
        let numbers: Vec<u64> = theirs.map(|(number, _)| *number).collect();
        for number in numbers.iter().rev() {
            self.ahead.extend(self.out.remove(number).map(|out| out.io));
            self.ahead.rotate_right(1);
        }
        !numbers.is_empty()
    }

    /// Gives the next I/O to `by`. Its number is unique in this life of the service.
    fn take(&mut self, lives: u32, by: (DomainId, Epoch)) -> Option<(u64, Io)> {
        let io = self.ahead.pop_front()?;
        self.last = self.last.wrapping_add(1);
        let number = u64::from(lives) << 32 | u64::from(self.last);
        self.out.insert(number, Out { by, io, came: Vec::new() });
        Some((number, io))
    }
}

/// Describes an I/O to the driver, with as much of a write's data as fits.
fn describe(number: u64, request: Io, fs: &AnyFs, bulk: &mut [u8]) -> Reply {
    let (flags, bytes) = match request.what {
        What::Read(bytes) => (io::READ, bytes),
        What::Write(bytes) => (io::WRITE, bytes),
        What::Flush => (io::FLUSH, 0),
    };
    let (value, other) = (request.at, bytes as u64);
    let filled = fs.outgoing(request.id, 0, bulk) as u32;
    Reply { handle: number, flags, value, other, filled, ..Reply::default() }
}

impl Vfs {
    /// Mounts the file system on a disk. The root ramfs gives up `memory` bytes for it.
    pub(super) fn mount_disk(
        &mut self,
        over: Place,
        number: u64,
        memory: u64,
        read_only: bool,
    ) -> Result<u32> {
        if number > DISKS {
            return Err(Errno::Inval.into());
        }
        if self.mounts.len() >= MOUNTS {
            return Err(Errno::Nfile.into());
        }
        if let Some(AnyFs::Ram(root)) = self.mounts.first_mut().map(|mount| &mut mount.fs) {
            root.shrink(memory)?;
        }
        let fs = AnyFs::Ext2(Box::new(Ext2::within(memory, read_only)));
        self.stirred.disks = true;
        let mount = self.cover(over, fs, Some(Box::new(Disk::new(number))))?;
        self.mounts[mount as usize].source = number;
        Ok(mount)
    }

    fn disks(&mut self) -> impl Iterator<Item = &mut Disk> {
        self.mounts.iter_mut().filter_map(|mount| mount.disk.as_deref_mut())
    }

    /// Fetches I/Os from the file systems, and wakes the drivers.
    pub(super) fn ask_disks(&mut self, now: u64, effects: &mut dyn Effects) {
        for mount in &mut self.mounts {
            let Some(disk) = &mut mount.disk else { continue };
            while disk.ahead.len() < AHEAD
                && let Some(io) = mount.fs.next_io()
            {
                disk.ahead.push_back(io);
            }
            disk.call(now, effects);
        }
    }

    pub(super) fn do_next_io(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let afresh = call.flags(flag::RESTARTED)? != 0;
        let (lives, token) = (self.lives, call.token);
        let (wanted, number) = (call.request.handle, call.request.second);
        let mut mounts = self.mounts.iter_mut();
        let found = mounts.find(|it| it.disk.as_ref().is_some_and(|disk| disk.number == wanted));
        let Some(mount) = found else { return Err(Errno::Noent.into()) };
        let Some(disk) = &mut mount.disk else { return Err(Errno::Noent.into()) };
        if afresh {
            // Only of this disk: the kernel may drive others, whose I/Os continue.
            disk.take_back((token.kernel(), token.epoch()));
        }
        if number != 0 {
            return rest(disk, &mount.fs, number, call);
        }
        self.stirred.disks = true;
        disk.drivers.came(token, call.now);
        if disk.out.len() >= OUT {
            return Err(Errno::Busy.into());
        }
        if disk.ahead.is_empty() {
            disk.ahead.extend(mount.fs.next_io());
        }
        match disk.take(lives, (token.kernel(), token.epoch())) {
            Some((number, io)) => Ok(describe(number, io, &mount.fs, call.bulk)),
            None => {
                disk.drivers.listens(token);
                Err(Halt::Listen)
            }
        }
    }

    pub(super) fn do_io_done(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let good = call.flags(flag::GOOD)? != 0;
        let (number, length) = (call.request.handle, call.length());
        let (token, now) = (call.token, call.now);
        if number >> 32 != u64::from(self.lives) {
            return Err(Errno::Restarted.into());
        }
        for mount in &mut self.mounts {
            let Some(disk) = &mut mount.disk else { continue };
            let Some(out) = disk.out.get_mut(&number) else { continue };
            disk.drivers.finished(token, now);
            let data = call.bulk.get(..length).unwrap_or_default();
            let Io { id, what, .. } = out.io;
            let came = if good { arrive(out, call.request.offset, data)? } else { &[] };
            let value = came.len() as u64;
            if good && what.reads() > came.len() {
                return Ok(Reply { value, ..Reply::default() });
            }
            mount.fs.io_done(id, good, came);
            disk.out.remove(&number);
            self.stirred.disks = true;
            return Ok(Reply { value, ..Reply::default() });
        }
        Err(Errno::Badf.into())
    }

    /// Reissues what a dead kernel had taken, before anything else.
    pub(super) fn take_back(&mut self, kernel: DomainId, epoch: Epoch) {
        self.deafen(|token| (token.kernel(), token.epoch()) == (kernel, epoch));
        let mut some = false;
        for disk in self.disks() {
            some |= disk.take_back((kernel, epoch));
        }
        self.stirred.disks |= some;
    }

    /// Drops the waiting drivers and servers for which `which` holds. If they were woken for some
    /// work, others are woken in this step.
    pub(super) fn deafen(&mut self, which: impl Fn(Token) -> bool) {
        self.stirred.servers |= self.deafen_servers(&which);
        let mut some = false;
        for disk in self.disks() {
            some |= disk.drivers.deafen(&which);
        }
        self.stirred.disks |= some;
    }
}

/// Returns more data of a write.
fn rest(disk: &Disk, fs: &AnyFs, number: u64, call: &mut Call<'_>) -> Result<Reply> {
    let out = disk.out.get(&number).ok_or(Errno::Badf)?;
    let What::Write(bytes) = out.io.what else { return Err(Errno::Inval.into()) };
    let from = usize::try_from(call.request.offset).ok().filter(|&from| from <= bytes);
    let filled = fs.outgoing(out.io.id, from.ok_or(Errno::Inval)?, call.bulk) as u32;
    Ok(Reply { filled, ..Reply::default() })
}

/// Adds a piece of a read's data. Returns all data so far; a read that arrives whole is not copied.
fn arrive<'a>(out: &'a mut Out, offset: u64, data: &'a [u8]) -> Result<&'a [u8]> {
    let (bytes, came) = (out.io.what.reads(), out.came.len());
    if bytes == 0 {
        return Ok(&[]);
    }
    if offset != came as u64 || data.is_empty() {
        return Err(Errno::Inval.into());
    }
    let data = data.get(..bytes - came).unwrap_or(data);
    if data.len() == bytes {
        return Ok(data);
    }
    out.came.reserve_exact(if came == 0 { bytes } else { 0 });
    out.came.extend_from_slice(data);
    Ok(&out.came)
}

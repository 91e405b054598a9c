//! When changes are written back; and I/O for file systems that are on no disk ([`super::disks`]):
//! tests and tools carry it to their device outside of steps.
//!
//! Contract: changes are written at most [`DELAY`] after they were made. Without disks: after each
//! step and each completed I/O, call [`Vfs::next_io`] until it returns `None`, then
//! [`Vfs::wake_tidied`]. I/Os may complete in any order, but each must complete.

use super::disks::Disk;
use super::handles::Target;
use super::{MOUNTS, Mount, Result, Vfs};
use crate::any::AnyFs;
use crate::ext2::Io;
use crate::filesystem::{FileSystem, Kind};
use abi::fs::Errno;
use alloc::boxed::Box;
use alloc::vec::Vec;
use share::Effects;

/// How long changes may stay in memory only, in ns.
pub const DELAY: u64 = 5_000_000_000;

impl Vfs {
    /// Returns the next I/O, and the mount that it belongs to.
    pub fn next_io(&mut self) -> Option<(u32, Io)> {
        let mut mounts = self.mounts.iter_mut().zip(0u32..).filter(|(it, _)| it.disk.is_none());
        mounts.find_map(|(mount, at)| Some((at, mount.fs.next_io()?)))
    }

    /// Copies the data of a mount's write, from byte `from` on. Returns the number of bytes copied.
    pub fn outgoing(&self, mount: u32, id: u64, from: usize, into: &mut [u8]) -> usize {
        self.mounts.get(mount as usize).map_or(0, |mount| mount.fs.outgoing(id, from, into))
    }

    /// Completes an I/O of a mount; `data` is the result of a read. Wakes the callers that waited
    /// for it.
    pub fn io_done(
        &mut self,
        mount: u32,
        id: u64,
        good: bool,
        data: &[u8],
        effects: &mut dyn Effects,
    ) {
        if let Some(mount) = self.mounts.get_mut(mount as usize) {
            mount.fs.io_done(id, good, data);
        }
        self.wake_ready(effects);
    }

    /// Wakes the callers that waited for work which [`Vfs::next_io`] has done.
    pub fn wake_tidied(&mut self, effects: &mut dyn Effects) {
        self.wake_ready(effects);
    }

    /// Returns a mounted file system.
    pub fn mounted(&mut self, mount: u32) -> Option<&mut AnyFs> {
        self.mounts.get_mut(mount as usize).map(|mount| &mut mount.fs)
    }

    /// Mounts a file system over the directory of a handle. Returns the index of the mount.
    pub fn mount(&mut self, handle: u64, fs: AnyFs) -> core::result::Result<u32, Errno> {
        let Target::Node(place) = self.handles.get(handle)?.target else {
            return Err(Errno::Notdir);
        };
        let kind = self.on(place, |fs, node| fs.kind(node));
        if kind != Ok(Kind::Directory) {
            return Err(Errno::Notdir);
        }
        self.cover(place, fs, None).map_err(|_| Errno::Nfile)
    }

    /// Makes a mounted file system count as that of a disk, by its number.
    pub fn set_disk(&mut self, mount: u32, disk: u64) {
        if let Some(mount) = self.mounts.get_mut(mount as usize) {
            mount.source = disk;
        }
    }

    /// As [`Vfs::mount`], for a node.
    pub(super) fn cover(
        &mut self,
        place: super::handles::Place,
        fs: AnyFs,
        disk: Option<Box<Disk>>,
    ) -> Result<u32> {
        if self.mounts.len() >= MOUNTS {
            return Err(Errno::Nfile.into());
        }
        self.on(place, |fs, node| fs.hold(node))?;
        let (over, path) = (Some(place), Vec::new());
        self.mounts.push(Mount {
            fs,
            over,
            path,
            is_shown: false,
            is_held: false,
            source: 0,
            disk,
        });
        Ok(self.mounts.len() as u32 - 1)
    }

    /// Starts writing back the changes of all file systems.
    pub(super) fn write_back(&mut self, now: u64) {
        if self.write_at.is_some_and(|at| at <= now) {
            self.write_at = None;
        }
        self.stirred.disks = true;
        for mount in &mut self.mounts {
            mount.fs.write_back();
        }
    }

    /// Sets the timer if there are changes. If it is overdue, because the kernel that was to
    /// deliver it died, starts the write-back.
    pub(super) fn remember_to_write(&mut self, now: u64, effects: &mut dyn Effects) {
        if self.write_at.is_some_and(|at| at <= now) {
            self.write_back(now);
        }
        if self.write_at.is_none() && self.mounts.iter().any(|mount| mount.fs.is_unsettled()) {
            let at = now.saturating_add(DELAY);
            self.write_at = Some(at);
            effects.timer(at);
        }
    }
}

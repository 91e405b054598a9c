//! What file systems ask of devices: when what changed is written; and for those that are on no
//! disk ([`super::disks`]) who drives the device carries requests there and results back, from
//! outside of the steps.
//!
//! Contract: what changed is written [`DELAY`] after it did, at the latest. Without disks: behind
//! each step, and behind each result, [`Vfs::next_io`] is asked until there is none, and then
//! [`Vfs::wake_tidied`] is called; results come in any order, and none is kept back.

use super::disks::Disk;
use super::handles::Target;
use super::{MOUNTS, Mount, Result, Vfs};
use crate::ext2::Io;
use crate::filesystem::{AnyFs, FileSystem, Kind};
use abi::fs::Errno;
use alloc::boxed::Box;
use alloc::vec::Vec;
use share::Effects;

/// How long what changed may stay in memory, in ns.
pub const DELAY: u64 = 5_000_000_000;

impl Vfs {
    /// The next request to a device, and of which mount.
    pub fn next_io(&mut self) -> Option<(u32, Io)> {
        let mut mounts = self.mounts.iter_mut().zip(0u32..).filter(|(it, _)| it.disk.is_none());
        mounts.find_map(|(mount, at)| Some((at, mount.fs.next_io()?)))
    }

    /// What a write to a mount's device is to write, from a byte of it on; how many bytes.
    pub fn outgoing(&self, mount: u32, id: u64, from: usize, into: &mut [u8]) -> usize {
        self.mounts.get(mount as usize).map_or(0, |mount| mount.fs.outgoing(id, from, into))
    }

    /// What became of a request to a mount's device; `data` is what was read. Whoever waited for it
    /// is woken.
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

    /// Wakes whoever waits for what [`Vfs::next_io`] tidied up.
    pub fn wake_tidied(&mut self, effects: &mut dyn Effects) {
        self.wake_ready(effects);
    }

    /// A mounted file system: to unmount, to measure.
    pub fn mounted(&mut self, mount: u32) -> Option<&mut AnyFs> {
        self.mounts.get_mut(mount as usize).map(|mount| &mut mount.fs)
    }

    /// Puts a file system over the directory behind a handle; says which mount it is.
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

    /// The same for a directory.
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

    /// Begins to write what changed everywhere.
    pub(super) fn write_back(&mut self, now: u64) {
        if self.write_at.is_some_and(|at| at <= now) {
            self.write_at = None;
        }
        self.stirred = true;
        for mount in &mut self.mounts {
            mount.fs.write_back();
        }
    }

    /// Sees to a timer when something changed. A kernel may have died that was to send the last
    /// one: then it is late.
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

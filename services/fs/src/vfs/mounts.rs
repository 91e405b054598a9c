//! Mount, and the list of mounts.
//!
//! Contract: a *shown* file system appears in the root directory by its name, without an entry
//! there: in the first root and in that of a disk mounted over it, even if that is read-only. It
//! hides other entries of that name. Every other file system covers a directory.
//!
//! A disk or server is mounted once: a second mount is [`Errno::Busy`], whatever its directory. A
//! directory that is covered already is [`Errno::Exist`]. So two kernels may both mount a disk that
//! they drive, and the second one learns that this has been done.

use super::handles::Place;
use super::walk::End;
use super::{Call, MOUNTS, Mount, Result, Vfs};
use crate::any::AnyFs;
use crate::devfs::DevFs;
use crate::filesystem::{FileSystem, Node};
use crate::ramfs::RamFs;
use crate::served::{self, Served};
use abi::fs::{Errno, LASTING, Mounted, NAME, Reply, flag, reply_flag, source};
use alloc::boxed::Box;
use alloc::vec::Vec;
use zerocopy::IntoBytes;

const _: () = assert!(MOUNTS as u64 <= LASTING);

/// Largest number of a server.
pub const SERVERS: u64 = 64;

impl Vfs {
    pub(super) fn do_mount(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let flags = call.flags(flag::READ | flag::TOP | flag::SHOWN | flag::HELD)?;
        if flags & flag::HELD != 0 {
            return self.do_hold(call, flags);
        }
        if flags & flag::SHOWN != 0 {
            return self.do_show(call, flags);
        }
        let (read_only, top) = (flags & flag::READ != 0, flags & flag::TOP != 0);
        let from = call.request.second;
        // Before the directory, which the other kernel's mount may cover by now.
        if self.is_mounted(from) {
            return Err(Errno::Busy.into());
        }
        let found = self.first(call, End::Follow)?;
        let place = self.existing(&found)?;
        if !self.is_directory(place)? {
            return Err(Errno::Notdir.into());
        }
        let root = self.mounts[place.mount as usize].fs.root();
        // Mounting over the root replaces the root, which is possible only once.
        let is_root = place.node == root;
        let is_top = is_root && place.mount == 0 && self.top == 0;
        if is_root && !is_top {
            return Err(Errno::Exist.into());
        }
        if top != is_top {
            return Err(Errno::Inval.into());
        }
        let path = self.path_of(call)?;
        let mount = match from {
            _ if read_only && (from == source::MEMORY || from >= source::DEVICES) => {
                return Err(Errno::Inval.into());
            }
            1..source::DEVICES => self.mount_disk(place, from, call.request.length, read_only)?,
            _ => {
                self.room_to_mount()?;
                let fs = self.fresh(call)?;
                self.cover(place, fs, None)?
            }
        };
        let mounted = &mut self.mounts[mount as usize];
        (mounted.path, mounted.source) = (path, from);
        if top {
            self.top = mount;
        }
        Ok(Reply::default())
    }

    /// Mounts a file system that is shown in the root.
    fn do_show(&mut self, call: &mut Call<'_>, flags: u16) -> Result<Reply> {
        let name = call.name()?;
        let is_name =
            (1..=NAME).contains(&name.len()) && !name.iter().any(|b| matches!(b, 0 | b'/'));
        let is_disk = (1..source::DEVICES).contains(&call.request.second);
        if flags != flag::SHOWN || !is_name || is_disk || name == b"." || name == b".." {
            return Err(Errno::Inval.into());
        }
        let (path, from) = (name.to_vec(), call.request.second);
        self.directory(call.request.handle)?;
        if self.mounts.iter().any(|mount| mount.is_shown && mount.path == path) {
            return Err(Errno::Exist.into());
        }
        self.room_to_mount()?;
        let fs = self.fresh(call)?;
        let mount = Mount {
            fs,
            over: None,
            path,
            is_shown: true,
            is_held: false,
            source: from,
            disk: None,
        };
        self.mounts.push(mount);
        Ok(Reply::default())
    }

    /// Returns whether the file system of this disk or server is mounted.
    fn is_mounted(&self, from: u64) -> bool {
        let is_one = !matches!(from, source::MEMORY | source::DEVICES);
        is_one && self.mounts.iter().any(|mount| mount.source == from)
    }

    /// Returns the number that tells a mount's files from those of others ([`LASTING`]).
    pub(super) fn device_number(&self, mount: u32) -> u64 {
        match self.mounts.get(mount as usize).map_or(source::MEMORY, |mount| mount.source) {
            source::MEMORY => u64::from(mount) + 1,
            from => LASTING + from,
        }
    }

    pub(super) fn room_to_mount(&self) -> Result<()> {
        if self.mounts.len() < MOUNTS { Ok(()) } else { Err(Errno::Nfile.into()) }
    }

    /// Creates a file system that is not on a disk. The root ramfs gives up the memory of a served
    /// one.
    pub(super) fn fresh(&mut self, call: &Call<'_>) -> Result<AnyFs> {
        match call.request.second {
            source::MEMORY => Ok(AnyFs::Ram(Box::new(RamFs::new(call.request.length)))),
            source::DEVICES => {
                Ok(AnyFs::Dev(Box::new(DevFs::new(call.other()?, call.time_of_day()))))
            }
            from => {
                let number = from.wrapping_sub(source::SERVED);
                let is_number = from >= source::SERVED && (1..=SERVERS).contains(&number);
                if !is_number || call.request.length < served::MEMORY {
                    return Err(Errno::Inval.into());
                }
                if self.is_mounted(from) {
                    return Err(Errno::Busy.into());
                }
                if let Some(AnyFs::Ram(root)) = self.mounts.first_mut().map(|it| &mut it.fs) {
                    root.shrink(served::MEMORY)?;
                }
                self.stirred.servers = true;
                Ok(AnyFs::Served(Box::new(Served::new(number, self.lives))))
            }
        }
    }

    /// Returns the path in the request, if it starts at the root of a mount with a known path.
    fn path_of(&mut self, call: &Call<'_>) -> Result<Vec<u8>> {
        let name = call.name()?;
        let base = self.node(call.request.handle)?;
        let Some(mount) = self.mounts.get_mut(base.mount as usize) else {
            return Err(Errno::Badf.into());
        };
        let before: &[u8] = if mount.fs.root() == base.node { &mount.path } else { b"?" };
        let is_here = name.iter().all(|byte| matches!(byte, b'.' | b'/'));
        let parts = [before, if is_here { b"" } else { name }];
        let parts: Vec<&[u8]> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Ok(parts.join(&b'/'))
    }

    /// Returns whether `place` is the current root directory or the first one.
    fn is_a_root(&mut self, place: Place) -> bool {
        let is_first = place.mount == self.top || place.mount == 0;
        let mount = self.mounts.get_mut(place.mount as usize);
        is_first && mount.is_some_and(|mount| mount.fs.root() == place.node)
    }

    /// Returns the root of the file system shown in `directory` under `name`.
    pub(super) fn shown(&mut self, directory: Place, name: &[u8]) -> Option<Place> {
        let is_it = |mount: &Mount| mount.is_shown && mount.path == name;
        let at = self.mounts.iter().position(is_it)?;
        if !self.is_a_root(directory) {
            return None;
        }
        Some(Place { mount: at as u32, node: self.mounts[at].fs.root() })
    }

    /// Returns the names and roots of all file systems shown in `directory`.
    pub(super) fn all_shown(&mut self, directory: Place) -> Vec<(Vec<u8>, Node)> {
        if !self.is_a_root(directory) {
            return Vec::new();
        }
        let shown = self.mounts.iter_mut().filter(|mount| mount.is_shown);
        shown.map(|mount| (mount.path.clone(), mount.fs.root())).collect()
    }

    pub(super) fn do_mounts(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let (length, from) = (call.length(), call.request.offset);
        let (mut at, mut count, mut flags) = (0, 0, reply_flag::END);
        let top = self.top;
        let there = (0u32..).zip(&mut self.mounts).filter(|(_, mount)| !mount.has_ended());
        for (number, mount) in there.skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            // The size of a served one is unknown: asking its server would wait.
            let is_served = matches!(mount.fs, AnyFs::Served(_));
            let space = if is_served { None } else { mount.fs.space().ok() }.unwrap_or_default();
            let head = Mounted {
                source: mount.source,
                total: space.total,
                free: space.free,
                path: mount.path.len() as u16,
                flags: mount.fs.about(),
                top: (number == top).into(),
                reserved: 0,
            };
            let room = call.bulk[at..length].len();
            if room < size_of::<Mounted>() + mount.path.len() {
                flags = 0;
                break;
            }
            call.bulk[at..][..size_of::<Mounted>()].copy_from_slice(head.as_bytes());
            at += size_of::<Mounted>();
            call.bulk[at..][..mount.path.len()].copy_from_slice(&mount.path);
            (at, count) = (at + mount.path.len(), count + 1);
        }
        if count == 0 && flags == 0 {
            return Err(Errno::Inval.into());
        }
        Ok(Reply { filled: at as u32, flags, value: count, ..Reply::default() })
    }
}

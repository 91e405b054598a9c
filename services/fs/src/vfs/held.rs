//! File systems without a path: the mounting kernel gets a handle of the root, gives it to others,
//! and ends the file system (`Mount` with `HELD`, `Unmount`).
//!
//! Contract: one that has ended fails every request with [`Errno::Io`]. When nothing refers to it
//! any more, the next one takes its slot and its memory. It also ends when the kernel that serves
//! it dies.

use super::handles::Place;
use super::mounts::SERVERS;
use super::{Call, MOUNTS, Mount, Result, Vfs};
use crate::any::AnyFs;
use crate::filesystem::FileSystem;
use crate::served::Served;
use abi::fs::{Errno, Reply, flag, source};
use alloc::vec::Vec;
use share::Effects;

impl Mount {
    /// Returns whether it was held and has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.is_held && self.source == source::MEMORY
    }

    pub(super) fn end(&mut self, effects: &mut dyn Effects) {
        if !self.is_held {
            return;
        }
        self.source = source::MEMORY;
        if let AnyFs::Served(fs) = &mut self.fs {
            fs.end(effects);
        }
    }

    fn served(&mut self) -> Result<&mut Served> {
        match &mut self.fs {
            AnyFs::Served(fs) => Ok(fs),
            _ => Err(Errno::Io.into()),
        }
    }
}

impl Vfs {
    pub(super) fn do_hold(&mut self, call: &mut Call<'_>, flags: u16) -> Result<Reply> {
        let from = call.request.second;
        let number = from.wrapping_sub(source::SERVED);
        if flags != flag::HELD || from < source::SERVED || !(1..=SERVERS).contains(&number) {
            return Err(Errno::Inval.into());
        }
        if self.mounts.iter().any(|mount| mount.source == from) {
            return Err(Errno::Busy.into());
        }
        let name = call.name()?;
        let name = name.strip_prefix(b"/").unwrap_or(name);
        let path = [b"?".as_slice(), name].join(&b'/');
        self.handles.room(call.request.quota(), 1)?;
        let at = self.place_to_hold(call)?;
        let held = self.mounts.get_mut(at as usize).ok_or(Errno::Io)?;
        (held.source, held.path) = (from, path);
        held.served()?.renew(number, call.token);
        let node = held.fs.root();
        self.give(call, Place { mount: at, node }, flag::READ)
    }

    /// Returns the slot of one that has ended and is not referred to, or a new slot.
    fn place_to_hold(&mut self, call: &Call<'_>) -> Result<u32> {
        let is_covered = |at| {
            let covers = |mount: &Mount| mount.over.is_some_and(|place| place.mount == at);
            self.mounts.iter().any(covers)
        };
        let ended = (0u32..).zip(&self.mounts).filter(|(_, mount)| mount.has_ended());
        let mut unused = ended.filter(|(at, _)| !self.handles.leads_to(*at) && !is_covered(*at));
        if let Some((at, _)) = unused.next() {
            return Ok(at);
        }
        self.room_to_mount()?;
        let fs = self.fresh(call)?;
        let at = self.mounts.len().min(MOUNTS) as u32;
        let (path, source) = (Vec::new(), source::MEMORY);
        let (over, disk, is_shown, is_held) = (None, None, false, true);
        self.mounts.push(Mount { fs, over, path, is_shown, is_held, source, disk });
        Ok(at)
    }

    /// Unmount: pending requests fail, and the server learns that it has ended.
    pub(super) fn do_unmount(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let from = call.request.handle;
        let is_it = |mount: &&mut Mount| mount.is_held && mount.source == from;
        let found = self.mounts.iter_mut().find(is_it).filter(|mount| !mount.has_ended());
        found.ok_or(Errno::Noent)?.end(call.effects);
        self.stirred.servers = true;
        Ok(Reply::default())
    }
}

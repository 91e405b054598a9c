//! File systems that are nowhere: whoever mounted one has a handle of its root, gives others such
//! handles, and ends it (`Mount` as `HELD`, `Unmount`).
//!
//! Contract: one that has ended answers everybody with [`Errno::Io`], until nothing leads there any
//! more; then the next one takes its place, with the memory that it has. It ends with the kernel
//! that mounted it.

use super::handles::Place;
use super::mounts::SERVERS;
use super::{Call, MOUNTS, Mount, Result, Vfs};
use crate::filesystem::{AnyFs, FileSystem};
use crate::served::Served;
use abi::fs::{Errno, Reply, flag, source};
use alloc::vec::Vec;
use share::Effects;

impl Mount {
    /// Was it held, and has ended?
    pub(super) fn has_ended(&self) -> bool {
        self.is_held && self.source == source::MEMORY
    }

    /// Ends it, if it is held.
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
        self.handles.room(1)?;
        let at = self.place_to_hold(call)?;
        let held = self.mounts.get_mut(at as usize).ok_or(Errno::Io)?;
        (held.source, held.path) = (from, path);
        held.served()?.renew(number, call.token);
        let node = held.fs.root();
        self.give(call, Place { mount: at, node }, flag::READ)
    }

    /// One that has ended and nothing leads to, or a new one.
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

    /// Ends one: who asks it fails, and who serves it is told so.
    pub(super) fn do_unmount(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let from = call.request.handle;
        let is_it = |mount: &&mut Mount| mount.is_held && mount.source == from;
        let found = self.mounts.iter_mut().find(is_it).filter(|mount| !mount.has_ended());
        found.ok_or(Errno::Noent)?.end(call.effects);
        self.stirred = true;
        Ok(Reply::default())
    }
}

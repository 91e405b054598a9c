//! Operations that create, duplicate, change and close handles.

use super::accounts::Resource;
use super::handles::{Opening, Place, Target};
use super::pipe::{PIPES, Pipe};
use super::walk::{End, Found};
use super::{Call, Halt, Key, Result, Vfs};
use crate::any::AnyFs;
use crate::filesystem::{FileSystem, Kind, Make, Special};
use abi::fs::{Errno, Reply, Stat, flag};

/// Flags of Open.
const OPEN: u16 = flag::READ
    | flag::WRITE
    | flag::CREATE
    | flag::DIRECTORY
    | flag::EXCLUSIVE
    | flag::TRUNCATE
    | flag::APPEND
    | flag::NONBLOCK
    | flag::FOLLOW;
/// Flags that stay with the handle.
const KEPT: u16 = flag::READ | flag::WRITE | flag::APPEND | flag::NONBLOCK;
/// Flags that can be changed later.
pub(crate) const SETTABLE: u16 = flag::APPEND | flag::NONBLOCK;

impl Vfs {
    pub(super) fn do_root(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let mount = self.top;
        let node = self.mounts.get_mut(mount as usize).ok_or(Errno::Badf)?.fs.root();
        self.give(call, Place { mount, node }, flag::READ)
    }

    /// Opens a handle of a node, which is held from now on.
    pub(super) fn give(&mut self, call: &Call<'_>, place: Place, flags: u16) -> Result<Reply> {
        let quota = call.request.quota();
        self.handles.room(quota, 1)?;
        self.on(place, |fs, node| fs.hold(node))?;
        let opening = Opening::new(Target::Node(place), flags & KEPT);
        Ok(Reply { handle: self.handles.open(call.token, quota, opening)?, ..Reply::default() })
    }

    pub(super) fn do_open(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let flags = call.flags(OPEN)?;
        let create = flags & flag::CREATE != 0;
        let exclusive = create && flags & flag::EXCLUSIVE != 0;
        if create && flags & flag::DIRECTORY != 0
            || flags & flag::TRUNCATE != 0 && flags & flag::WRITE == 0
        {
            return Err(Errno::Inval.into());
        }
        let base = self.directory(call.request.handle)?;
        let follow = flags & flag::FOLLOW != 0 && !exclusive;
        let end = if follow { End::Follow } else { End::Keep };
        let found = self.walk(base, call.name()?, end)?;
        self.handles.room(call.request.quota(), 1)?;
        let place = match found.node {
            Some(_) if exclusive => return Err(Errno::Exist.into()),
            Some(place) if self.is_console(place)? => {
                return self.open_console(call, flags & KEPT);
            }
            Some(place) => self.check_open(place, flags, found.slash)?,
            None if !create => return Err(Errno::Noent.into()),
            // Nothing after this may wait: the repeated request would find the file that it
            // created.
            None => {
                let place = self.create(&found, Make::File, call.time_of_day())?;
                return self.give_known(call, place, flags);
            }
        };
        if flags & flag::TRUNCATE != 0 {
            self.on(place, |fs, node| fs.set_size(node, 0, call.time_of_day()))?;
        }
        self.give_known(call, place, flags)
    }

    /// Opens a handle of a node. The reply has the node's metadata, or a kind of 0 if they may have
    /// to be waited for.
    fn give_known(&mut self, call: &Call<'_>, place: Place, flags: u16) -> Result<Reply> {
        let reply = self.give(call, place, flags)?;
        let stat = match self.mounts.get(place.mount as usize).map(|mount| &mount.fs) {
            // That would begin a job of its server.
            Some(AnyFs::Served(_)) | None => Stat::default(),
            Some(_) => self.stat_of(place).unwrap_or_default(),
        };
        Ok(Reply { stat, ..reply })
    }

    /// Returns whether the node is the console, which has handles of its own.
    fn is_console(&mut self, place: Place) -> Result<bool> {
        Ok(self.on(place, |fs, node| Ok(fs.special(node)))? == Some(Special::Console))
    }

    /// Checks that the node may be opened with these flags.
    fn check_open(&mut self, place: Place, flags: u16, slash: bool) -> Result<Place> {
        let writes = flag::WRITE | flag::CREATE | flag::TRUNCATE;
        match self.on(place, |fs, node| fs.kind(node))? {
            Kind::Directory if flags & writes != 0 => Err(Errno::Isdir.into()),
            Kind::Directory => Ok(place),
            _ if slash || flags & flag::DIRECTORY != 0 => Err(Errno::Notdir.into()),
            Kind::Link => Err(Errno::Loop.into()),
            Kind::File => Ok(place),
            Kind::Character => Ok(place),
        }
    }

    /// Creates the node at the end of a path, where there is none.
    pub(super) fn create(&mut self, found: &Found, what: Make<'_>, now: u64) -> Result<Place> {
        if found.slash && !matches!(what, Make::Directory) {
            let isdir = matches!(what, Make::File);
            return Err(if isdir { Errno::Isdir.into() } else { Errno::Noent.into() });
        }
        let make = |fs: &mut super::AnyFs, node| fs.make(node, &found.name, what, now);
        let node = self.on(found.directory, make)?;
        Ok(Place { node, ..found.directory })
    }

    pub(super) fn do_close(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        self.close(call.request.handle, call.effects)?;
        Ok(Reply::default())
    }

    pub(super) fn do_dup(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let request = call.request;
        let handle = self.handles.dup(call.token, request.quota(), request.handle)?;
        Ok(Reply { handle, ..Reply::default() })
    }

    pub(super) fn do_set_flags(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let flags = call.flags(SETTABLE)?;
        let opening = self.handles.get_mut(call.request.handle)?;
        opening.flags = opening.flags & !SETTABLE | flags;
        Ok(Reply::default())
    }

    pub(super) fn do_pipe(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let flags = call.flags(flag::NONBLOCK)?;
        let quota = call.request.quota();
        self.handles.room(quota, 2)?;
        debug_assert!(self.pipes.places() <= PIPES);
        let pipes = self.pipes.count() as u32;
        self.handles.accounts.room(quota, Resource::Pipes, 1, pipes)?;
        self.pipes.room(1).ok_or(Errno::Nfile)?;
        let account = self.handles.accounts.charge(quota, Resource::Pipes, 1);
        let at = self.pipes.insert(Pipe::charged_to(account)).ok_or(Errno::Nfile)?;
        let reader = Opening::new(Target::Reader(at), flag::READ | flags);
        let writer = Opening::new(Target::Writer(at), flag::WRITE | flags);
        let handle = self.handles.open(call.token, quota, reader)?;
        let other = self.handles.open(call.token, quota, writer)?;
        Ok(Reply { handle, other, ..Reply::default() })
    }
}

/// Returns how an end of a pipe with these flags waits: parked, or with `Again` if it is NONBLOCK.
pub(super) fn wait(flags: u16, key: Key) -> Halt {
    if flags & flag::NONBLOCK != 0 { Halt::Failed(Errno::Again) } else { Halt::Park(key) }
}

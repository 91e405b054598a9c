//! Operations on paths.

use super::data::times;
use super::handles::Place;
use super::walk::{End, Found};
use super::{Call, Result, Vfs};
use crate::filesystem::{FileSystem, Kind, Make};
use abi::fs::{Errno, Op, PATH, Reply, flag};
use alloc::vec::Vec;

impl Vfs {
    /// Resolves the first name, from the first handle.
    pub(super) fn first(&mut self, call: &Call<'_>, end: End) -> Result<Found> {
        let base = self.directory(call.request.handle)?;
        self.walk(base, call.name()?, end)
    }

    /// Returns the node that the first name leads to, following a link at the end if FOLLOW is set.
    fn there(&mut self, call: &Call<'_>) -> Result<Place> {
        let follow = call.request.flags & flag::FOLLOW != 0;
        let found = self.first(call, if follow { End::Follow } else { End::Keep })?;
        self.existing(&found)
    }

    /// Returns the node that was found. Fails if there is none, or if a trailing `/` requires a
    /// directory and it is not one.
    pub(super) fn existing(&mut self, found: &Found) -> Result<Place> {
        let place = found.node.ok_or(Errno::Noent)?;
        if found.slash && !self.is_directory(place)? {
            return Err(Errno::Notdir.into());
        }
        Ok(place)
    }

    pub(super) fn is_directory(&mut self, place: Place) -> Result<bool> {
        Ok(self.on(place, |fs, node| fs.kind(node))? == Kind::Directory)
    }

    pub(super) fn do_stat_path(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(flag::FOLLOW)?;
        let place = self.there(call)?;
        Ok(Reply { stat: self.stat_of(place)?, ..Reply::default() })
    }

    pub(super) fn do_set_times_path(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let times = times(call, call.request.flags & !flag::FOLLOW)?;
        let place = self.there(call)?;
        self.on(place, |fs, node| fs.set_times(node, times, call.time_of_day()))?;
        Ok(Reply::default())
    }

    pub(super) fn do_mkdir(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let found = self.first(call, End::Name)?;
        if found.node.is_some() {
            return Err(Errno::Exist.into());
        }
        self.create(&found, Make::Directory, call.time_of_day())?;
        Ok(Reply::default())
    }

    pub(super) fn do_symlink(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let base = self.directory(call.request.handle)?;
        let text = call.name()?;
        if text.len() > PATH {
            return Err(Errno::Nametoolong.into());
        }
        if text.is_empty() || text.contains(&0) {
            return Err(Errno::Inval.into());
        }
        let found = self.walk(base, call.other()?, End::Name)?;
        if found.node.is_some() {
            return Err(Errno::Exist.into());
        }
        self.create(&found, Make::Link(text), call.time_of_day())?;
        Ok(Reply::default())
    }

    pub(super) fn do_readlink(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let found = self.first(call, End::Keep)?;
        let place = self.existing(&found)?;
        let mut text = Vec::new();
        self.on(place, |fs, node| fs.read_link(node, &mut text))?;
        let length = text.len().min(call.bulk.len());
        call.bulk[..length].copy_from_slice(&text[..length]);
        Ok(Reply { value: length as u64, filled: length as u32, ..Reply::default() })
    }

    /// Unlink and Rmdir.
    pub(super) fn do_remove(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let rmdir = call.request.op == Op::Rmdir as u16;
        let found = self.first(call, End::Name)?;
        let place = found.node.ok_or(Errno::Noent)?;
        if found.name.is_empty() {
            return Err(if rmdir { Errno::Inval.into() } else { Errno::Isdir.into() });
        }
        if place.mount != found.directory.mount {
            return Err(Errno::Busy.into());
        }
        match (rmdir, self.is_directory(place)?) {
            (false, true) => return Err(Errno::Isdir.into()),
            (true, false) => return Err(Errno::Notdir.into()),
            (false, false) if found.slash => return Err(Errno::Notdir.into()),
            _ => {}
        }
        let (name, now) = (&found.name, call.time_of_day());
        self.on(found.directory, |fs, node| match rmdir {
            true => fs.rmdir(node, name, now),
            false => fs.unlink(node, name, now),
        })?;
        Ok(Reply::default())
    }

    pub(super) fn do_rename(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(0)?;
        let from = self.first(call, End::Name)?;
        let to = self.second(call)?;
        let moved = from.node.ok_or(Errno::Noent)?;
        if from.name.is_empty() || to.name.is_empty() {
            return Err(Errno::Busy.into());
        }
        let covers = |found: &Found| found.node.is_some_and(|p| p.mount != found.directory.mount);
        if covers(&from) || covers(&to) {
            return Err(Errno::Busy.into());
        }
        if from.directory.mount != to.directory.mount {
            return Err(Errno::Xdev.into());
        }
        if (from.slash || to.slash) && !self.is_directory(moved)? {
            return Err(Errno::Notdir.into());
        }
        let (target, now) = (to.directory.node, call.time_of_day());
        self.on(from.directory, |fs, node| fs.rename(node, &from.name, target, &to.name, now))?;
        Ok(Reply::default())
    }

    /// Resolves the second name, from the second handle.
    fn second(&mut self, call: &Call<'_>) -> Result<Found> {
        let base = self.directory(call.request.second)?;
        self.walk(base, call.other()?, End::Name)
    }

    pub(super) fn do_link(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        call.flags(flag::FOLLOW)?;
        let place = self.there(call)?;
        let to = self.second(call)?;
        if to.node.is_some() {
            return Err(Errno::Exist.into());
        }
        if to.slash {
            return Err(Errno::Noent.into());
        }
        if place.mount != to.directory.mount {
            return Err(Errno::Xdev.into());
        }
        let (name, now) = (&to.name, call.time_of_day());
        self.on(to.directory, |fs, directory| fs.link(directory, name, place.node, now))?;
        Ok(Reply::default())
    }
}

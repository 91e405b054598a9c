//! The model's paths: one flat map, and a queue of the components still to be resolved.

use super::{Leads, Listed, Model, No, Outcome, ROOT, Thing, What, only, times};
use abi::fs::{Errno, Op, Reply, Request, flag, kind};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

type Path = Vec<u8>;

/// Path of a removed directory: nothing is below it.
const NOWHERE: &[u8] = b"nowhere";

/// The result of a path: the path of the directory, the last component (`None` for `.` and `..`),
/// and the file there.
struct Led {
    above: Path,
    last: Option<Path>,
    id: Option<u64>,
    slash: bool,
}

impl Led {
    fn whole(&self) -> Path {
        join(&self.above, self.last.as_deref().unwrap_or_default())
    }
}

fn join(above: &[u8], name: &[u8]) -> Path {
    [above, b"/", name].concat()
}

/// Returns what a name is charged.
pub fn cost(path: &[u8]) -> u64 {
    224 + 2 * path.rsplit(|b| *b == b'/').next().unwrap_or_default().len() as u64
}

fn text(bulk: &[u8], from: usize, length: u16) -> Outcome<Path> {
    let range = from..from + usize::from(length);
    bulk.get(range).map(<[u8]>::to_vec).ok_or(No::Error(Errno::Inval))
}

impl Model {
    fn kind_of(&self, id: u64) -> u8 {
        match self.things[&id].what {
            What::Directory => kind::DIRECTORY,
            What::File { .. } => kind::FILE,
            What::Link(_) => kind::LINK,
        }
    }

    /// Returns the path of a directory.
    fn path_of(&self, id: u64) -> Path {
        let named = self.names.iter().find(|(_, other)| **other == id);
        named.map_or(NOWHERE.to_vec(), |(path, _)| path.clone())
    }

    /// Returns the entries of a directory.
    pub(super) fn children(&self, id: u64) -> Vec<Listed> {
        let prefix = join(&self.path_of(id), b"");
        let inside = self.names.iter().filter(|(path, _)| path.starts_with(&prefix));
        let direct = inside.filter(|(path, _)| !path[prefix.len()..].contains(&b'/'));
        direct.map(|(path, id)| (path[prefix.len()..].to_vec(), *id, self.kind_of(*id))).collect()
    }

    /// Returns all entries of a handle's directory, with `.` and `..`.
    pub fn list(&self, handle: u64) -> Result<Vec<Listed>, Errno> {
        let id = match self.base(handle) {
            Ok((id, _)) => id,
            Err(No::Error(error)) => return Err(error),
            Err(No::Wait) => return Err(Errno::Again),
        };
        let path = self.path_of(id);
        if path == NOWHERE {
            return Ok(Vec::new());
        }
        let end = path.iter().rposition(|b| *b == b'/').unwrap_or(0);
        let above = self.names.get(&path[..end]).copied().unwrap_or(ROOT);
        let mut all = self.children(id);
        all.push((b".".to_vec(), id, kind::DIRECTORY));
        all.push((b"..".to_vec(), above, kind::DIRECTORY));
        all.sort();
        Ok(all)
    }

    /// Returns the directory of a handle.
    fn base(&self, handle: u64) -> Outcome<(u64, Path)> {
        match self.opened(handle)?.leads {
            Leads::Thing(id) if self.kind_of(id) == kind::DIRECTORY => Ok((id, self.path_of(id))),
            _ => Err(Errno::Notdir.into()),
        }
    }

    /// Resolves a path. `follow` tells whether a link at the end is followed. A link with a `/`
    /// after it is followed too, unless `name_counts`.
    fn follow(&self, handle: u64, path: &[u8], follow: bool, name_counts: bool) -> Outcome<Led> {
        let (base_id, base) = self.base(handle)?;
        if path.len() > 4096 {
            return Err(Errno::Nametoolong.into());
        }
        if path.contains(&0) {
            return Err(Errno::Inval.into());
        }
        let (mut todo, mut slash) = split(path)?;
        let (mut at, mut links) = (base.clone(), 0);
        loop {
            let Some(name) = todo.pop_front() else {
                let id = if at == NOWHERE { base_id } else { self.names[&at] };
                return Ok(Led { above: at, last: None, id: Some(id), slash: true });
            };
            if name.len() > 255 {
                return Err(Errno::Nametoolong.into());
            }
            if name == b"." {
                continue;
            }
            if name == b".." {
                if at == base {
                    return Err(Errno::Perm.into());
                }
                let end = at.iter().rposition(|b| *b == b'/').unwrap_or(0);
                at.truncate(end);
                continue;
            }
            let is_last = todo.is_empty();
            let whole = join(&at, &name);
            let Some(&id) = self.names.get(&whole) else {
                if is_last {
                    return Ok(Led { above: at, last: Some(name), id: None, slash });
                }
                return Err(Errno::Noent.into());
            };
            match &self.things[&id].what {
                What::Link(text) if !is_last || follow || (slash && !name_counts) => {
                    links += 1;
                    if links > 40 {
                        return Err(Errno::Loop.into());
                    }
                    let (parts, ends_in_slash) = split(text)?;
                    slash |= is_last && ends_in_slash;
                    for part in parts.into_iter().rev() {
                        todo.push_front(part);
                    }
                }
                _ if is_last => {
                    return Ok(Led { above: at, last: Some(name), id: Some(id), slash });
                }
                What::Directory => at = whole,
                _ => return Err(Errno::Notdir.into()),
            }
        }
    }

    pub(super) fn open(&mut self, now: u64, r: &Request, bulk: &[u8]) -> Outcome<Reply> {
        only(r, 0x1ff)?;
        let set = |f: u16| r.flags & f != 0;
        let (create, exclusive) = (set(flag::CREATE), set(flag::CREATE) && set(flag::EXCLUSIVE));
        if create && set(flag::DIRECTORY) || set(flag::TRUNCATE) && !set(flag::WRITE) {
            return Err(Errno::Inval.into());
        }
        self.base(r.handle)?;
        let path = text(bulk, 0, r.name)?;
        let led = self.follow(r.handle, &path, set(flag::FOLLOW) && !exclusive, false)?;
        let id = match led.id {
            Some(_) if exclusive => return Err(Errno::Exist.into()),
            Some(id) => id,
            None if !create => return Err(Errno::Noent.into()),
            None if led.slash => return Err(Errno::Isdir.into()),
            None => {
                let (bytes, pages) = Default::default();
                self.add(now, &led, What::File { bytes, pages, size: 0 })?
            }
        };
        let writes = create || set(flag::WRITE) || set(flag::TRUNCATE);
        match self.kind_of(id) {
            kind::DIRECTORY if writes => return Err(Errno::Isdir.into()),
            kind::DIRECTORY => {}
            _ if led.slash || set(flag::DIRECTORY) => return Err(Errno::Notdir.into()),
            kind::LINK => return Err(Errno::Loop.into()),
            _ => {}
        }
        if let (true, Some(thing)) = (set(flag::TRUNCATE), self.things.get_mut(&id)) {
            let (bytes, pages) = Default::default();
            thing.what = What::File { bytes, pages, size: 0 };
            self.touch(id, now);
        }
        let reply = self.give(Leads::Thing(id), r.flags);
        Ok(Reply { stat: self.stat(id), ..reply })
    }

    /// Adds something new under a name that does not exist.
    fn add(&mut self, now: u64, led: &Led, what: What) -> Outcome<u64> {
        let above = *self.names.get(&led.above).ok_or(Errno::Noent)?;
        let extra = match &what {
            What::Link(text) => text.len() as u64,
            What::Directory => 768,
            What::File { .. } => 0,
        };
        if self.used() + 512 + extra + cost(&led.whole()) > self.budget {
            return Err(Errno::Nospc.into());
        }
        let id = self.number();
        self.things.insert(id, Thing { what, accessed: now, modified: now, changed: now });
        self.names.insert(led.whole(), id);
        self.touch(above, now);
        Ok(id)
    }

    pub(super) fn by_name(&mut self, now: u64, r: &Request, bulk: &mut [u8]) -> Outcome<Reply> {
        let first = |end: bool, counts: bool| {
            self.base(r.handle)?;
            self.follow(r.handle, &text(bulk, 0, r.name)?, end, counts)
        };
        match Op::from_code(r.op) {
            Some(Op::StatPath) => {
                only(r, flag::FOLLOW)?;
                let id = self.there(first(r.flags != 0, false)?)?;
                Ok(Reply { stat: self.stat(id), ..Reply::default() })
            }
            Some(Op::SetTimesPath) => {
                let times = times(r.flags & !flag::FOLLOW, r, now)?;
                let id = self.there(first(r.flags & flag::FOLLOW != 0, false)?)?;
                self.set_times(id, times, now)
            }
            Some(Op::Mkdir) => {
                only(r, 0)?;
                let led = first(false, true)?;
                self.make(now, led, What::Directory)
            }
            Some(Op::Symlink) => {
                only(r, 0)?;
                self.base(r.handle)?;
                let link = text(bulk, 0, r.name)?;
                if link.len() > 4096 {
                    return Err(Errno::Nametoolong.into());
                }
                if link.is_empty() || link.contains(&0) {
                    return Err(Errno::Inval.into());
                }
                let path = text(bulk, r.name.into(), r.other)?;
                let led = self.follow(r.handle, &path, false, true)?;
                self.make(now, led, What::Link(link))
            }
            Some(Op::Readlink) => {
                only(r, 0)?;
                let id = self.there(first(false, false)?)?;
                let What::Link(text) = &self.things[&id].what else {
                    return Err(Errno::Inval.into());
                };
                let count = text.len().min(bulk.len());
                bulk[..count].copy_from_slice(&text[..count]);
                Ok(Reply { value: count as u64, filled: count as u32, ..Reply::default() })
            }
            Some(Op::Unlink) => {
                only(r, 0)?;
                let led = first(false, true)?;
                self.remove(now, &led, false)
            }
            Some(Op::Rmdir) => {
                only(r, 0)?;
                let led = first(false, true)?;
                self.remove(now, &led, true)
            }
            Some(Op::Rename) => {
                only(r, 0)?;
                let from = first(false, true)?;
                let to = self.second(r, bulk)?;
                self.rename(now, &from, &to)
            }
            Some(Op::Link) => {
                only(r, flag::FOLLOW)?;
                let id = self.there(first(r.flags != 0, false)?)?;
                let to = self.second(r, bulk)?;
                self.link(now, id, &to)
            }
            _ => Err(Errno::Nosys.into()),
        }
    }

    fn second(&self, r: &Request, bulk: &[u8]) -> Outcome<Led> {
        self.base(r.second)?;
        self.follow(r.second, &text(bulk, r.name.into(), r.other)?, false, true)
    }

    /// Returns the file that was found. Fails if there is none, or if a trailing `/` requires a
    /// directory.
    fn there(&self, led: Led) -> Outcome<u64> {
        let id = led.id.ok_or(Errno::Noent)?;
        if led.slash && self.kind_of(id) != kind::DIRECTORY {
            return Err(Errno::Notdir.into());
        }
        Ok(id)
    }

    fn make(&mut self, now: u64, led: Led, what: What) -> Outcome<Reply> {
        if led.id.is_some() {
            return Err(Errno::Exist.into());
        }
        if led.slash && what != What::Directory {
            return Err(Errno::Noent.into());
        }
        self.add(now, &led, what)?;
        Ok(Reply::default())
    }

    fn remove(&mut self, now: u64, led: &Led, rmdir: bool) -> Outcome<Reply> {
        let id = led.id.ok_or(Errno::Noent)?;
        let is_directory = self.kind_of(id) == kind::DIRECTORY;
        let error = match (led.last.is_some(), rmdir, is_directory) {
            (false, true, _) => Errno::Inval,
            (_, false, true) => Errno::Isdir,
            (_, true, false) => Errno::Notdir,
            (_, false, false) if led.slash => Errno::Notdir,
            (_, true, true) if !self.children(id).is_empty() => Errno::Notempty,
            _ => Errno::Success,
        };
        if error != Errno::Success {
            return Err(error.into());
        }
        self.names.remove(&led.whole());
        self.touch(self.names[&led.above], now);
        self.mark(id, now);
        Ok(Reply::default())
    }

    fn mark(&mut self, id: u64, now: u64) {
        if let Some(thing) = self.things.get_mut(&id) {
            thing.changed = now;
        }
    }

    fn rename(&mut self, now: u64, from: &Led, to: &Led) -> Outcome<Reply> {
        let id = from.id.ok_or(Errno::Noent)?;
        if from.last.is_none() || to.last.is_none() {
            return Err(Errno::Busy.into());
        }
        let is_directory = self.kind_of(id) == kind::DIRECTORY;
        if (from.slash || to.slash) && !is_directory {
            return Err(Errno::Notdir.into());
        }
        let (old, new) = (from.whole(), to.whole());
        let above = *self.names.get(&to.above).ok_or(Errno::Noent)?;
        if is_directory && new.starts_with(&join(&old, b"")) {
            return Err(Errno::Inval.into());
        }
        if let Some(there) = to.id {
            if there == id {
                return Ok(Reply::default());
            }
            match (is_directory, self.kind_of(there) == kind::DIRECTORY) {
                (true, false) => return Err(Errno::Notdir.into()),
                (false, true) => return Err(Errno::Isdir.into()),
                (true, true) if !self.children(there).is_empty() => {
                    return Err(Errno::Notempty.into());
                }
                _ => {}
            }
        } else if self.used() + cost(&new) > self.budget + cost(&old) {
            return Err(Errno::Nospc.into());
        }
        let inside = join(&old, b"");
        let moves = |path: &Path| *path == old || path.starts_with(&inside);
        let moved: Vec<Path> = self.names.keys().filter(|p| moves(p)).cloned().collect();
        let left = self.names[&from.above];
        self.names.remove(&new);
        for path in moved {
            let id = self.names.remove(&path).ok_or(Errno::Io)?;
            self.names.insert([&new, &path[old.len()..]].concat(), id);
        }
        self.touch(left, now);
        self.touch(above, now);
        self.mark(id, now);
        if let Some(there) = to.id {
            self.mark(there, now);
        }
        Ok(Reply::default())
    }

    fn link(&mut self, now: u64, id: u64, to: &Led) -> Outcome<Reply> {
        if to.id.is_some() {
            return Err(Errno::Exist.into());
        }
        if to.slash {
            return Err(Errno::Noent.into());
        }
        let above = *self.names.get(&to.above).ok_or(Errno::Noent)?;
        if self.kind_of(id) == kind::DIRECTORY {
            return Err(Errno::Perm.into());
        }
        if self.used() + cost(&to.whole()) > self.budget {
            return Err(Errno::Nospc.into());
        }
        self.names.insert(to.whole(), id);
        self.touch(above, now);
        self.mark(id, now);
        Ok(Reply::default())
    }
}

/// Returns the components, and whether the text ends in a slash.
fn split(text: &[u8]) -> Outcome<(VecDeque<Path>, bool)> {
    match text.first() {
        None => Err(Errno::Noent.into()),
        Some(b'/') => Err(Errno::Perm.into()),
        Some(_) => {
            let parts = text.split(|b| *b == b'/').filter(|p| !p.is_empty());
            Ok((parts.map(<[u8]>::to_vec).collect(), text.last() == Some(&b'/')))
        }
    }
}

//! A simple model of the file service: it predicts the replies.
//!
//! Contract: it shares neither code nor ideas with the service. One flat map leads from whole paths
//! to files, a file is a map from offsets to bytes, and everything that can be counted (names,
//! memory, openings) is counted on each request. It is slow on purpose. It has one file system, no
//! mounts and no owners; handles count from 1; a directory is listed whole ([`Model::list`]). It
//! can be cloned, compared and hashed, so a checker of histories can backtrack.

mod data;
mod names;

use abi::fs::{Errno, Op, Reply, Request, Stat, flag, kind};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

const PAGE_COST: u64 = 4160;
const ROOT: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum No {
    Error(Errno),
    Wait,
}

impl From<Errno> for No {
    fn from(error: Errno) -> No {
        No::Error(error)
    }
}

type Outcome<T> = Result<T, No>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum What {
    Directory,
    File { bytes: BTreeMap<u64, u8>, pages: BTreeSet<u64>, size: u64 },
    Link(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Thing {
    what: What,
    accessed: u64,
    modified: u64,
    changed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Leads {
    Thing(u64),
    Reader(u64),
    Writer(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Opened {
    leads: Leads,
    position: u64,
    flags: u16,
}

/// An entry of a directory: name, node, kind.
pub type Listed = (Vec<u8>, u64, u8);

/// Properties in which file systems differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Maximum size of a file.
    pub largest: u64,
    /// Maximum bytes that one step allocates.
    pub allocated: u64,
    /// The latest time that can be stored, in ns; later ones become this one.
    pub last: u64,
    /// Resolution of times, in ns.
    pub grain: u64,
}

impl Limits {
    /// The properties of a ramfs.
    pub const RAMFS: Limits =
        Limits { largest: i64::MAX as u64, allocated: 256 * 1024, last: u64::MAX, grain: 1 };

    fn time(&self, time: u64) -> u64 {
        let time = time.min(self.last);
        time - time % self.grain
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    budget: u64,
    limits: Limits,
    /// By whole path; the root's is empty, all others begin with `/`.
    names: BTreeMap<Vec<u8>, u64>,
    things: BTreeMap<u64, Thing>,
    opened: BTreeMap<u64, Opened>,
    handles: BTreeMap<u64, u64>,
    pipes: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

/// Flags of Open that stay with the handle.
const KEPT: u16 = flag::READ | flag::WRITE | flag::APPEND | flag::NONBLOCK;

impl Model {
    /// Creates an empty ramfs of `budget` bytes.
    pub fn new(budget: u64) -> Model {
        Model::within(budget, Limits::RAMFS)
    }

    /// Creates an empty file system with these limits.
    pub fn within(budget: u64, limits: Limits) -> Model {
        let root = Thing { what: What::Directory, accessed: 0, modified: 0, changed: 0 };
        Model {
            budget,
            limits,
            names: BTreeMap::from([(Vec::new(), ROOT)]),
            things: BTreeMap::from([(ROOT, root)]),
            opened: BTreeMap::new(),
            handles: BTreeMap::new(),
            pipes: BTreeMap::new(),
            next: ROOT + 1,
        }
    }

    /// Returns the reply to a request, or `None` if it must wait.
    pub fn answer(&mut self, now: u64, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        let reply = match self.perform(now, &request, bulk) {
            Ok(reply) => reply,
            Err(No::Error(error)) => Reply::error(error),
            Err(No::Wait) => return None,
        };
        self.sweep();
        Some(reply)
    }

    /// Gives a handle the number that the service chose.
    pub fn rename_handle(&mut self, handle: u64, to: u64) {
        if let Some(opening) = self.handles.remove(&handle) {
            self.handles.insert(to, opening);
        }
    }

    /// Iterates over the open handles.
    pub fn handles(&self) -> impl Iterator<Item = u64> {
        self.handles.keys().copied()
    }

    fn perform(&mut self, now: u64, r: &Request, bulk: &mut [u8]) -> Outcome<Reply> {
        let op = Op::from_code(r.op).ok_or(Errno::Nosys)?;
        if !r.names_fit() {
            return Err(Errno::Nametoolong.into());
        }
        match op {
            Op::Root => Ok(self.give(Leads::Thing(ROOT), flag::READ)),
            Op::Open => self.open(now, r, bulk),
            Op::Close => {
                self.handles.remove(&r.handle).ok_or(Errno::Badf)?;
                Ok(Reply::default())
            }
            Op::Dup => {
                let opening = *self.handles.get(&r.handle).ok_or(Errno::Badf)?;
                let handle = self.number();
                self.handles.insert(handle, opening);
                Ok(Reply { handle, ..Reply::default() })
            }
            Op::Pipe => {
                only(r, flag::NONBLOCK)?;
                let pipe = self.number();
                self.pipes.insert(pipe, Vec::new());
                let reader = self.give(Leads::Reader(pipe), flag::READ | r.flags);
                let writer = self.give(Leads::Writer(pipe), flag::WRITE | r.flags);
                Ok(Reply { other: writer.handle, ..reply_of(reader.handle) })
            }
            Op::SetFlags => {
                only(r, flag::APPEND | flag::NONBLOCK)?;
                let opened = self.opened_mut(r.handle)?;
                opened.flags = opened.flags & (flag::READ | flag::WRITE) | r.flags;
                Ok(Reply::default())
            }
            Op::Read => self.read(r, bulk),
            Op::Write => self.write(now, r, bulk),
            Op::Seek => self.seek(r),
            Op::SetSize => self.set_size(now, r),
            Op::Allocate => self.allocate(now, r),
            Op::Sync | Op::Datasync => self.thing_of(r.handle).map(|_| Reply::default()),
            Op::Stat => {
                let opened = self.opened(r.handle)?;
                let (flags, leads) = (opened.flags, opened.leads);
                let stat = match leads {
                    Leads::Thing(id) => self.stat(id),
                    Leads::Reader(pipe) | Leads::Writer(pipe) => {
                        let size = self.pipes[&pipe].len() as u64;
                        Stat { kind: kind::PIPE, links: 1, size, ..Stat::default() }
                    }
                };
                Ok(Reply { stat, flags, ..Reply::default() })
            }
            Op::SetTimes => {
                let times = times(r.flags, r, now)?;
                let id = self.thing_of(r.handle)?;
                self.set_times(id, times, now)
            }
            Op::Statfs => {
                self.thing_of(r.handle)?;
                let free = self.budget - self.used();
                Ok(Reply { value: self.budget, other: free, ..Reply::default() })
            }
            Op::Poll => self.poll(r, bulk),
            Op::Readdir | Op::Mount | Op::NextIo | Op::IoDone | Op::Terminal => {
                Err(Errno::Notsup.into())
            }
            Op::NextJob | Op::JobDone | Op::Mounts | Op::Unmount => Err(Errno::Notsup.into()),
            _ => self.by_name(now, r, bulk),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn give(&mut self, leads: Leads, flags: u16) -> Reply {
        let (opening, handle) = (self.number(), self.number());
        self.opened.insert(opening, Opened { leads, position: 0, flags: flags & KEPT });
        self.handles.insert(handle, opening);
        reply_of(handle)
    }

    fn opened(&self, handle: u64) -> Outcome<&Opened> {
        let opening = self.handles.get(&handle).ok_or(Errno::Badf)?;
        Ok(&self.opened[opening])
    }

    fn opened_mut(&mut self, handle: u64) -> Outcome<&mut Opened> {
        let opening = self.handles.get(&handle).ok_or(Errno::Badf)?;
        self.opened.get_mut(opening).ok_or(No::Error(Errno::Badf))
    }

    fn thing_of(&self, handle: u64) -> Outcome<u64> {
        match self.opened(handle)?.leads {
            Leads::Thing(id) => Ok(id),
            _ => Err(Errno::Inval.into()),
        }
    }

    /// Drops everything that is unreachable.
    fn sweep(&mut self) {
        let used: BTreeSet<u64> = self.handles.values().copied().collect();
        self.opened.retain(|id, _| used.contains(id));
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        let open: BTreeSet<u64> = self
            .opened
            .values()
            .filter_map(|o| if let Leads::Thing(id) = o.leads { Some(id) } else { None })
            .collect();
        self.things.retain(|id, _| named.contains(id) || open.contains(id));
        let ends: Vec<Leads> = self.opened.values().map(|o| o.leads).collect();
        let alive =
            |p: &u64| ends.contains(&Leads::Reader(*p)) || ends.contains(&Leads::Writer(*p));
        self.pipes.retain(|pipe, _| alive(pipe));
    }

    fn is_open(&self, leads: Leads) -> bool {
        self.opened.values().any(|o| o.leads == leads)
    }

    /// Returns the bytes charged.
    fn used(&self) -> u64 {
        let names = self.names.keys().filter(|p| !p.is_empty());
        let names: u64 = names.map(|path| names::cost(path)).sum();
        let things = self.things.iter().filter(|(id, _)| **id != ROOT).map(|(_, thing)| {
            512 + match &thing.what {
                What::Directory => 768,
                What::Link(text) => text.len() as u64,
                What::File { pages, .. } => pages.len() as u64 * PAGE_COST,
            }
        });
        names + things.sum::<u64>()
    }

    fn stat(&self, id: u64) -> Stat {
        let thing = &self.things[&id];
        let named = self.names.values().filter(|n| **n == id).count() as u64;
        let (kind, links, size) = match &thing.what {
            What::File { size, .. } => (kind::FILE, named, *size),
            What::Link(text) => (kind::LINK, named, text.len() as u64),
            What::Directory => {
                let children = self.children(id);
                let inner = children.iter().filter(|(_, _, k)| *k == kind::DIRECTORY).count();
                let links = if named == 0 { 0 } else { 2 + inner as u64 };
                (kind::DIRECTORY, links, children.len() as u64)
            }
        };
        let time = |time| self.limits.time(time);
        let (accessed, modified, changed) =
            (time(thing.accessed), time(thing.modified), time(thing.changed));
        let reserved = [0; 7];
        Stat { device: 1, node: id, kind, reserved, links, size, accessed, modified, changed }
    }

    fn touch(&mut self, id: u64, now: u64) {
        if let Some(thing) = self.things.get_mut(&id) {
            (thing.modified, thing.changed) = (now, now);
        }
    }

    fn set_times(
        &mut self,
        id: u64,
        (accessed, modified): (Option<u64>, Option<u64>),
        now: u64,
    ) -> Outcome<Reply> {
        let thing = self.things.get_mut(&id).ok_or(Errno::Noent)?;
        thing.accessed = accessed.unwrap_or(thing.accessed);
        thing.modified = modified.unwrap_or(thing.modified);
        thing.changed = now;
        Ok(Reply::default())
    }
}

fn reply_of(handle: u64) -> Reply {
    Reply { handle, ..Reply::default() }
}

fn only(r: &Request, known: u16) -> Outcome<()> {
    if r.flags & !known == 0 { Ok(()) } else { Err(Errno::Inval.into()) }
}

fn times(flags: u16, r: &Request, now: u64) -> Outcome<(Option<u64>, Option<u64>)> {
    if flags > 15 || flags & 3 == 3 || flags & 12 == 12 {
        return Err(Errno::Inval.into());
    }
    let pick = |bits: u16, time: u64| match bits {
        1 => Some(time),
        2 => Some(now),
        _ => None,
    };
    Ok((pick(flags & 3, r.accessed), pick(flags >> 2, r.modified)))
}

//! The file service once more, as simple as can be: what its replies must be.
//!
//! Contract: no code of the service's and none of its ideas. There is one flat map from whole
//! paths to things, files are maps from places to bytes, and everything that can be counted
//! (names, memory, who has it open) is counted when somebody asks. Slow on purpose. One file
//! system, no mounts, no owners; handles count from 1; a directory lists whole ([`Model::list`]).
//! It can be cloned, compared and hashed, so that a checker of histories can go back.

mod names;

use abi::fs::{Errno, Op, Poll, Reply, Request, STEP, Stat, flag, kind, ready};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

const PAGE: u64 = 4096;
const PAGE_COST: u64 = 4160;
const LARGEST: u64 = 0x7fff_ffff_ffff_ffff;
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

/// One entry of a directory: name, node, kind.
pub type Listed = (Vec<u8>, u64, u8);

/// The model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    budget: u64,
    /// Whole paths; the root's is empty, all others begin with `/`.
    names: BTreeMap<Vec<u8>, u64>,
    things: BTreeMap<u64, Thing>,
    opened: BTreeMap<u64, Opened>,
    handles: BTreeMap<u64, u64>,
    pipes: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

/// What WRITE, READ, APPEND and NONBLOCK of an open become.
const KEPT: u16 = flag::READ | flag::WRITE | flag::APPEND | flag::NONBLOCK;

impl Model {
    /// An empty one.
    pub fn new(budget: u64) -> Model {
        let root = Thing { what: What::Directory, accessed: 0, modified: 0, changed: 0 };
        Model {
            budget,
            names: BTreeMap::from([(Vec::new(), ROOT)]),
            things: BTreeMap::from([(ROOT, root)]),
            opened: BTreeMap::new(),
            handles: BTreeMap::new(),
            pipes: BTreeMap::new(),
            next: ROOT + 1,
        }
    }

    /// The reply to a request, or `None` when it has to wait.
    pub fn answer(&mut self, now: u64, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        let reply = match self.perform(now, &request, bulk) {
            Ok(reply) => reply,
            Err(No::Error(error)) => Reply::error(error),
            Err(No::Wait) => return None,
        };
        self.sweep();
        Some(reply)
    }

    fn perform(&mut self, now: u64, r: &Request, bulk: &mut [u8]) -> Outcome<Reply> {
        match Op::from_code(r.op).ok_or(Errno::Nosys)? {
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
            Op::Readdir | Op::Mount => Err(Errno::Notsup.into()),
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

    /// Forgets what nobody reaches any more.
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

    fn somebody(&self, leads: Leads) -> bool {
        self.opened.values().any(|o| o.leads == leads)
    }

    /// Bytes taken.
    fn used(&self) -> u64 {
        let names = self.names.keys().filter(|p| !p.is_empty());
        let names: u64 = names.map(|path| names::cost(path)).sum();
        let things = self.things.iter().filter(|(id, _)| **id != ROOT).map(|(_, thing)| {
            256 + match &thing.what {
                What::Directory => 0,
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
        let (accessed, modified, changed) = (thing.accessed, thing.modified, thing.changed);
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

    fn read(&mut self, r: &Request, bulk: &mut [u8]) -> Outcome<Reply> {
        only(r, flag::AT)?;
        let (at, length) = (r.flags != 0, amount(r, bulk));
        let opened = self.opened(r.handle)?.clone();
        if opened.flags & flag::READ == 0 {
            return Err(Errno::Badf.into());
        }
        let count = match opened.leads {
            Leads::Thing(id) => {
                let offset = if at { r.offset } else { opened.position };
                let What::File { bytes, size, .. } = &self.things[&id].what else {
                    return Err(Errno::Isdir.into());
                };
                let count = (length as u64).min(size.saturating_sub(offset)) as usize;
                for (place, byte) in (offset..).zip(&mut bulk[..count]) {
                    *byte = bytes.get(&place).copied().unwrap_or(0);
                }
                if !at {
                    self.opened_mut(r.handle)?.position = offset + count as u64;
                }
                count
            }
            _ if at => return Err(Errno::Spipe.into()),
            Leads::Reader(pipe) => {
                if length > 0 && self.pipes[&pipe].is_empty() && self.somebody(Leads::Writer(pipe))
                {
                    return Err(wait(opened.flags));
                }
                let data = self.pipes.entry(pipe).or_default();
                let count = length.min(data.len());
                bulk[..count].copy_from_slice(&data[..count]);
                data.drain(..count);
                count
            }
            Leads::Writer(_) => return Err(Errno::Badf.into()),
        };
        Ok(Reply { value: count as u64, filled: count as u32, ..Reply::default() })
    }

    fn write(&mut self, now: u64, r: &Request, bulk: &[u8]) -> Outcome<Reply> {
        only(r, flag::AT)?;
        let (at, data) = (r.flags != 0, &bulk[..amount(r, bulk)]);
        let opened = self.opened(r.handle)?.clone();
        if opened.flags & flag::WRITE == 0 {
            return Err(Errno::Badf.into());
        }
        let count = match opened.leads {
            Leads::Thing(id) => {
                let end = self.stat(id).size;
                let appends = opened.flags & flag::APPEND != 0;
                let offset = if at {
                    r.offset
                } else if appends {
                    end
                } else {
                    opened.position
                };
                let count = self.write_file(now, id, offset, data)?;
                if !at {
                    self.opened_mut(r.handle)?.position = offset + count as u64;
                }
                count
            }
            _ if at => return Err(Errno::Spipe.into()),
            Leads::Writer(pipe) => {
                if !self.somebody(Leads::Reader(pipe)) {
                    return Err(Errno::Pipe.into());
                }
                let room = 16_384 - self.pipes[&pipe].len();
                if data.len() > room && (data.len() <= 4096 || room == 0) {
                    return Err(wait(opened.flags));
                }
                let count = data.len().min(room);
                self.pipes.entry(pipe).or_default().extend(&data[..count]);
                count
            }
            Leads::Reader(_) => return Err(Errno::Badf.into()),
        };
        Ok(Reply { value: count as u64, ..Reply::default() })
    }

    fn write_file(&mut self, now: u64, id: u64, offset: u64, data: &[u8]) -> Outcome<usize> {
        let mut free = (self.budget - self.used()) / PAGE_COST;
        let Some(Thing { what: What::File { bytes, pages, size }, .. }) = self.things.get_mut(&id)
        else {
            return Err(Errno::Isdir.into());
        };
        if data.is_empty() {
            return Ok(0);
        }
        if offset >= LARGEST {
            return Err(Errno::Fbig.into());
        }
        let mut count = 0;
        for (place, byte) in (offset..LARGEST).zip(data) {
            if !pages.contains(&(place / PAGE)) {
                if free == 0 {
                    break;
                }
                free -= 1;
                pages.insert(place / PAGE);
            }
            bytes.insert(place, *byte);
            count += 1;
        }
        if count == 0 {
            return Err(Errno::Nospc.into());
        }
        *size = (*size).max(offset + count as u64);
        self.touch(id, now);
        Ok(count)
    }

    fn seek(&mut self, r: &Request) -> Outcome<Reply> {
        only(r, 3)?;
        let opened = self.opened(r.handle)?.clone();
        let Leads::Thing(id) = opened.leads else { return Err(Errno::Spipe.into()) };
        let stat = self.stat(id);
        if stat.kind == kind::DIRECTORY {
            return Err(Errno::Isdir.into());
        }
        let from = match r.flags {
            0 => 0,
            1 => opened.position,
            2 => stat.size,
            _ => return Err(Errno::Inval.into()),
        };
        let to = i128::from(from) + i128::from(r.offset.cast_signed());
        if to < 0 {
            return Err(Errno::Inval.into());
        }
        if to > i128::from(LARGEST) {
            return Err(Errno::Overflow.into());
        }
        self.opened_mut(r.handle)?.position = to as u64;
        Ok(Reply { value: to as u64, ..Reply::default() })
    }

    /// The file of a handle that may write.
    fn writable(&self, r: &Request) -> Outcome<u64> {
        only(r, 0)?;
        if self.opened(r.handle)?.flags & flag::WRITE == 0 {
            return Err(Errno::Badf.into());
        }
        self.thing_of(r.handle)
    }

    fn set_size(&mut self, now: u64, r: &Request) -> Outcome<Reply> {
        let id = self.writable(r)?;
        if r.length > LARGEST {
            return Err(Errno::Fbig.into());
        }
        if let Some(Thing { what: What::File { bytes, pages, size }, .. }) =
            self.things.get_mut(&id)
        {
            bytes.split_off(&r.length);
            pages.split_off(&r.length.div_ceil(PAGE));
            *size = r.length;
        }
        self.touch(id, now);
        Ok(Reply::default())
    }

    fn allocate(&mut self, now: u64, r: &Request) -> Outcome<Reply> {
        let id = self.writable(r)?;
        if r.length == 0 {
            return Err(Errno::Inval.into());
        }
        if u128::from(r.offset) + u128::from(r.length) > u128::from(LARGEST) {
            return Err(Errno::Fbig.into());
        }
        let mut free = (self.budget - self.used()) / PAGE_COST;
        let end = r.offset + r.length.min(256 * 1024);
        let Some(Thing { what: What::File { pages, size, .. }, .. }) = self.things.get_mut(&id)
        else {
            return Err(Errno::Isdir.into());
        };
        let mut reached = r.offset;
        for page in r.offset / PAGE..=(end - 1) / PAGE {
            if !pages.contains(&page) {
                if free == 0 {
                    break;
                }
                free -= 1;
                pages.insert(page);
            }
            reached = ((page + 1) * PAGE).min(end);
        }
        if reached == r.offset {
            return Err(Errno::Nospc.into());
        }
        *size = (*size).max(reached);
        self.touch(id, now);
        Ok(Reply { value: reached - r.offset, ..Reply::default() })
    }

    fn poll(&mut self, r: &Request, bulk: &mut [u8]) -> Outcome<Reply> {
        only(r, flag::WAIT)?;
        let length = amount(r, bulk);
        if length == 0 || length % 24 != 0 || length > 24 * 1024 {
            return Err(Errno::Inval.into());
        }
        let mut count = 0;
        for piece in bulk[..length].chunks_exact_mut(24) {
            let mut poll = Poll::read_from_bytes(piece).map_err(|_| Errno::Inval)?;
            (poll.got, poll.error, poll.bytes) = self.readiness(&poll);
            count += u64::from(poll.got != 0 || poll.error != 0);
            piece.copy_from_slice(poll.as_bytes());
        }
        if count == 0 && r.flags != 0 {
            return Err(No::Wait);
        }
        Ok(Reply { value: count, filled: length as u32, ..Reply::default() })
    }

    fn readiness(&self, poll: &Poll) -> (u16, u16, u64) {
        let Ok(opened) = self.opened(poll.handle) else { return (0, Errno::Badf as u16, 0) };
        let (open, mine, bytes, other) = match opened.leads {
            Leads::Thing(id) => {
                let stat = self.stat(id);
                let ahead = stat.size.saturating_sub(opened.position);
                let bytes = if stat.kind == kind::FILE { ahead } else { 0 };
                return (poll.want & 3, 0, bytes);
            }
            Leads::Reader(pipe) => {
                let length = self.pipes[&pipe].len();
                (length > 0, ready::READ, length, Leads::Writer(pipe))
            }
            Leads::Writer(pipe) => {
                let room = 16_384 - self.pipes[&pipe].len();
                (room >= 4096, ready::WRITE, room, Leads::Reader(pipe))
            }
        };
        let hangup = if self.somebody(other) { 0 } else { ready::HANGUP };
        let got = if open || hangup != 0 { poll.want & mine | hangup } else { 0 };
        (got, 0, if got == 0 { 0 } else { bytes as u64 })
    }
}

fn reply_of(handle: u64) -> Reply {
    Reply { handle, ..Reply::default() }
}

fn only(r: &Request, known: u16) -> Outcome<()> {
    if r.flags & !known == 0 { Ok(()) } else { Err(Errno::Inval.into()) }
}

fn amount(r: &Request, bulk: &[u8]) -> usize {
    r.length.min(bulk.len() as u64).min(STEP as u64) as usize
}

fn wait(flags: u16) -> No {
    if flags & flag::NONBLOCK != 0 { No::Error(Errno::Again) } else { No::Wait }
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

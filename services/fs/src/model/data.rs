//! The model's files and pipes.

use super::{Leads, Model, No, Outcome, PAGE_COST, Thing, What, only};
use abi::fs::{Errno, Poll, Reply, Request, STEP, flag, kind, ready};
use zerocopy::{FromBytes, IntoBytes};

const PAGE: u64 = 4096;
const LARGEST: u64 = 0x7fff_ffff_ffff_ffff;

impl Model {
    pub(super) fn read(&mut self, r: &Request, bulk: &mut [u8]) -> Outcome<Reply> {
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
                if length > 0 && self.pipes[&pipe].is_empty() && self.is_open(Leads::Writer(pipe)) {
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

    pub(super) fn write(&mut self, now: u64, r: &Request, bulk: &[u8]) -> Outcome<Reply> {
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
                if !self.is_open(Leads::Reader(pipe)) {
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
        let largest = self.limits.largest;
        let mut free = (self.budget - self.used()) / PAGE_COST;
        let Some(Thing { what: What::File { bytes, pages, size }, .. }) = self.things.get_mut(&id)
        else {
            return Err(Errno::Isdir.into());
        };
        if data.is_empty() {
            return Ok(0);
        }
        if offset >= largest {
            return Err(Errno::Fbig.into());
        }
        let mut count = 0;
        for (place, byte) in (offset..largest).zip(data) {
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

    pub(super) fn seek(&mut self, r: &Request) -> Outcome<Reply> {
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

    /// Returns the file of a handle that may write.
    fn writable(&self, r: &Request) -> Outcome<u64> {
        only(r, 0)?;
        if self.opened(r.handle)?.flags & flag::WRITE == 0 {
            return Err(Errno::Badf.into());
        }
        self.thing_of(r.handle)
    }

    pub(super) fn set_size(&mut self, now: u64, r: &Request) -> Outcome<Reply> {
        let id = self.writable(r)?;
        if r.length > self.limits.largest {
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

    pub(super) fn allocate(&mut self, now: u64, r: &Request) -> Outcome<Reply> {
        let id = self.writable(r)?;
        if r.length == 0 {
            return Err(Errno::Inval.into());
        }
        if u128::from(r.offset) + u128::from(r.length) > u128::from(self.limits.largest) {
            return Err(Errno::Fbig.into());
        }
        let mut free = (self.budget - self.used()) / PAGE_COST;
        let end = r.offset + r.length.min(self.limits.allocated);
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

    pub(super) fn poll(&mut self, r: &Request, bulk: &mut [u8]) -> Outcome<Reply> {
        only(r, flag::WAIT)?;
        let length = amount(r, bulk);
        if length == 0 || !length.is_multiple_of(24) || length > 24 * 1024 {
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
        let hangup = if self.is_open(other) { 0 } else { ready::HANGUP };
        let got = if open || hangup != 0 { poll.want & mine | hangup } else { 0 };
        (got, 0, if got == 0 { 0 } else { bytes as u64 })
    }
}

fn amount(r: &Request, bulk: &[u8]) -> usize {
    r.length.min(bulk.len() as u64).min(STEP as u64) as usize
}

fn wait(flags: u16) -> No {
    if flags & flag::NONBLOCK != 0 { No::Error(Errno::Again) } else { No::Wait }
}

//! Bytes between the program's memory and the file service.
//!
//! Contract: a count that is short is no error; an error behind bytes that moved is kept for the
//! next call. One piece of memory goes to the file service as it is. Several that fit the scratch
//! room are one request, so that a pipe takes them whole; larger ones are a request each. Of a
//! stream one request reads what there is, and nothing waits for more; a write to one waits until
//! all is written, unless nothing may wait. Where bytes come is what the list said at first, though
//! they come over the list itself.

use crate::errno::{Errno, Halt};
use crate::memory::{check, entry, load, piece};
use crate::system::System;
use crate::wasi::{IOVEC, IOVECS};
use abi::fs::{Op, Request};
use alloc::vec::Vec;

/// Until when requests for one piece of memory go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// A file: one that moves little has come to its end; one that moves much was maybe cut by what
    /// a message holds.
    End,
    /// A stream that is read: one is all.
    Once,
    /// A stream that is written, which waits: all of it.
    All,
}

impl Until {
    /// Does it go on behind a request that moved so much?
    fn goes_on(self, moved: u32) -> bool {
        match self {
            Until::End => moved >= 1024,
            Until::Once => false,
            Until::All => moved != 0,
        }
    }
}

/// A piece of the program's memory.
#[derive(Clone, Copy)]
struct Piece {
    at: u32,
    length: u32,
}

/// The pieces that a list names.
struct Pieces {
    list: u32,
    count: u32,
    /// Bytes in all.
    total: u32,
    /// How many are not empty, and the last of those.
    full: u32,
    last: Piece,
    /// One of them is where the list is, so reading would change it.
    covers: bool,
    /// The list as it was, if so.
    kept: Option<Vec<u8>>,
}

impl Pieces {
    fn part(&self, memory: &[u8], index: u32) -> Result<Piece, Errno> {
        match &self.kept {
            Some(kept) => vector(kept, 0, index),
            None => vector(memory, self.list, index),
        }
    }

    #[cold]
    #[inline(never)]
    fn keep(&mut self, memory: &mut [u8]) -> Result<(), Errno> {
        let list = piece(memory, self.list, entry(0, self.count, IOVEC)?)?;
        let mut kept = Vec::new();
        kept.try_reserve_exact(list.len()).map_err(|_| Errno::NOMEM)?;
        kept.extend_from_slice(list);
        self.kept = Some(kept);
        Ok(())
    }
}

/// An entry of a list.
#[inline]
fn vector(memory: &[u8], list: u32, index: u32) -> Result<Piece, Errno> {
    let both = u64::from_le_bytes(load(memory, entry(list, index, IOVEC)?)?);
    Ok(Piece { at: both as u32, length: (both >> 32) as u32 })
}

/// Looks at a list: all of it is inside, and it is no longer than it may be.
#[inline]
fn look(memory: &mut [u8], list: u32, count: u32) -> Result<Pieces, Errno> {
    if count > IOVECS {
        return Err(Errno::INVAL);
    }
    let last = Piece { at: 0, length: 0 };
    let mut all = Pieces { list, count, total: 0, full: 0, last, covers: false, kept: None };
    let end = u64::from(list) + u64::from(count) * u64::from(IOVEC);
    for index in 0..count {
        let one = vector(memory, list, index)?;
        check(memory, one.at, one.length)?;
        if one.length != 0 {
            all.full += 1;
            all.last = one;
            let behind = u64::from(one.at) + u64::from(one.length);
            all.covers |= u64::from(one.at) < end && u64::from(list) < behind;
            all.total = all.total.checked_add(one.length).ok_or(Errno::INVAL)?;
        }
    }
    Ok(all)
}

/// What is to be moved.
pub(crate) struct Transfer<'a> {
    /// Read or Write; the length is filled in.
    pub request: Request,
    /// Until when.
    pub until: Until,
    /// Whom to ask.
    pub system: &'a mut dyn System,
}

impl Transfer<'_> {
    /// Moves what a list of `count` entries names; says how many bytes.
    #[inline]
    pub fn run(
        &mut self,
        memory: &mut [u8],
        scratch: &mut [u8],
        list: u32,
        count: u32,
    ) -> Result<u32, Halt> {
        if count == 1 {
            let one = vector(memory, list, 0)?;
            check(memory, one.at, one.length)?;
            return self.direct(memory, one);
        }
        let mut all = look(memory, list, count)?;
        if all.covers && all.full > 1 && self.reads() {
            all.keep(memory)?;
        }
        let fits = all.total as usize <= scratch.len();
        match all.full {
            0 => Ok(0),
            1 => self.direct(memory, all.last),
            _ if fits || self.until == Until::Once => self.together(memory, scratch, &all),
            _ => self.each(memory, &all),
        }
    }

    fn reads(&self) -> bool {
        self.request.op == Op::Read as u16
    }

    /// One request; says how many bytes it moved.
    #[inline]
    fn step(&mut self, bulk: &mut [u8]) -> Result<u32, Halt> {
        self.request.length = bulk.len() as u64;
        let moved = self.system.transfer(&self.request, bulk)?.map_err(Errno::from)?;
        let moved = moved.min(bulk.len() as u64);
        self.request.offset = self.request.offset.saturating_add(moved);
        Ok(moved as u32)
    }

    /// One piece.
    #[inline]
    fn direct(&mut self, memory: &mut [u8], part: Piece) -> Result<u32, Halt> {
        let mut done = 0u32;
        while done < part.length {
            let bulk = piece(memory, part.at.saturating_add(done), part.length - done)?;
            let moved = match self.step(bulk) {
                Err(Halt::Failed(_)) if done != 0 => break,
                other => other?,
            };
            done += moved;
            if !self.until.goes_on(moved) {
                break;
            }
        }
        Ok(done)
    }

    /// Several pieces, each for itself.
    fn each(&mut self, memory: &mut [u8], all: &Pieces) -> Result<u32, Halt> {
        let mut done = 0u32;
        for index in 0..all.count {
            let part = all.part(memory, index)?;
            let moved = match self.direct(memory, part) {
                Err(Halt::Failed(_)) if done != 0 => break,
                other => other?,
            };
            done = done.saturating_add(moved);
            if moved < part.length {
                break;
            }
        }
        Ok(done)
    }

    /// Several pieces as one.
    fn together(
        &mut self,
        memory: &mut [u8],
        scratch: &mut [u8],
        all: &Pieces,
    ) -> Result<u32, Halt> {
        let length = scratch.len().min(all.total as usize);
        let bulk = scratch.get_mut(..length).ok_or(Errno::IO)?;
        if self.reads() {
            let moved = self.step(bulk)?;
            scatter(memory, all, bulk.get(..moved as usize).ok_or(Errno::IO)?)?;
            Ok(moved)
        } else {
            gather(memory, all, bulk)?;
            self.step(bulk)
        }
    }
}

/// The pieces to one place.
fn gather(memory: &mut [u8], all: &Pieces, mut into: &mut [u8]) -> Result<(), Errno> {
    for index in 0..all.count {
        let part = all.part(memory, index)?;
        let from = piece(memory, part.at, part.length)?;
        let (to, rest) = into.split_at_mut(from.len().min(into.len()));
        to.copy_from_slice(from.get(..to.len()).ok_or(Errno::IO)?);
        into = rest;
    }
    Ok(())
}

/// From one place to the pieces.
fn scatter(memory: &mut [u8], all: &Pieces, mut from: &[u8]) -> Result<(), Errno> {
    for index in 0..all.count {
        let part = all.part(memory, index)?;
        let to = piece(memory, part.at, part.length)?;
        let (now, rest) = from.split_at(to.len().min(from.len()));
        to.get_mut(..now.len()).ok_or(Errno::IO)?.copy_from_slice(now);
        from = rest;
    }
    Ok(())
}

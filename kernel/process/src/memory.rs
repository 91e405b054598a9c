//! The program's memory, as functions access it.
//!
//! An address is a 32-bit offset and need not be aligned. A range that is not completely inside the
//! memory fails with [`Errno::FAULT`].
//!
//! Contract: there is never a Rust reference to bytes that another thread may write.
//! - The memory of a program with one thread is a slice: during a call of that thread nothing else
//!   accesses it. Requests to services use it in place.
//! - The memory of a program with threads is a [`SharedMemory`]: bytes are copied out of it and
//!   into it. What a function has checked is its copy, which stays as it is. A request gets a
//!   buffer; only bytes that the request has filled are copied back, so what other threads write
//!   next to them is not lost.

use crate::errno::{Errno, Halt};
use abi::fs::STEP;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size of the buffer for two paths, or for gathered data. A pipe transfers this much atomically.
pub const SCRATCH: usize = 4096;

/// A thread's buffer for what cannot be used in place. Few programs need it, so it is allocated
/// when it is first used.
#[derive(Default)]
pub struct Scratch(Option<Box<[u8; SCRATCH]>>);

impl Scratch {
    /// Returns the buffer, with anything in it; [`Errno::NOMEM`] if it cannot be allocated.
    #[inline]
    pub(crate) fn room(&mut self) -> Result<&mut [u8; SCRATCH], Errno> {
        if self.0.is_none() {
            self.allocate()?;
        }
        self.0.as_deref_mut().ok_or(Errno::NOMEM)
    }

    #[cold]
    #[inline(never)]
    fn allocate(&mut self) -> Result<(), Errno> {
        let bytes = buffer(SCRATCH)?.into_boxed_slice();
        self.0 = Some(bytes.try_into().map_err(|_| Errno::NOMEM)?);
        Ok(())
    }
}

impl From<Box<[u8; SCRATCH]>> for Scratch {
    fn from(bytes: Box<[u8; SCRATCH]>) -> Scratch {
        Scratch(Some(bytes))
    }
}

/// Memory that several threads access at the same time.
pub trait SharedMemory {
    /// Returns its size in bytes, which never falls.
    fn size(&self) -> usize;

    /// Returns its address in the kernel.
    fn start(&self) -> u64;

    /// Makes sure that all pages of a range inside the memory are allocated. Returns false without
    /// memory. They stay, unless another thread ends a window there: then they are allocated again
    /// when they are accessed.
    fn touch(&self, at: usize, length: usize) -> bool;

    /// Copies bytes out of a range that has been touched.
    fn load(&self, at: usize, into: &mut [u8]);

    /// Copies bytes into a range that has been touched.
    fn store(&self, at: usize, from: &[u8]);
}

/// Bytes of the smallest page.
const PAGE: usize = 4096;

/// Loads a byte of each page of a range. A page of a program is there from its first access on.
#[inline]
pub(crate) fn load_pages(range: &[u8]) {
    let mut at = 0;
    while let Some(byte) = range.get(at) {
        core::hint::black_box(*byte);
        at += PAGE;
    }
    core::hint::black_box(range.last().copied());
}

/// The bytes of a program's memory.
pub enum Bytes<'a> {
    /// Only the caller accesses them meanwhile.
    Own(&'a mut [u8]),
    /// Other threads do, too.
    Shared(&'a dyn SharedMemory),
}

/// A program's memory, with the calling thread's buffer for what cannot be used in place.
pub struct GuestMemory<'a> {
    pub(crate) bytes: Bytes<'a>,
    pub(crate) scratch: &'a mut Scratch,
}

impl<'a> Deref for GuestMemory<'a> {
    type Target = Bytes<'a>;
    #[inline]
    fn deref(&self) -> &Bytes<'a> {
        &self.bytes
    }
}

impl DerefMut for GuestMemory<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.bytes
    }
}

/// Returns the bounds of a range in a memory of `size` bytes.
#[inline]
pub(crate) fn bounds(size: usize, at: u32, length: usize) -> Result<(usize, usize), Errno> {
    let at = at as usize;
    let end = at.checked_add(length).filter(|&end| end <= size).ok_or(Errno::FAULT)?;
    Ok((at, end))
}

impl Bytes<'_> {
    #[inline]
    fn size(&self) -> usize {
        match self {
            Bytes::Own(bytes) => bytes.len(),
            Bytes::Shared(memory) => memory.size(),
        }
    }

    /// Checks a range. Functions check the ranges of their results before they do anything that
    /// cannot be undone.
    #[inline]
    pub fn check(&self, at: u32, length: u32) -> Result<(), Errno> {
        bounds(self.size(), at, length as usize).map(|_| ())
    }

    /// Makes sure that a range has memory, so that no access to it fails while the caller owns what
    /// it has to give back. Without memory it fails, or the program ends here.
    pub fn touch(&self, at: u32, length: u32) -> Result<(), Errno> {
        let (from, to) = bounds(self.size(), at, length as usize)?;
        match self {
            Bytes::Own(bytes) => load_pages(bytes.get(from..to).ok_or(Errno::FAULT)?),
            Bytes::Shared(memory) if memory.touch(from, to - from) => {}
            Bytes::Shared(_) => return Err(Errno::NOMEM),
        }
        Ok(())
    }

    /// Copies a range to `into`.
    pub fn read(&self, at: u32, into: &mut [u8]) -> Result<(), Errno> {
        let (from, to) = bounds(self.size(), at, into.len())?;
        match self {
            Bytes::Own(bytes) => into.copy_from_slice(bytes.get(from..to).ok_or(Errno::FAULT)?),
            Bytes::Shared(memory) if memory.touch(from, to - from) => memory.load(from, into),
            Bytes::Shared(_) => return Err(Errno::NOMEM),
        }
        Ok(())
    }

    #[inline]
    pub fn load<T>(&self, at: u32) -> Result<T, Errno>
    where
        T: FromBytes + IntoBytes + KnownLayout + Immutable + Copy,
    {
        if let Bytes::Own(bytes) = self {
            let rest = bytes.get(at as usize..).ok_or(Errno::FAULT)?;
            let bytes = rest.get(..size_of::<T>()).ok_or(Errno::FAULT)?;
            return base::bytes::read(bytes).ok_or(Errno::FAULT);
        }
        let mut value = T::new_zeroed();
        self.read_apart(at, value.as_mut_bytes())?;
        Ok(value)
    }

    /// Does the same as [`Bytes::read`], out of line.
    #[inline(never)]
    fn read_apart(&self, at: u32, into: &mut [u8]) -> Result<(), Errno> {
        self.read(at, into)
    }

    pub fn store(&mut self, at: u32, from: &[u8]) -> Result<(), Errno> {
        let (start, end) = bounds(self.size(), at, from.len())?;
        match self {
            Bytes::Own(bytes) => {
                bytes.get_mut(start..end).ok_or(Errno::FAULT)?.copy_from_slice(from);
            }
            Bytes::Shared(memory) if memory.touch(start, end - start) => memory.store(start, from),
            Bytes::Shared(_) => return Err(Errno::NOMEM),
        }
        Ok(())
    }

    #[inline]
    pub fn store_u16(&mut self, at: u32, value: u16) -> Result<(), Errno> {
        self.store_value(at, value)
    }

    #[inline]
    pub fn store_u32(&mut self, at: u32, value: u32) -> Result<(), Errno> {
        self.store_value(at, value)
    }

    #[inline]
    pub fn store_u64(&mut self, at: u32, value: u64) -> Result<(), Errno> {
        self.store_value(at, value)
    }

    #[inline(always)]
    pub(crate) fn store_value<T>(&mut self, at: u32, value: T) -> Result<(), Errno>
    where
        T: FromBytes + IntoBytes + KnownLayout + Immutable + Copy,
    {
        if let Bytes::Own(bytes) = self {
            let rest = bytes.get_mut(at as usize..).ok_or(Errno::FAULT)?;
            let bytes = rest.get_mut(..size_of::<T>()).ok_or(Errno::FAULT)?;
            return base::bytes::write(bytes, value).ok_or(Errno::FAULT);
        }
        self.store_apart(at, value.as_bytes())
    }

    /// Does the same as [`Bytes::store`], out of line.
    #[inline(never)]
    fn store_apart(&mut self, at: u32, from: &[u8]) -> Result<(), Errno> {
        self.store(at, from)
    }

    /// Returns a range of at most `most` bytes that does not change any more: in place, or a copy.
    /// It is [touched](Bytes::touch). A longer one fails with [`Errno::TOOBIG`].
    pub fn view(&self, at: u32, length: u32, most: usize) -> Result<Cow<'_, [u8]>, Errno> {
        let (from, to) = bounds(self.size(), at, length as usize)?;
        if to - from > most {
            return Err(Errno::TOOBIG);
        }
        match self {
            Bytes::Own(bytes) => {
                let range = bytes.get(from..to).ok_or(Errno::FAULT)?;
                load_pages(range);
                Ok(Cow::Borrowed(range))
            }
            Bytes::Shared(_) => {
                let mut copy = buffer(to - from)?;
                self.read(at, &mut copy)?;
                Ok(Cow::Owned(copy))
            }
        }
    }
}

impl<'a> GuestMemory<'a> {
    #[inline]
    pub fn new(bytes: Bytes<'a>, scratch: &'a mut Scratch) -> GuestMemory<'a> {
        GuestMemory { bytes, scratch }
    }

    /// Calls `work` with the contents of a range, or of its first bytes. Changes by `work` have no
    /// effect, or change the range.
    #[inline]
    pub(crate) fn lend<R>(
        &mut self,
        at: u32,
        length: u32,
        work: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Errno> {
        let (from, to) = bounds(self.bytes.size(), at, length as usize)?;
        if let Bytes::Own(bytes) = &mut self.bytes {
            return Ok(work(bytes.get_mut(from..to).ok_or(Errno::FAULT)?));
        }
        let mut room = Room::of(self.scratch, to - from)?;
        self.bytes.read(at, room.bytes())?;
        Ok(work(room.bytes()))
    }

    /// Calls `work` to fill a range, or its first bytes, from the start on. `work` returns how many
    /// bytes it has filled.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        at: u32,
        length: u32,
        work: impl FnOnce(&mut [u8]) -> Result<u32, Halt>,
    ) -> Result<u32, Halt> {
        let (from, to) = bounds(self.bytes.size(), at, length as usize)?;
        if let Bytes::Own(bytes) = &mut self.bytes {
            return work(bytes.get_mut(from..to).ok_or(Errno::FAULT)?);
        }
        let mut room = Room::of(self.scratch, to - from)?;
        let room = room.bytes();
        // What the request has taken must not be lost for want of a page.
        self.bytes.touch(at, room.len() as u32)?;
        let filled = work(room)?;
        self.bytes.store(at, room.get(..filled as usize).ok_or(Errno::IO)?)?;
        Ok(filled)
    }
}

/// A buffer for one request.
enum Room<'a> {
    Scratch(&'a mut [u8]),
    Heap(Vec<u8>),
}

impl Room<'_> {
    /// Returns a buffer for as much of `length` bytes as one request uses; without memory for it, a
    /// smaller one.
    fn of(scratch: &mut Scratch, length: usize) -> Result<Room<'_>, Errno> {
        let length = length.min(STEP);
        if length > SCRATCH
            && let Ok(heap) = buffer(length)
        {
            return Ok(Room::Heap(heap));
        }
        Ok(Room::Scratch(&mut scratch.room()?[..length.min(SCRATCH)]))
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Room::Scratch(bytes) => bytes,
            Room::Heap(bytes) => bytes,
        }
    }
}

/// Returns zeroes.
fn buffer(length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Errno::NOMEM)?;
    bytes.resize(length, 0);
    Ok(bytes)
}

/// Returns the address of entry `index` in a table of `size`-byte entries.
pub fn entry(table: u32, index: u32, size: u32) -> Result<u32, Errno> {
    let offset = index.checked_mul(size).ok_or(Errno::FAULT)?;
    table.checked_add(offset).ok_or(Errno::FAULT)
}

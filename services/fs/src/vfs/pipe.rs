//! A pipe: a bounded queue of bytes with two ends.
//!
//! Contract: a write of at most [`ATOMIC`] bytes goes in whole or waits; a longer one may end
//! short. An empty pipe without writers is at its end; nobody writes to one without readers.

use abi::fs::{Errno, Stat, kind};
use alloc::collections::VecDeque;

/// Bytes that a pipe holds.
pub const CAPACITY: usize = 16 * 1024;
/// Most bytes that go in whole.
pub const ATOMIC: usize = 4096;
/// Most ends in a pipe that goes on.
const ENDS: usize = 8;
/// Most pipes.
pub const PIPES: u32 = 256;

/// The pipe.
#[derive(Debug)]
pub struct Pipe {
    data: VecDeque<u8>,
    /// Ends that are read once each: how many bytes are before each, behind the one before.
    ends: VecDeque<usize>,
    /// Somebody can read.
    pub reader: bool,
    /// Somebody can write.
    pub writer: bool,
}

impl Pipe {
    /// An empty one, both ends open.
    pub fn open() -> Pipe {
        Pipe { data: VecDeque::new(), ends: VecDeque::new(), reader: true, writer: true }
    }

    /// Bytes in it.
    pub fn held(&self) -> usize {
        self.data.len()
    }

    /// What is known about it.
    pub fn stat(&self) -> Stat {
        Stat { kind: kind::PIPE, links: 1, size: self.held() as u64, ..Stat::default() }
    }

    /// Bytes that still go in.
    pub fn room(&self) -> usize {
        CAPACITY - self.data.len()
    }

    /// What is in it, which stays.
    pub fn all(&mut self) -> &mut [u8] {
        self.data.make_contiguous()
    }

    /// Takes bytes out; `None` when it has to wait.
    pub fn read(&mut self, into: &mut [u8]) -> Option<usize> {
        let before = self.ends.front().copied().unwrap_or(usize::MAX);
        if before == 0 && !into.is_empty() {
            self.ends.pop_front();
            return Some(0);
        }
        if self.data.is_empty() && !into.is_empty() {
            return if self.writer { None } else { Some(0) };
        }
        let length = into.len().min(self.data.len()).min(before);
        if let Some(before) = self.ends.front_mut() {
            *before -= length;
        }
        let (first, second) = self.data.as_slices();
        let cut = first.len().min(length);
        into[..cut].copy_from_slice(&first[..cut]);
        if cut < length {
            into[cut..length].copy_from_slice(&second[..length - cut]);
        }
        self.data.drain(..length);
        Some(length)
    }

    /// May a write of so many bytes be the answer to a read that waits alone, and takes `room`?
    pub fn is_answer(&self, length: usize, room: usize) -> bool {
        self.reader && !self.readable() && (1..=room).contains(&length)
    }

    /// Puts bytes in; `None` when it has to wait.
    pub fn write(&mut self, from: &[u8]) -> Result<Option<usize>, Errno> {
        if !self.reader {
            return Err(Errno::Pipe);
        }
        if self.must_wait(from.len()) {
            return Ok(None);
        }
        let length = from.len().min(self.room());
        self.reserve(length)?;
        self.data.extend(&from[..length]);
        Ok(Some(length))
    }

    /// Room for so many more, in one of two sizes: what all pipes may take is counted elsewhere.
    #[inline]
    fn reserve(&mut self, more: usize) -> Result<(), Errno> {
        let wanted = self.data.len() + more;
        if wanted <= self.data.capacity() {
            return Ok(());
        }
        let size = if wanted <= ATOMIC { ATOMIC } else { CAPACITY };
        self.data.try_reserve_exact(size - self.data.len()).map_err(|_| Errno::Nomem)
    }

    fn must_wait(&self, length: usize) -> bool {
        if length <= ATOMIC { length > self.room() } else { self.room() == 0 }
    }

    /// Whoever reads finds an end behind what is in it now. More than a few are one.
    pub fn mark_end(&mut self) {
        let before = self.data.len() - self.ends.iter().sum::<usize>();
        if self.ends.len() < ENDS && self.ends.try_reserve(1).is_ok() {
            self.ends.push_back(before);
        }
    }

    /// Would a read not wait?
    pub fn readable(&self) -> bool {
        !self.data.is_empty() || !self.ends.is_empty() || !self.writer
    }

    /// Would a write of [`ATOMIC`] bytes not wait?
    pub fn writable(&self) -> bool {
        self.room() >= ATOMIC || !self.reader
    }
}

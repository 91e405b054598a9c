//! A pipe: a bounded queue of bytes with two ends.
//!
//! Contract: a write of at most [`ATOMIC`] bytes is done whole or waits; a longer one may be short.
//! Without writers, reading an empty pipe returns 0. Without readers, writing fails.

use abi::fs::{Errno, Stat, kind};
pub use abi::quota::PIPES;
use alloc::collections::VecDeque;

/// Maximum number of bytes in a pipe.
pub const CAPACITY: usize = 16 * 1024;
/// Maximum number of bytes that a write moves atomically.
pub const ATOMIC: usize = 4096;
/// Maximum number of end marks in a pipe.
const ENDS: usize = 8;

#[derive(Debug)]
pub struct Pipe {
    data: VecDeque<u8>,
    /// End marks, each read once as an end of file. A mark is stored as the number of bytes between
    /// the mark before it, or the start of the contents, and itself.
    ends: VecDeque<usize>,
    /// Whether a read end is open.
    pub reader: bool,
    /// Whether a write end is open.
    pub writer: bool,
    /// The account that it is charged to; 0: the system's.
    pub account: u32,
}

impl Pipe {
    /// Creates an empty pipe with both ends open.
    pub fn open() -> Pipe {
        Pipe::charged_to(0)
    }

    /// Creates one that is charged to an account.
    pub fn charged_to(account: u32) -> Pipe {
        let (data, ends) = (VecDeque::new(), VecDeque::new());
        Pipe { data, ends, reader: true, writer: true, account }
    }

    /// Returns the number of bytes in the pipe.
    pub fn held(&self) -> usize {
        self.data.len()
    }

    /// Returns its metadata.
    pub fn stat(&self) -> Stat {
        Stat { kind: kind::PIPE, links: 1, size: self.held() as u64, ..Stat::default() }
    }

    /// Returns how many bytes it has room for.
    pub fn room(&self) -> usize {
        CAPACITY - self.data.len()
    }

    /// Returns its contents, without consuming them.
    pub fn all(&mut self) -> &mut [u8] {
        self.data.make_contiguous()
    }

    /// Consumes bytes; `None` if the reader must wait.
    #[inline]
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

    /// Drops bytes that were taken from [`Pipe::all`]. For a pipe without end marks.
    pub fn skip(&mut self, count: usize) {
        debug_assert!(self.ends.is_empty());
        self.data.drain(..count.min(self.data.len()));
    }

    /// Returns whether a write of `length` bytes can go directly to the only waiting reader, which
    /// takes `room` bytes.
    pub fn is_answer(&self, length: usize, room: usize) -> bool {
        self.reader && !self.readable() && (1..=room).contains(&length)
    }

    /// Adds bytes; `None` if the writer must wait.
    #[inline]
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

    /// Reserves memory for `more` bytes, in one of two sizes. The total of all pipes is bounded
    /// elsewhere.
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

    /// Adds an end mark after the current contents: a reader gets 0 bytes there, once. Dropped if
    /// there are `ENDS` already.
    pub fn mark_end(&mut self) {
        let before = self.data.len() - self.ends.iter().sum::<usize>();
        if self.ends.len() < ENDS && self.ends.try_reserve(1).is_ok() {
            self.ends.push_back(before);
        }
    }

    /// Returns whether a read would not wait.
    pub fn readable(&self) -> bool {
        !self.data.is_empty() || !self.ends.is_empty() || !self.writer
    }

    /// Returns whether a write of [`ATOMIC`] bytes would not wait.
    pub fn writable(&self) -> bool {
        self.room() >= ATOMIC || !self.reader
    }
}

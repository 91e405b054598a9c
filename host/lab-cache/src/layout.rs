//! Layout of the state. All processes that share a state agree on it:
//!
//! ```text
//!   header (8 words) | chunks: 1 word each | lines: 1 word each | writers' pcs | readers' pcs
//! ```
//! A chunk's word records which domains have left a mark on any of its lines, so that a sweep skips
//! untouched memory. The sections are separate because the common access reads only the line's
//! word. Untouched words are 0: a fresh sparse file is an empty state.
//!
//! All accesses are relaxed. A model's events are serialized, and the turn or the lock orders those
//! of different processes. A glance reads a line's word at any time.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::line::Line;
use crate::party::Domain;

/// Bytes of a cache line.
pub const LINE: u64 = 64;
/// Bytes of RAM that share a chunk word.
pub const CHUNK: u64 = 16 << 10;

const HEADER: usize = 8;
const LINES_A_CHUNK: usize = (CHUNK / LINE) as usize;
/// In a chunk's word, in addition to the domains' bits: some line of it has ever been other than 0.
pub const USED: u64 = 1 << Domain::LIMIT;
/// "PENCACH1", little endian.
const MAGIC: u64 = u64::from_le_bytes(*b"PENCACH1");

/// Returns the number of words for the state of `bytes` bytes of RAM (about 3/8 of them, sparse).
pub const fn words_for(bytes: u64) -> usize {
    HEADER + chunks_of(bytes) + 3 * lines_of(bytes)
}

const fn lines_of(bytes: u64) -> usize {
    bytes.div_ceil(LINE) as usize
}

const fn chunks_of(bytes: u64) -> usize {
    bytes.div_ceil(CHUNK) as usize
}

/// Why the words are not a state of this RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// Too few words.
    Short {
        /// Words given.
        given: usize,
        /// Words needed.
        needed: usize,
    },
    /// RAM does not begin at a cache line.
    Unaligned {
        /// The base address.
        base: u64,
    },
    /// They hold the state of a different RAM, or other data.
    Foreign,
}

impl core::fmt::Display for AttachError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Short { given, needed } => {
                write!(f, "the cache state has {given} words, this RAM needs {needed}")
            }
            Self::Unaligned { base } => write!(f, "RAM at {base:#x} does not begin at a line"),
            Self::Foreign => write!(f, "the words hold no cache state, or that of another RAM"),
        }
    }
}

impl core::error::Error for AttachError {}

/// The sections of a state.
#[derive(Clone, Copy)]
pub struct Layout<'a> {
    /// Physical address of the first byte.
    pub base: u64,
    /// Bytes of RAM.
    pub bytes: u64,
    chunks: &'a [AtomicU64],
    lines: &'a [AtomicU64],
    writers: &'a [AtomicU64],
    readers: &'a [AtomicU64],
}

impl<'a> Layout<'a> {
    /// Creates the layout over `words`. If they are all 0, writes the header.
    pub fn attach(words: &'a [AtomicU64], base: u64, bytes: u64) -> Result<Self, AttachError> {
        let needed = words_for(bytes);
        if words.len() < needed {
            return Err(AttachError::Short { given: words.len(), needed });
        }
        if !base.is_multiple_of(LINE) {
            return Err(AttachError::Unaligned { base });
        }
        let (header, rest) = words.split_at(HEADER);
        let wanted = [MAGIC, base, bytes];
        let found = [0, 1, 2].map(|at: usize| header[at].load(Relaxed));
        if found == [0; 3] {
            for (word, value) in header.iter().zip(wanted) {
                word.store(value, Relaxed);
            }
        } else if found != wanted {
            return Err(AttachError::Foreign);
        }
        let (chunks, rest) = rest.split_at(chunks_of(bytes));
        let (lines, rest) = rest.split_at(lines_of(bytes));
        let (writers, rest) = rest.split_at(lines_of(bytes));
        let readers = &rest[..lines_of(bytes)];
        Ok(Layout { base, bytes, chunks, lines, writers, readers })
    }

    /// Returns the state of the line of an access within one line of RAM: the fast path.
    #[inline]
    pub fn only_line(&self, pa: u64, len: u64) -> Option<Line> {
        let offset = pa.wrapping_sub(self.base);
        let within = (offset % LINE).saturating_add(len) <= LINE;
        let word = self.lines.get((offset / LINE) as usize).filter(|_| within)?;
        Some(Line(word.load(Relaxed)))
    }

    /// Returns the first and the last line of an access that begins in RAM; the part beyond RAM is
    /// ignored.
    pub fn span(&self, pa: u64, len: u64) -> Option<(usize, usize)> {
        let offset = pa.wrapping_sub(self.base);
        if offset >= self.bytes || len == 0 {
            return None;
        }
        let last = offset.saturating_add(len - 1).min(self.bytes - 1);
        Some(((offset / LINE) as usize, (last / LINE) as usize))
    }

    /// Returns the physical address of a line.
    pub fn address(&self, line: usize) -> u64 {
        self.base + line as u64 * LINE
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Returns the state of a line.
    pub fn line(&self, line: usize) -> Line {
        Line(self.lines[line].load(Relaxed))
    }

    /// Sets the state of a line.
    pub fn set_line(&self, line: usize, to: Line) {
        self.lines[line].store(to.0, Relaxed);
    }

    /// Returns the pc of the write of the newest value.
    pub fn writer_pc(&self, line: usize) -> u64 {
        self.writers[line].load(Relaxed)
    }

    /// Sets that pc.
    pub fn set_writer_pc(&self, line: usize, pc: u64) {
        self.writers[line].store(pc, Relaxed);
    }

    /// Returns the pc of the read that last brought the line into a cache.
    pub fn reader_pc(&self, line: usize) -> u64 {
        self.readers[line].load(Relaxed)
    }

    /// Sets that pc.
    pub fn set_reader_pc(&self, line: usize, pc: u64) {
        self.readers[line].store(pc, Relaxed);
    }

    /// Records that the domains of `set` have a mark on `line`.
    pub fn mark(&self, line: usize, set: u64) {
        let chunk = &self.chunks[line / LINES_A_CHUNK];
        let before = chunk.load(Relaxed);
        let after = before | set | USED;
        if after != before {
            chunk.store(after, Relaxed);
        }
    }

    /// Returns the first line, from `line` on, whose chunk has a mark of a domain of `set`.
    pub fn next_marked(&self, line: usize, set: u64) -> Option<usize> {
        let first = line / LINES_A_CHUNK;
        let rest = self.chunks.get(first..)?;
        let skipped = rest.iter().position(|chunk| chunk.load(Relaxed) & set != 0)?;
        Some(line.max((first + skipped) * LINES_A_CHUNK)).filter(|next| *next < self.lines())
    }
}

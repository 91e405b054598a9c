//! Where the words of the state lie. All processes that share a state agree on this:
//!
//! ```text
//!   header (8 words) | chunks: 1 word each | lines: 1 word each | writers' pcs | readers' pcs
//! ```
//! A chunk's word says which domains have left a mark on any of its lines, so that a sweep passes
//! over memory nobody touched. Sections are apart because the common access looks at the line's
//! word only. Untouched words are 0: a fresh sparse file is an empty state.
//!
//! All accesses are relaxed: of a model's events there is one at a time, and whoever hands over the
//! turn or the lock orders them. A glance reads a line's word whenever it likes.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::line::Line;
use crate::party::Domain;

/// Bytes of a cache line.
pub const LINE: u64 = 64;
/// Bytes of RAM that share a word of the sweep's map.
pub const CHUNK: u64 = 16 << 10;

const HEADER: usize = 8;
const LINES_A_CHUNK: usize = (CHUNK / LINE) as usize;
/// Beside the domains' bits in a chunk's word: some line of it has ever been other than 0.
pub const USED: u64 = 1 << Domain::LIMIT;
/// "PENCACH1" as it lies in memory.
const MAGIC: u64 = u64::from_le_bytes(*b"PENCACH1");

/// Words that the state of `bytes` bytes of RAM takes (about 3/8 of them, sparse).
pub const fn words_for(bytes: u64) -> usize {
    HEADER + chunks_of(bytes) + 3 * lines_of(bytes)
}

const fn lines_of(bytes: u64) -> usize {
    bytes.div_ceil(LINE) as usize
}

const fn chunks_of(bytes: u64) -> usize {
    bytes.div_ceil(CHUNK) as usize
}

/// The words are not a state of this RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// Too few words.
    Short {
        /// How many there are.
        given: usize,
        /// How many it takes.
        needed: usize,
    },
    /// RAM does not begin at a line's first byte.
    Unaligned {
        /// Where it begins.
        base: u64,
    },
    /// They hold another RAM's state, or something else.
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
    /// Over `words`; the first to come writes the header into words that are all 0.
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

    /// What is known of the line of an access that lies in one line of RAM: the quick way.
    #[inline]
    pub fn only_line(&self, pa: u64, len: u64) -> Option<Line> {
        let offset = pa.wrapping_sub(self.base);
        let within = (offset % LINE).saturating_add(len) <= LINE;
        let word = self.lines.get((offset / LINE) as usize).filter(|_| within)?;
        Some(Line(word.load(Relaxed)))
    }

    /// First and last line of an access that begins in RAM; what lies behind RAM is left out.
    pub fn span(&self, pa: u64, len: u64) -> Option<(usize, usize)> {
        let offset = pa.wrapping_sub(self.base);
        if offset >= self.bytes || len == 0 {
            return None;
        }
        let last = offset.saturating_add(len - 1).min(self.bytes - 1);
        Some(((offset / LINE) as usize, (last / LINE) as usize))
    }

    /// Physical address of a line.
    pub fn address(&self, line: usize) -> u64 {
        self.base + line as u64 * LINE
    }

    /// How many lines there are.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// What is known of a line.
    pub fn line(&self, line: usize) -> Line {
        Line(self.lines[line].load(Relaxed))
    }

    /// Changes it.
    pub fn set_line(&self, line: usize, to: Line) {
        self.lines[line].store(to.0, Relaxed);
    }

    /// The pc of the newest value's write.
    pub fn writer_pc(&self, line: usize) -> u64 {
        self.writers[line].load(Relaxed)
    }

    /// Changes it.
    pub fn set_writer_pc(&self, line: usize, pc: u64) {
        self.writers[line].store(pc, Relaxed);
    }

    /// The pc of the read that last brought the line into a cache.
    pub fn reader_pc(&self, line: usize) -> u64 {
        self.readers[line].load(Relaxed)
    }

    /// Changes it.
    pub fn set_reader_pc(&self, line: usize, pc: u64) {
        self.readers[line].store(pc, Relaxed);
    }

    /// Remembers that the domains of `set` have a mark on `line`.
    pub fn mark(&self, line: usize, set: u64) {
        let chunk = &self.chunks[line / LINES_A_CHUNK];
        let before = chunk.load(Relaxed);
        let after = before | set | USED;
        if after != before {
            chunk.store(after, Relaxed);
        }
    }

    /// The first line from `line` on whose chunk bears a mark of a domain of `set`.
    pub fn next_marked(&self, line: usize, set: u64) -> Option<usize> {
        let first = line / LINES_A_CHUNK;
        let rest = self.chunks.get(first..)?;
        let skipped = rest.iter().position(|chunk| chunk.load(Relaxed) & set != 0)?;
        Some(line.max((first + skipped) * LINES_A_CHUNK)).filter(|next| *next < self.lines())
    }
}

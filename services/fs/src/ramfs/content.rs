//! The bytes of a file: a map of chunks with holes between them.
//!
//! Contract: a hole reads as zeros and takes no memory. There is no chunk after `size`, and the
//! last one holds zeros after it.

use super::memory::{CHUNK, Chunk, Chunks, Memory};
use abi::fs::Errno;
use alloc::collections::btree_map::Entry;

/// Maximum size of a file.
pub const LARGEST: u64 = i64::MAX as u64;

#[derive(Debug, Default)]
pub struct Content {
    chunks: Chunks,
    size: u64,
}

impl Content {
    /// Returns the size, holes included.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads at `offset`. Returns the number of bytes read.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let length = clamp(self.size.saturating_sub(offset), into.len());
        let mut done = 0;
        while done < length {
            let (index, at) = place(offset + done as u64);
            let part = (CHUNK - at).min(length - done);
            let piece = &mut into[done..done + part];
            match self.chunks.get(&index) {
                Some(chunk) => piece.copy_from_slice(&chunk[at..at + part]),
                None => piece.fill(0),
            }
            done += part;
        }
        length
    }

    /// Writes at `offset`. Returns fewer bytes than given when space runs out, an error if there is
    /// none.
    #[inline]
    pub fn write(&mut self, offset: u64, from: &[u8], memory: &mut Memory) -> Result<usize, Errno> {
        match self.write_in_chunk(offset, from) {
            Some(()) => Ok(from.len()),
            None => self.write_any(offset, from, memory),
        }
    }

    /// Writes within a chunk, if there is one.
    #[inline]
    fn write_in_chunk(&mut self, offset: u64, from: &[u8]) -> Option<()> {
        let end = offset.checked_add(from.len() as u64).filter(|&end| end <= LARGEST)?;
        let (index, at) = place(offset);
        if !(1..=CHUNK - at).contains(&from.len()) {
            return None;
        }
        self.chunks.get_mut(&index)?[at..at + from.len()].copy_from_slice(from);
        self.size = self.size.max(end);
        Some(())
    }

    #[inline(never)]
    fn write_any(&mut self, offset: u64, from: &[u8], memory: &mut Memory) -> Result<usize, Errno> {
        let length = clamp(LARGEST.saturating_sub(offset), from.len());
        if length == 0 {
            return if from.is_empty() { Ok(0) } else { Err(Errno::Fbig) };
        }
        let mut done = 0;
        while done < length {
            let (index, at) = place(offset + done as u64);
            let part = (CHUNK - at).min(length - done);
            let chunk = match self.ensure(index, memory) {
                Ok(chunk) => chunk,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            };
            chunk[at..at + part].copy_from_slice(&from[done..done + part]);
            done += part;
        }
        self.size = self.size.max(offset + done as u64);
        Ok(done)
    }

    /// Returns a chunk, which is of zeros if there was a hole.
    #[inline]
    fn ensure(&mut self, index: u64, memory: &mut Memory) -> Result<&mut Chunk, Errno> {
        match self.chunks.entry(index) {
            Entry::Occupied(chunk) => Ok(chunk.into_mut()),
            Entry::Vacant(hole) => Ok(hole.insert(memory.chunk()?)),
        }
    }

    pub fn set_size(&mut self, size: u64, memory: &mut Memory) -> Result<(), Errno> {
        if size > LARGEST {
            return Err(Errno::Fbig);
        }
        if size < self.size {
            memory.bury(self.chunks.split_off(&size.div_ceil(CHUNK as u64)));
            let (index, at) = place(size);
            if let Some(chunk) = self.chunks.get_mut(&index) {
                chunk[at..].fill(0);
            }
        }
        self.size = size;
        Ok(())
    }

    /// Fills holes from `offset` on with chunks, at most `most` bytes. Returns how many bytes of
    /// the range are reserved.
    pub fn reserve(
        &mut self,
        offset: u64,
        length: u64,
        most: u64,
        memory: &mut Memory,
    ) -> Result<u64, Errno> {
        if offset.checked_add(length).is_none_or(|end| end > LARGEST) {
            return Err(Errno::Fbig);
        }
        let length = length.min(most);
        let mut done = 0;
        while done < length {
            let (index, at) = place(offset + done);
            match self.ensure(index, memory) {
                Ok(_) => done += ((CHUNK - at) as u64).min(length - done),
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        self.size = self.size.max(offset + done);
        Ok(done)
    }

    /// Discards all contents.
    pub fn bury(&mut self, memory: &mut Memory) {
        memory.bury(core::mem::take(&mut self.chunks));
        self.size = 0;
    }
}

/// Returns the index of the chunk, and the offset in it.
fn place(offset: u64) -> (u64, usize) {
    (offset / CHUNK as u64, (offset % CHUNK as u64) as usize)
}

fn clamp(there: u64, wanted: usize) -> usize {
    usize::try_from(there).unwrap_or(usize::MAX).min(wanted)
}

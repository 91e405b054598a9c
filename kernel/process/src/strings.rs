//! Strings in one block, as a program gets its arguments and its environment.

use crate::errno::{Done, Errno};
use crate::memory::{GuestMemory, entry};
use abi::program::{ARGUMENTS, IMAGE_STRINGS};
use alloc::vec::Vec;

/// Strings in one block, each NUL terminated.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    count: u32,
}

/// Returns whether two variables have the same name.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let name = |text: &[u8]| text.iter().position(|byte| *byte == b'=');
    name(one).is_some_and(|end| name(other) == Some(end) && one[..end] == other[..end])
}

impl Strings {
    /// Appends strings.
    pub fn add(&mut self, block: &[u8]) -> Result<(), Errno> {
        if !is_block(block) {
            return Err(Errno::INVAL);
        }
        // The limit of the start data's strings, and that of a manifest's.
        if self.bytes.len().saturating_add(block.len()) > ARGUMENTS + IMAGE_STRINGS {
            return Err(Errno::TOOBIG);
        }
        self.bytes.try_reserve(block.len()).map_err(|_| Errno::NOMEM)?;
        self.bytes.extend_from_slice(block);
        self.count += strings(block).count() as u32;
        Ok(())
    }

    /// Returns the block.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns whether there is a variable of the same name (the part before `=`).
    pub fn names(&self, one: &[u8]) -> bool {
        strings(&self.bytes).any(|other| is_same(other, one))
    }

    /// Removes the variables of the same name.
    pub fn remove(&mut self, one: &[u8]) {
        let mut at = 0;
        while at < self.bytes.len() {
            // Each ends with a NUL.
            let length = strings(&self.bytes[at..]).next().map_or(0, <[u8]>::len) + 1;
            let end = (at + length).min(self.bytes.len());
            if is_same(&self.bytes[at..end], one) {
                self.bytes.drain(at..end);
                self.count -= 1;
            } else {
                at = end;
            }
        }
    }

    pub fn sizes(&self, memory: &mut GuestMemory<'_>, count: u32, bytes: u32) -> Done {
        memory.check(bytes, 4)?;
        memory.store_u32(count, self.count)?;
        memory.store_u32(bytes, self.bytes.len() as u32)?;
        Ok(())
    }

    /// Stores the strings at `buffer` and their addresses at `table`.
    pub fn get(&self, memory: &mut GuestMemory<'_>, table: u32, buffer: u32) -> Done {
        memory.check(table, entry(0, self.count, 4)?)?;
        memory.store(buffer, &self.bytes)?;
        let mut at = buffer;
        for (index, one) in (0..).zip(strings(&self.bytes)) {
            memory.store_u32(entry(table, index, 4)?, at)?;
            at = at.saturating_add(one.len() as u32 + 1);
        }
        Ok(())
    }
}

/// Splits a block into its strings, without the NULs.
pub fn strings(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    block.split_inclusive(|byte| *byte == 0).map(|one| one.strip_suffix(&[0]).unwrap_or(one))
}

/// Returns whether every string of a block is NUL terminated.
pub fn is_block(block: &[u8]) -> bool {
    block.last().is_none_or(|last| *last == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_removed_by_their_names() {
        let mut some = Strings::default();
        some.add(b"A=1\0AB=2\0A=3\0B\0").unwrap();
        some.remove(b"A=9\0");
        assert_eq!((some.bytes(), some.count), (&b"AB=2\0B\0"[..], 2));
        some.remove(b"B=\0");
        some.remove(b"AB=\0");
        assert_eq!((some.bytes(), some.count), (&b"B\0"[..], 1));
        Strings::default().remove(b"A=\0");
    }
}

//! The entries in one block of a directory.
//!
//! Contract: an entry never moves, so its offset in the directory is its cookie. Entries must cover
//! the block without gaps; otherwise every operation on the block fails.

use super::layout::{get16, get32, put16, put32};
use abi::fs::Errno;

/// Bytes before the name.
const HEAD: usize = 8;

/// An entry; unused if its inode is 0.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub at: usize,
    pub length: usize,
    pub inode: u32,
    pub code: u8,
    pub name: &'a [u8],
}

impl Raw<'_> {
    /// Returns how many of its bytes are unused.
    fn gap(&self) -> usize {
        if self.inode == 0 { self.length } else { self.length - needed(self.name.len()) }
    }

    /// Returns whether it is `.` or `..`.
    pub fn is_dots(&self) -> bool {
        self.name == b"." || self.name == b".."
    }
}

/// Returns the size of an entry with a name of this length.
pub fn needed(name: usize) -> usize {
    (HEAD + name).next_multiple_of(4)
}

/// An iterator over all entries, unused ones too.
pub struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
}

pub fn entries(bytes: &[u8]) -> Entries<'_> {
    Entries { bytes, at: 0 }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Raw<'a>, Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let entry = entry(self.bytes, self.at);
        self.at = entry.as_ref().map_or(self.bytes.len(), |entry| entry.at + entry.length);
        Some(entry)
    }
}

/// Returns the entry at an offset.
pub fn entry(bytes: &[u8], at: usize) -> Result<Raw<'_>, Errno> {
    let rest = bytes.get(at..).ok_or(Errno::Io)?;
    let (length, name) = (usize::from(get16(rest, 4)), rest.get(6).copied().ok_or(Errno::Io)?);
    let name = usize::from(name);
    let sound = length >= HEAD + 4
        && length.is_multiple_of(4)
        && length <= rest.len()
        && needed(name) <= length;
    if !sound {
        return Err(Errno::Io);
    }
    let (inode, code) = (get32(rest, 0), rest.get(7).copied().unwrap_or(0));
    let name = rest.get(HEAD..HEAD + name).ok_or(Errno::Io)?;
    Ok(Raw { at, length, inode, code, name })
}

/// Returns the size of the largest unused space.
pub fn room(bytes: &[u8]) -> Result<u16, Errno> {
    let mut most = 0;
    for entry in entries(bytes) {
        most = most.max(entry?.gap());
    }
    Ok(most as u16)
}

/// Adds an entry where there is space. Returns its offset.
pub fn insert(bytes: &mut [u8], name: &[u8], inode: u32, code: u8) -> Result<usize, Errno> {
    let wanted = needed(name.len());
    let mut place = None;
    for entry in entries(bytes) {
        let entry = entry?;
        if entry.gap() >= wanted {
            place = Some((entry.at, entry.length, entry.gap()));
            break;
        }
    }
    let (at, length, gap) = place.ok_or(Errno::Io)?;
    let to = at + length - gap;
    if to != at {
        put16(bytes, at + 4, (length - gap) as u16);
    }
    write(bytes, to, gap, name, inode, code);
    Ok(to)
}

/// Writes an entry of `length` bytes.
pub fn write(bytes: &mut [u8], at: usize, length: usize, name: &[u8], inode: u32, code: u8) {
    let Some(rest) = bytes.get_mut(at..) else { return };
    put32(rest, 0, inode);
    put16(rest, 4, length as u16);
    if let Some(place) = rest.get_mut(6..HEAD) {
        place.copy_from_slice(&[name.len() as u8, code]);
    }
    if let Some(place) = rest.get_mut(HEAD..HEAD + name.len()) {
        place.copy_from_slice(name);
    }
}

/// Makes an entry unused, and part of the one before it if there is one.
pub fn remove(bytes: &mut [u8], at: usize) -> Result<(), Errno> {
    let gone = entry(bytes, at)?.length;
    let mut before = None;
    for entry in entries(bytes) {
        let entry = entry?;
        if entry.at >= at {
            break;
        }
        before = Some((entry.at, entry.length));
    }
    put32(bytes, at, 0);
    if let Some((place, length)) = before {
        put16(bytes, place + 4, (length + gone) as u16);
    }
    Ok(())
}

/// Makes an entry refer to another inode.
pub fn replace(bytes: &mut [u8], at: usize, inode: u32, code: u8) {
    put32(bytes, at, inode);
    if let Some(place) = bytes.get_mut(at + 7) {
        *place = code;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::collections::BTreeMap;

    #[test]
    fn entries_do_not_move_during_random_changes() {
        let mut random = Prng::new(3);
        let (mut block, mut there) = (vec![0; 1024], BTreeMap::new());
        write(&mut block, 0, 1024, b"", 0, 0);
        for step in 1..20_000u32 {
            let name = vec![b'a' + random.below(26) as u8; 1 + random.below(40) as usize];
            if usize::from(room(&block).unwrap()) >= needed(name.len()) && random.chance(1, 2) {
                let at = insert(&mut block, &name, step, 1).unwrap();
                assert!(there.insert(at, (step, name)).is_none());
            } else if let Some(at) =
                there.keys().nth(random.below(there.len().max(1) as u64) as usize)
            {
                let at = *at;
                remove(&mut block, at).unwrap();
                there.remove(&at);
            }
            let all = entries(&block).map(Result::unwrap).filter(|e| e.inode != 0);
            let found: Vec<_> = all.map(|e| (e.at, (e.inode, e.name.to_vec()))).collect();
            assert_eq!(found, there.clone().into_iter().collect::<Vec<_>>());
        }
    }
}

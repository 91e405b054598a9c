//! Inodes: reading them from the table, and writing them.
//!
//! Contract: unknown fields keep their contents. An inode without links on the device, or of an
//! unsupported type, is an error.

use super::cache::Class;
use super::layout::{at, get16, get32, put16, put32};
use super::{Ext2, Result};
use crate::filesystem::Kind;
use abi::fs::Errno;

const SECOND: u64 = 1_000_000_000;
/// The text of a link is in the inode itself if it is shorter than this.
pub const FAST: u64 = 60;

/// The fields of an inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inode {
    pub mode: u16,
    pub links: u16,
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub sectors: u32,
    pub flags: u32,
    pub pointers: [u32; 15],
    pub attributes: u32,
    pub accessed: u64,
    pub modified: u64,
    pub changed: u64,
    /// In seconds.
    pub died: u32,
    pub generation: u32,
}

impl Inode {
    /// Creates an inode of a new file.
    pub fn new(kind: Kind, now: u64) -> Inode {
        let mode = match kind {
            Kind::Directory => 0x4000 | 0o755,
            Kind::File => 0x8000 | 0o644,
            Kind::Link => 0xa000 | 0o777,
            Kind::Character => 0x2000 | 0o666,
        };
        Inode { mode, links: 1, accessed: now, modified: now, changed: now, ..Inode::default() }
    }

    pub fn kind(&self) -> Result<Kind> {
        match self.mode & 0xf000 {
            0x4000 => Ok(Kind::Directory),
            0x8000 => Ok(Kind::File),
            0xa000 => Ok(Kind::Link),
            _ => Err(Errno::Notsup.into()),
        }
    }

    pub fn is_directory(&self) -> bool {
        self.mode & 0xf000 == 0x4000
    }

    /// Returns whether its pointers are block pointers. For devices, pipes and short links they are
    /// not.
    pub fn has_blocks(&self) -> bool {
        match self.kind() {
            Ok(Kind::Link) => self.size >= FAST,
            other => other.is_ok(),
        }
    }

    pub fn touch(&mut self, now: u64) {
        (self.modified, self.changed) = (now, now);
    }

    fn read(bytes: &[u8]) -> Inode {
        let mode = get16(bytes, at::MODE);
        let high = if mode & 0xf000 == 0x8000 { get32(bytes, at::SIZE_HIGH) } else { 0 };
        let mut pointers = [0; 15];
        for (number, pointer) in pointers.iter_mut().enumerate() {
            *pointer = get32(bytes, at::POINTERS + 4 * number);
        }
        Inode {
            mode,
            links: get16(bytes, at::LINKS),
            size: u64::from(high) << 32 | u64::from(get32(bytes, at::SIZE)),
            sectors: get32(bytes, at::SECTORS),
            flags: get32(bytes, at::FLAGS),
            pointers,
            attributes: get32(bytes, at::ATTRIBUTES),
            accessed: time(bytes, at::ATIME, at::ATIME_EXTRA),
            modified: time(bytes, at::MTIME, at::MTIME_EXTRA),
            changed: time(bytes, at::CTIME, at::CTIME_EXTRA),
            died: get32(bytes, at::DTIME),
            generation: get32(bytes, at::GENERATION),
        }
    }

    fn write(&self, bytes: &mut [u8]) {
        put16(bytes, at::MODE, self.mode);
        put16(bytes, at::LINKS, self.links);
        put32(bytes, at::SIZE, self.size as u32);
        if self.mode & 0xf000 == 0x8000 {
            put32(bytes, at::SIZE_HIGH, (self.size >> 32) as u32);
        }
        put32(bytes, at::SECTORS, self.sectors);
        put32(bytes, at::FLAGS, self.flags);
        for (number, pointer) in self.pointers.iter().enumerate() {
            put32(bytes, at::POINTERS + 4 * number, *pointer);
        }
        put32(bytes, at::ATTRIBUTES, self.attributes);
        put_time(bytes, at::ATIME, at::ATIME_EXTRA, self.accessed);
        put_time(bytes, at::MTIME, at::MTIME_EXTRA, self.modified);
        put_time(bytes, at::CTIME, at::CTIME_EXTRA, self.changed);
        put32(bytes, at::DTIME, self.died);
        put32(bytes, at::GENERATION, self.generation);
    }
}

/// Returns whether an inode of more than 128 bytes has the field at this offset.
fn has_extra(bytes: &[u8], extra: usize) -> bool {
    bytes.len() >= extra + 4 && usize::from(get16(bytes, at::EXTRA)) + at::EXTRA >= extra + 4
}

/// Returns a time in ns. The field holds seconds since 1970, signed; the extra field, if there is
/// one, extends it by two bits and holds ns. Times before 1970 become 1970.
fn time(bytes: &[u8], place: usize, extra: usize) -> u64 {
    let seconds = i64::from(get32(bytes, place).cast_signed());
    let more = if has_extra(bytes, extra) { get32(bytes, extra) } else { 0 };
    let seconds = (seconds + (i64::from(more & 3) << 32)).max(0) as u64;
    seconds.saturating_mul(SECOND).saturating_add(u64::from(more >> 2).min(SECOND - 1))
}

fn put_time(bytes: &mut [u8], place: usize, extra: usize, ns: u64) {
    if !has_extra(bytes, extra) {
        let seconds = (ns / SECOND).min(i32::MAX as u64);
        put32(bytes, place, seconds as u32);
        return;
    }
    let last = (1u64 << 34) - (1 << 31) - 1;
    let (mut seconds, mut rest) = (ns / SECOND, ns % SECOND);
    if seconds > last {
        (seconds, rest) = (last, SECOND - 1);
    }
    // The low word is signed: from its middle on the time is in the next epoch.
    let epoch = (seconds + (1 << 31)) >> 32;
    put32(bytes, place, seconds as u32);
    put32(bytes, extra, (rest as u32) << 2 | epoch as u32);
}

impl Ext2 {
    /// Returns the block of the table and the offset in it.
    fn place_of(&self, inode: u32) -> Result<(u32, usize)> {
        let g = &self.geometry;
        if inode == 0 || inode > g.inodes {
            return Err(Errno::Io.into());
        }
        let (group, place) = ((inode - 1) / g.inodes_per_group, (inode - 1) % g.inodes_per_group);
        let table = self.groups.get(group as usize).ok_or(Errno::Io)?.table;
        let byte = place as usize * g.inode;
        Ok((table + (byte / g.block) as u32, byte % g.block))
    }

    /// Returns an inode, whatever it holds.
    pub(super) fn inode(&mut self, inode: u32) -> Result<Inode> {
        let (block, from) = self.place_of(inode)?;
        let size = self.geometry.inode;
        let bytes = self.view(block)?.get(from..from + size).ok_or(Errno::Io)?;
        Ok(Inode::read(bytes))
    }

    /// Writes an inode.
    pub(super) fn put_inode(&mut self, inode: u32, to: &Inode) -> Result<()> {
        let (block, from) = self.place_of(inode)?;
        let size = self.geometry.inode;
        let bytes = self.edit(block, Class::Meta)?.get_mut(from..from + size).ok_or(Errno::Io)?;
        to.write(bytes);
        Ok(())
    }

    /// Initializes an inode that was allocated.
    pub(super) fn new_inode(&mut self, inode: u32, to: &mut Inode) -> Result<()> {
        let (block, from) = self.place_of(inode)?;
        let size = self.geometry.inode;
        let bytes = self.edit(block, Class::Meta)?.get_mut(from..from + size).ok_or(Errno::Io)?;
        to.generation = get32(bytes, at::GENERATION).wrapping_add(1);
        bytes.fill(0);
        if size >= 160 {
            put16(bytes, at::EXTRA, 32);
        }
        to.write(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn times_and_fields_come_back() {
        let mut random = Prng::new(1);
        let mut bytes = [0; 256];
        put16(&mut bytes, at::EXTRA, 32);
        let last = ((1u64 << 34) - (1 << 31) - 1) * SECOND;
        for _ in 0..10_000 {
            let mut one = Inode::new(Kind::File, random.below(last));
            one.accessed = random.below(last);
            one.size = random.next();
            one.pointers = core::array::from_fn(|_| random.next() as u32);
            one.write(&mut bytes);
            assert_eq!(Inode::read(&bytes), one);
        }
        let mut late = Inode::new(Kind::File, u64::MAX);
        late.write(&mut bytes);
        late.modified = last + SECOND - 1;
        assert_eq!(Inode::read(&bytes).modified, late.modified);
        let mut small = [0; 128];
        Inode::new(Kind::Link, 5 * SECOND + 7).write(&mut small);
        assert_eq!(Inode::read(&small).changed, 5 * SECOND);
    }
}

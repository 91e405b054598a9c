//! The on-disk format of the journal: JBD2's, with checksums of version 3.
//!
//! Contract: all fields are big-endian, and no byte is trusted. What fails a check is `None`. The
//! superblock's fields that change, and its checksum, are in its first 512 bytes.
//!
//! ```text
//!   a transaction: descriptor, blocks | descriptor, blocks | ... | revocations | commit
//! ```

use super::crc::{START, crc32c};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

const MAGIC: u32 = 0xc03b_3998;
/// Bytes of the header of each block of the log but copies.
const HEAD: usize = 12;
/// Bytes of a tag, and of the UUID after the first one.
const TAG: usize = 16;
/// Bytes of the checksum at the end of a descriptor or a block of revocations.
const TAIL: usize = 4;
/// Bytes of the superblock.
const SUPER: usize = 1024;
/// Number of bytes at the beginning of an escaped copy that are 0.
pub const ESCAPE: usize = 4;
/// Fewest blocks of a journal, as in Linux.
pub const LEAST: u32 = 1024;

const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const SUPER_V2: u32 = 4;
const REVOKE: u32 = 5;

/// The copy's first [`ESCAPE`] bytes, which were the magic number, are 0.
const ESCAPED: u32 = 1;
const SAME_UUID: u32 = 2;
const LAST: u32 = 8;

const CRC32C: u8 = 4;
/// Incompatible features of a journal that we write: revocations, checksums of version 3.
const FEATURES: u32 = 1 | CSUM_V3;
const CSUM_V3: u32 = 0x10;

/// Offsets in the superblock.
mod at {
    pub const BLOCK: usize = 12;
    pub const LENGTH: usize = 16;
    pub const FIRST: usize = 20;
    pub const SEQUENCE: usize = 24;
    pub const START: usize = 28;
    pub const ERROR: usize = 32;
    pub const COMPAT: usize = 36;
    pub const INCOMPAT: usize = 40;
    pub const RO_COMPAT: usize = 44;
    pub const UUID: usize = 48;
    pub const CHECKSUM_TYPE: usize = 80;
    pub const CHECKSUM: usize = 252;
}

fn get(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u32::from_be_bytes(*field))
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = value.to_be_bytes();
    }
}

/// Returns whether a copy of this block must be escaped.
fn is_escaped(block: &[u8]) -> bool {
    get(block, 0) == MAGIC
}

/// Returns the checksum of a block whose checksum, at an offset, counts as 0.
fn sum_without(seed: u32, block: &[u8], at: usize) -> u32 {
    let (before, rest) = block.split_at(at.min(block.len()));
    let sum = crc32c(crc32c(seed, before), &[0; 4]);
    crc32c(sum, rest.get(4..).unwrap_or_default())
}

/// The superblock: its whole block, of which most is kept as it was found.
#[derive(Clone, Debug)]
pub struct Super(Box<[u8]>);

impl Super {
    /// Checks a superblock for a journal in a file of `blocks` blocks.
    pub fn read(block: &[u8], blocks: u32) -> Option<Super> {
        let found = Super(block.into());
        let features = get(block, at::INCOMPAT);
        let summed = features & CSUM_V3 == 0
            || block.get(at::CHECKSUM_TYPE) == Some(&CRC32C)
                && get(block, at::CHECKSUM) == found.sum();
        let sound = get(block, 0) == MAGIC
            && get(block, 4) == SUPER_V2
            && get(block, at::BLOCK) as usize == block.len()
            && (LEAST..=blocks).contains(&found.length())
            && (1..LEAST / 8).contains(&found.first())
            && (found.start() == 0 || (found.first()..found.length()).contains(&found.start()))
            && get(block, at::ERROR) == 0
            && features & !FEATURES == 0
            && get(block, at::RO_COMPAT) == 0
            // What it contains can be checked.
            && (found.start() == 0 || features == FEATURES);
        (sound && summed).then_some(found)
    }

    fn sum(&self) -> u32 {
        let bytes = self.0.get(..SUPER).unwrap_or_default();
        sum_without(START, bytes, at::CHECKSUM)
    }

    /// Number of blocks, with the superblock.
    pub fn length(&self) -> u32 {
        get(&self.0, at::LENGTH)
    }

    /// First block of the log.
    pub fn first(&self) -> u32 {
        get(&self.0, at::FIRST)
    }

    /// Number of the first transaction in the log, or of the next one if the log is empty.
    pub fn sequence(&self) -> u32 {
        get(&self.0, at::SEQUENCE)
    }

    /// Block of the log with the first transaction; 0 if the log is empty.
    pub fn start(&self) -> u32 {
        get(&self.0, at::START)
    }

    /// Size of a block.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// Returns the checksum that all others but the superblock's continue.
    pub fn seed(&self) -> u32 {
        crc32c(START, self.0.get(at::UUID..at::UUID + 16).unwrap_or_default())
    }

    /// Returns its block for a log that starts there.
    pub fn with(&self, start: u32, sequence: u32) -> Box<[u8]> {
        let mut next = self.clone();
        let block = &mut next.0;
        put(block, at::START, start);
        put(block, at::SEQUENCE, sequence);
        put(block, at::COMPAT, 0);
        put(block, at::INCOMPAT, FEATURES);
        if let Some(kind) = block.get_mut(at::CHECKSUM_TYPE) {
            *kind = CRC32C;
        }
        let sum = next.sum();
        put(&mut next.0, at::CHECKSUM, sum);
        next.0
    }
}

/// A copy in the log: which block it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    pub block: u32,
    pub escaped: bool,
    sum: u32,
}

/// What makes a checksum: the journal's seed, and the transaction.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub seed: u32,
    pub sequence: u32,
}

impl Tag {
    pub fn new(stamp: Stamp, block: u32, data: &[u8]) -> Tag {
        let escaped = is_escaped(data);
        Tag { block, escaped, sum: Tag::sum(stamp, escaped, data) }
    }

    /// Checksum of a copy as it is in the log.
    fn sum(stamp: Stamp, escaped: bool, data: &[u8]) -> u32 {
        let sum = crc32c(stamp.seed, &stamp.sequence.to_be_bytes());
        let skip = if escaped { ESCAPE } else { 0 };
        let sum = crc32c(sum, [0; ESCAPE].get(..skip).unwrap_or_default());
        crc32c(sum, data.get(skip..).unwrap_or_default())
    }

    /// Returns whether this is the copy.
    pub fn fits(&self, stamp: Stamp, copy: &[u8]) -> bool {
        Tag::sum(stamp, false, copy) == self.sum
    }

    /// Returns the block that was copied.
    pub fn restored(&self, copy: &[u8]) -> Box<[u8]> {
        let mut data: Box<[u8]> = copy.into();
        if self.escaped {
            put(&mut data, 0, MAGIC);
        }
        data
    }
}

/// Number of tags in a descriptor.
pub fn tags_in(block: usize) -> usize {
    (block - HEAD - TAG - TAIL) / TAG
}

/// Number of revocations in a block.
pub fn revocations_in(block: usize) -> usize {
    (block - HEAD - 4 - TAIL) / 4
}

fn headed(stamp: Stamp, size: usize, kind: u32) -> Box<[u8]> {
    let mut block = vec![0; size].into_boxed_slice();
    for (at, value) in [(0, MAGIC), (4, kind), (8, stamp.sequence)] {
        put(&mut block, at, value);
    }
    block
}

fn with_tail(stamp: Stamp, mut block: Box<[u8]>) -> Box<[u8]> {
    let at = block.len() - TAIL;
    let sum = sum_without(stamp.seed, &block, at);
    put(&mut block, at, sum);
    block
}

/// Creates the descriptor of the copies after it, at most [`tags_in`].
pub fn descriptor(stamp: Stamp, size: usize, tags: &[Tag]) -> Box<[u8]> {
    let mut block = headed(stamp, size, DESCRIPTOR);
    let mut at = HEAD;
    for (number, tag) in tags.iter().enumerate() {
        let mut flags = if tag.escaped { ESCAPED } else { 0 };
        flags |= if number == 0 { 0 } else { SAME_UUID };
        flags |= if number + 1 == tags.len() { LAST } else { 0 };
        for (offset, value) in [(0, tag.block), (4, flags), (12, tag.sum)] {
            put(&mut block, at + offset, value);
        }
        at += if number == 0 { 2 * TAG } else { TAG };
    }
    with_tail(stamp, block)
}

/// Creates a block of revocations, at most [`revocations_in`].
pub fn revocations(stamp: Stamp, size: usize, revoked: &[u32]) -> Box<[u8]> {
    let mut block = headed(stamp, size, REVOKE);
    put(&mut block, HEAD, (HEAD + 4 + 4 * revoked.len()) as u32);
    for (number, one) in revoked.iter().enumerate() {
        put(&mut block, HEAD + 4 + 4 * number, *one);
    }
    with_tail(stamp, block)
}

/// Offsets in a commit block: its checksum, and the time in s and ns.
const COMMIT_SUM: usize = 16;
const COMMIT_TIME: usize = 48;

/// Creates the block that ends a transaction.
pub fn commit(stamp: Stamp, size: usize, now: u64) -> Box<[u8]> {
    let mut block = headed(stamp, size, COMMIT);
    let seconds = now / 1_000_000_000;
    put(&mut block, COMMIT_TIME, (seconds >> 32) as u32);
    put(&mut block, COMMIT_TIME + 4, seconds as u32);
    put(&mut block, COMMIT_TIME + 8, (now % 1_000_000_000) as u32);
    let sum = sum_without(stamp.seed, &block, COMMIT_SUM);
    put(&mut block, COMMIT_SUM, sum);
    block
}

/// A block of the log that is no copy.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Tags(Vec<Tag>),
    Revoked(Vec<u32>),
    Commit,
}

/// Reads a block of transaction `stamp`. `None` if it is none, or not completely written.
pub fn read(stamp: Stamp, block: &[u8]) -> Option<Found> {
    if get(block, 0) != MAGIC || get(block, 8) != stamp.sequence {
        return None;
    }
    let kind = get(block, 4);
    let at = if kind == COMMIT { COMMIT_SUM } else { block.len().checked_sub(TAIL)? };
    if get(block, at) != sum_without(stamp.seed, block, at) {
        return None;
    }
    match kind {
        COMMIT => Some(Found::Commit),
        DESCRIPTOR => Some(Found::Tags(tags(block.get(..at)?))),
        REVOKE => {
            let all = block.get(HEAD + 4..get(block, HEAD) as usize)?;
            let all = all.get(..all.len().min(at.checked_sub(HEAD + 4)?))?;
            Some(Found::Revoked(all.chunks_exact(4).map(|one| get(one, 0)).collect()))
        }
        _ => None,
    }
}

fn tags(block: &[u8]) -> Vec<Tag> {
    let (mut all, mut at) = (Vec::new(), HEAD);
    while at + TAG <= block.len() {
        let flags = get(block, at + 4);
        let (number, sum) = (get(block, at), get(block, at + 12));
        all.push(Tag { block: number, escaped: flags & ESCAPED != 0, sum });
        at += if flags & SAME_UUID == 0 { 2 * TAG } else { TAG };
        if flags & LAST != 0 {
            break;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    const STAMP: Stamp = Stamp { seed: 77, sequence: 5 };

    #[test]
    fn blocks_of_the_log_come_back_and_a_changed_bit_is_noticed() {
        let mut random = Prng::new(1);
        for size in [1024, 2048, 4096] {
            let mut data = vec![7; size];
            put(&mut data, 0, MAGIC);
            let some: Vec<u32> = (1..=tags_in(size) as u32).collect();
            let all: Vec<Tag> = some.iter().map(|one| Tag::new(STAMP, *one, &data)).collect();
            let many: Vec<u32> = (1..=revocations_in(size) as u32).collect();
            for (block, wanted) in [
                (descriptor(STAMP, size, &all), Found::Tags(all.clone())),
                (descriptor(STAMP, size, &all[..3]), Found::Tags(all[..3].to_vec())),
                (revocations(STAMP, size, &many), Found::Revoked(many.clone())),
                (commit(STAMP, size, 1 << 62), Found::Commit),
            ] {
                assert_eq!(read(STAMP, &block), Some(wanted));
                for _ in 0..50 {
                    let mut torn = block.clone();
                    torn[random.below(size as u64) as usize] ^= 1 << random.below(8);
                    assert_eq!(read(STAMP, &torn), None);
                }
            }
            let mut copy = data.clone();
            copy[..4].fill(0);
            assert!(all[0].escaped && all[0].fits(STAMP, &copy) && !all[0].fits(STAMP, &data));
            assert_eq!(*all[0].restored(&copy), *data);
        }
    }

    #[test]
    fn random_blocks_are_read_or_refused() {
        let mut random = Prng::new(2);
        for _ in 0..20_000 {
            let mut block: Vec<u8> = (0..1024).map(|_| random.next() as u8).collect();
            put(&mut block, 0, MAGIC);
            put(&mut block, 4, random.below(6) as u32);
            put(&mut block, 8, STAMP.sequence);
            put(&mut block, 12, random.below(2000) as u32);
            let at = if get(&block, 4) == COMMIT { COMMIT_SUM } else { block.len() - TAIL };
            let sum = sum_without(STAMP.seed, &block, at);
            put(&mut block, at, sum);
            if let Some(Found::Tags(all)) = read(STAMP, &block) {
                assert!(!all.is_empty() && all.len() <= tags_in(1024) + 1);
            }
            let _ = Super::read(&block, 5000);
        }
    }
}

//! Messages in the streams between kernels, as bytes: 64-bit words, little-endian, then fields.
//!
//! ```text
//!   0, number of words, the words of `kernel_channel::wire`, the fields    a message of the table
//!   1, ticket                                                              no child wants this end
//!   2, id, secret, fate                                                    what becomes of a block
//!   3 | words of `kernel_channel::wire::Plain`, the fields                 one without ends
//!   4 and others                                                           not about channels
//! ```
//! The number of words has bit 32, and the first plain word bit 8, if the name of a block comes
//! before the fields. If that is in its message, it comes after them.

use super::blocks::NAME;
use super::words;
use abi::msg::MAX_PAYLOAD;
use alloc::boxed::Box;
use kernel_channel::Message;
use kernel_channel::wire::{self, Plain, WORDS};
use kernel_contract::INLINE;

/// Kinds of messages in a stream.
pub const OF_TABLE: u64 = 0;
pub const UNWANTED: u64 = 1;
pub const OF_BLOCK: u64 = 2;
/// A bit of the number of words: the message has a block.
pub const HAS_BLOCK: u64 = 1 << 32;
/// Bits of the first word of a plain message.
const PLAIN: u64 = 3;
const PLAIN_HAS_BLOCK: u64 = PLAIN | 1 << 8;
/// Bytes before the words of the table.
const HEAD: usize = 16;
/// The longest message.
pub const LONGEST: usize = HEAD + 8 * WORDS + NAME + INLINE;
const _: () = assert!(LONGEST <= MAX_PAYLOAD);

/// One message of a stream, while it is read or written.
pub struct Buffers {
    pub words: Box<[u64; WORDS]>,
    pub bytes: Box<[u8; LONGEST]>,
}

/// Returns whether a message is about channels, by its lowest 16 bits.
#[inline]
pub fn is_ours(payload: &[u8]) -> bool {
    payload.first_chunk().is_none_or(|kind| u16::from_le_bytes(*kind) <= PLAIN as u16)
}

/// Reads a message without ends, and the bytes after it. Returns whether these begin with the name
/// of a block, too. `None`: it is no such message.
#[inline]
pub fn split_plain(payload: &[u8]) -> Option<(Plain, bool, &[u8])> {
    let (words, rest) = words::split(payload)?;
    let (plain, has_block) = of_words(words)?;
    Some((plain, has_block, rest))
}

/// Reads the first words of a message without ends.
#[inline]
pub fn of_words(words: [u64; wire::PLAIN]) -> Option<(Plain, bool)> {
    let has_block = match words[0] & 0xffff {
        PLAIN => false,
        PLAIN_HAS_BLOCK => true,
        _ => return None,
    };
    Some((Plain::of_words(words)?, has_block))
}

/// Returns what [`of_words`] reads.
#[inline]
pub fn words_of(plain: &Plain, has_block: bool) -> Option<[u64; wire::PLAIN]> {
    let mut words = plain.words()?;
    words[0] |= if has_block { PLAIN_HAS_BLOCK } else { PLAIN };
    Some(words)
}

impl Buffers {
    pub fn new() -> Buffers {
        Buffers { words: Box::new([0; WORDS]), bytes: Box::new([0; LONGEST]) }
    }

    /// Writes a message without its payload. Returns its length so far.
    pub fn put<B>(&mut self, message: &Message<B>, has_block: bool) -> Option<usize> {
        let Buffers { words, bytes } = self;
        if let Some(plain) = Plain::of(message).and_then(|plain| words_of(&plain, has_block)) {
            return words::put(&plain, &mut **bytes);
        }
        let used = wire::encode(message, words);
        let flags = if has_block { HAS_BLOCK } else { 0 };
        let length = words::put(&[OF_TABLE, used as u64 | flags], &mut **bytes)?;
        Some(length + words::put(words.get(..used)?, bytes.get_mut(length..)?)?)
    }

    /// Begins a message with words. Returns its length so far.
    pub fn put_head(&mut self, words: &[u64]) -> Option<usize> {
        words::put(words, &mut *self.bytes)
    }
}

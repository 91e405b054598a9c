//! Bytes in memory that is accessed only by 64-bit words, in little-endian order.

use crate::port::Words;

/// Stores `bytes` at the 8-aligned offset `at`, padding the last word with zeroes.
pub fn store_bytes(words: &impl Words, at: usize, bytes: &[u8]) {
    for (i, chunk) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        words.store(at + 8 * i, u64::from_le_bytes(word));
    }
}

/// Fills `bytes` from the 8-aligned offset `at`.
pub fn load_bytes(words: &impl Words, at: usize, bytes: &mut [u8]) {
    for (i, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = words.load(at + 8 * i).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

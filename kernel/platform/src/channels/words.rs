//! Words in the bytes of messages, little-endian.

/// Returns the number that up to 8 bytes are.
pub fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Returns the words at the start of bytes, and the rest.
pub fn split<const N: usize>(bytes: &[u8]) -> Option<([u64; N], &[u8])> {
    let (head, rest) = bytes.split_at_checked(8 * N)?;
    let mut words = [0; N];
    for (to, bytes) in words.iter_mut().zip(head.chunks_exact(8)) {
        *to = word(bytes);
    }
    Some((words, rest))
}

/// Writes words to the start of bytes. Returns how many bytes, or `None` if there is no room.
pub fn put(words: &[u64], bytes: &mut [u8]) -> Option<usize> {
    let length = 8 * words.len();
    for (to, word) in bytes.get_mut(..length)?.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    Some(length)
}

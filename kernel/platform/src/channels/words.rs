//! Words in the bytes of messages, little-endian.

/// Reads words from the start of bytes. Returns the rest.
pub fn get<'a>(bytes: &'a [u8], words: &mut [u64]) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(8 * words.len())?;
    for (to, bytes) in words.iter_mut().zip(head.as_chunks().0) {
        *to = u64::from_le_bytes(*bytes);
    }
    Some(rest)
}

/// Returns the words at the start of bytes, and the rest.
pub fn split<const N: usize>(bytes: &[u8]) -> Option<([u64; N], &[u8])> {
    let mut words = [0; N];
    let rest = get(bytes, &mut words)?;
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

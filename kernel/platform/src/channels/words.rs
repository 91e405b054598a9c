//! Words in the bytes of messages, little-endian.

use base::bytes::{get_words, put_words};

/// Reads words from the start of bytes. Returns the rest.
pub fn get<'a>(bytes: &'a [u8], words: &mut [u64]) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(8 * words.len())?;
    get_words(head, words);
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
    put_words(words, bytes.get_mut(..length)?);
    Some(length)
}

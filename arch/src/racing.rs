//! Copies of memory that programs access at the same time. Program code is not Rust, and races with
//! these copies: each word that lies aligned in both places is found old or new, and so is each
//! byte of the others. Rust accesses that memory as atomics only, here.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// Returns how many bytes are before the first word that is aligned in both places, and how many
/// such words there are.
fn split(at: usize, other: usize, bytes: usize) -> (usize, usize) {
    let head = at.next_multiple_of(WORD) - at;
    let is_same = (at ^ other).is_multiple_of(WORD);
    if is_same && head < bytes { (head, (bytes - head) / WORD) } else { (bytes, 0) }
}

/// Returns bytes as atomics.
///
/// # Safety
/// They are mapped, and Rust accesses them as atomics only as long as the result lives.
unsafe fn bytes<'a>(at: usize, count: usize) -> &'a [AtomicU8] {
    // SAFETY: the caller's obligation; an atomic byte has no alignment, and any value is one.
    unsafe { core::slice::from_raw_parts(at as *const AtomicU8, count) }
}

/// Returns words as atomics.
///
/// # Safety
/// As [`bytes`].
unsafe fn words<'a>(at: usize, count: usize) -> &'a [AtomicU64] {
    match at.is_multiple_of(WORD) {
        // SAFETY: the caller's obligation, and they are aligned.
        true => unsafe { core::slice::from_raw_parts(at as *const AtomicU64, count) },
        false => &[],
    }
}

/// Copies bytes from `at`.
///
/// # Safety
/// They are mapped, and Rust accesses them as atomics only.
pub unsafe fn load(at: usize, into: &mut [u8]) {
    let (head, count) = split(at, into.as_ptr() as usize, into.len());
    let (first, rest) = into.split_at_mut(head);
    let (second, third) = rest.split_at_mut(count * WORD);
    let (middle, end) = (at + head, at + head + count * WORD);
    // SAFETY: the caller's obligation; any bytes are words.
    unsafe {
        load_bytes(bytes(at, head), first);
        let (_, aligned, _) = second.align_to_mut::<u64>();
        let from = words(middle, count);
        aligned.iter_mut().zip(from).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
        load_bytes(bytes(end, third.len()), third);
    }
}

fn load_bytes(from: &[AtomicU8], into: &mut [u8]) {
    into.iter_mut().zip(from).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
}

/// Copies bytes to `at`.
///
/// # Safety
/// As [`load`], and they are writable.
pub unsafe fn store(at: usize, from: &[u8]) {
    let (head, count) = split(at, from.as_ptr() as usize, from.len());
    let (first, rest) = from.split_at(head);
    let (second, third) = rest.split_at(count * WORD);
    let (middle, end) = (at + head, at + head + count * WORD);
    // SAFETY: as in `load`.
    unsafe {
        store_bytes(bytes(at, head), first);
        let (_, aligned, _) = second.align_to::<u64>();
        let to = words(middle, count);
        aligned.iter().zip(to).for_each(|(from, to)| to.store(*from, Ordering::Relaxed));
        store_bytes(bytes(end, third.len()), third);
    }
}

fn store_bytes(to: &[AtomicU8], from: &[u8]) {
    from.iter().zip(to).for_each(|(from, to)| to.store(*from, Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn bytes_are_copied_whatever_the_alignment() {
        let pattern: Vec<u8> = (0..100).map(|byte| byte + 1).collect();
        for at in 0..9 {
            for other in 0..9 {
                for length in [0, 1, 5, 7, 8, 9, 16, 40, 63] {
                    let memory: Vec<AtomicU64> = (0..20).map(|_| AtomicU64::new(0)).collect();
                    let place = memory.as_ptr() as usize + at;
                    // SAFETY: `memory` has 160 bytes of atomics.
                    unsafe { store(place, &pattern[other..other + length]) };
                    let mut found = [0u8; 80];
                    // SAFETY: as above.
                    unsafe { load(place, &mut found[other..other + length]) };
                    assert_eq!(found[other..other + length], pattern[other..other + length]);
                    assert!(
                        found[..other].iter().chain(&found[other + length..]).all(|it| *it == 0)
                    );
                    let mut around = [0u8; 160];
                    // SAFETY: as above.
                    unsafe { load(memory.as_ptr() as usize, &mut around) };
                    let outside = around[..at].iter().chain(&around[at + length..]);
                    assert!(outside.copied().all(|it| it == 0), "{at} {other} {length}");
                }
            }
        }
    }
}

//! Bytes in memory that is accessed only by 64-bit words, in little-endian order.
//!
//! Bytes whose address is a multiple of 8, as that of every larger buffer is, are read and written
//! by words, too: a kernel may not access a word at another address, and puts it together from
//! bytes, which takes many times as long. [`read`] and [`write()`] do the same for other types.

use crate::port::Words;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

// So a word in memory is its bytes.
const _: () = assert!(cfg!(target_endian = "little"));

/// Returns the value of these bytes. `None`: it has another number of bytes.
#[inline(always)]
pub fn read<T: FromBytes + KnownLayout + Immutable + Copy>(bytes: &[u8]) -> Option<T> {
    match T::ref_from_bytes(bytes) {
        Ok(value) => Some(*value),
        Err(_) => read_unaligned(bytes),
    }
}

// Inlined, it would make the compiler read all bytes one by one, whatever their address is.
#[cold]
#[inline(never)]
fn read_unaligned<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    T::read_from_bytes(bytes).ok()
}

/// Stores a value, which has as many bytes. `None`: it has another number.
#[inline(always)]
pub fn write<T>(bytes: &mut [u8], value: T) -> Option<()>
where
    T: FromBytes + IntoBytes + KnownLayout + Immutable + Copy,
{
    match T::mut_from_bytes(bytes) {
        Ok(place) => *place = value,
        Err(_) => return write_unaligned(bytes, &value),
    }
    Some(())
}

#[cold]
fn write_unaligned<T: IntoBytes + Immutable>(bytes: &mut [u8], value: &T) -> Option<()> {
    value.write_to(bytes).ok()
}

/// Stores `bytes` at the 8-aligned offset `at`, padding the last word with zeroes.
pub fn store_bytes(words: &impl Words, at: usize, bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<8>();
    match <[u64]>::ref_from_bytes(whole.as_flattened()) {
        Ok(all) => words.store_all(at, all),
        Err(_) => whole.iter().zip((at..).step_by(8)).for_each(|(bytes, at)| {
            words.store(at, u64::from_le_bytes(*bytes));
        }),
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        words.store(at + 8 * whole.len(), u64::from_le_bytes(word));
    }
}

/// Fills `bytes` from the 8-aligned offset `at`.
pub fn load_bytes(words: &impl Words, at: usize, bytes: &mut [u8]) {
    let (whole, rest) = bytes.as_chunks_mut::<8>();
    let end = at + 8 * whole.len();
    match <[u64]>::mut_from_bytes(whole.as_flattened_mut()) {
        Ok(all) => words.load_all(at, all),
        Err(_) => whole.iter_mut().zip((at..).step_by(8)).for_each(|(bytes, at)| {
            *bytes = words.load(at).to_le_bytes();
        }),
    }
    if !rest.is_empty() {
        rest.copy_from_slice(&words.load(end).to_le_bytes()[..rest.len()]);
    }
}

/// Reads words from bytes, as many as both have.
#[inline]
pub fn get_words(bytes: &[u8], words: &mut [u64]) {
    let whole = bytes.as_chunks::<8>().0;
    match <[u64]>::ref_from_bytes(whole.as_flattened()) {
        Ok(all) => all.iter().zip(words).for_each(|(from, to)| *to = *from),
        Err(_) => whole.iter().zip(words).for_each(|(from, to)| *to = u64::from_le_bytes(*from)),
    }
}

/// Undoes [`get_words`].
#[inline]
pub fn put_words(words: &[u64], bytes: &mut [u8]) {
    let whole = bytes.as_chunks_mut::<8>().0;
    if let Ok(all) = <[u64]>::mut_from_bytes(whole.as_flattened_mut()) {
        return all.iter_mut().zip(words).for_each(|(to, from)| *to = *from);
    }
    whole.iter_mut().zip(words).for_each(|(to, from)| *to = from.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    struct Cells([Cell<u64>; 8]);

    impl Words for Cells {
        fn load(&self, at: usize) -> u64 {
            self.0[at / 8].get()
        }
        fn store(&self, at: usize, value: u64) {
            self.0[at / 8].set(value);
        }
        fn barrier(&self) {}
    }

    #[repr(align(8))]
    struct Aligned([u8; 64]);

    #[test]
    fn bytes_of_every_length_and_address_are_the_same_again() {
        let source = Aligned(core::array::from_fn(|at| at as u8 + 1));
        for (start, length) in (0..9).flat_map(|start| (0..40).map(move |length| (start, length))) {
            let cells = Cells(core::array::from_fn(|_| Cell::new(u64::MAX)));
            let bytes = &source.0[start..start + length];
            store_bytes(&cells, 8, bytes);
            let stored = 1 + length.div_ceil(8);
            assert!((0..8).all(|at| (1..stored).contains(&at) || cells.load(8 * at) == u64::MAX));
            if length % 8 != 0 {
                let last = cells.load(8 * (stored - 1));
                assert_eq!(last >> (length % 8 * 8), 0, "padded");
            }
            let mut back = Aligned([0; 64]);
            load_bytes(&cells, 8, &mut back.0[start..start + length]);
            assert_eq!(&back.0[start..start + length], bytes);
            assert!(back.0[start + length..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn values_of_every_address_are_the_same_again() {
        for start in 0..9 {
            let mut bytes = Aligned([0xff; 64]);
            assert_eq!(write(&mut bytes.0[start..start + 8], [1_u32, 0x0302]), Some(()));
            assert_eq!(bytes.0[start..start + 9], [1, 0, 0, 0, 2, 3, 0, 0, 0xff]);
            assert_eq!(read(&bytes.0[start..start + 8]), Some([1_u32, 0x0302]));
            assert_eq!(read::<u64>(&bytes.0[start..start + 7]), None);
            assert_eq!(write(&mut bytes.0[start..start + 9], 0_u64), None);
        }
    }

    #[test]
    fn words_of_every_address_are_the_same_again() {
        for start in 0..9 {
            let mut bytes = Aligned([0; 64]);
            put_words(&[0x0807_0605_0403_0201, 2], &mut bytes.0[start..start + 20]);
            assert_eq!(bytes.0[start..start + 9], [1, 2, 3, 4, 5, 6, 7, 8, 2]);
            let mut words = [0; 3];
            get_words(&bytes.0[start..start + 20], &mut words);
            assert_eq!(words, [0x0807_0605_0403_0201, 2, 0]);
        }
    }
}

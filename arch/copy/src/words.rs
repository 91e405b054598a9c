//! Copies for a machine that loads and stores words at aligned addresses only: the most of a range
//! moves as words, eight at a time if the two ranges are aligned alike. Otherwise each word that is
//! stored is made of two that are loaded:
//!
//! ```text
//!   from  ..[abcdefgh][ijklmnop]..       to  [defghijk]
//! ```
//! Below 16 bytes, and at both ends, bytes move.

/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// Words per step.
const STEP: usize = 8;

/// Copies `n` bytes upwards: the ranges may overlap if `to` is below `from`.
///
/// # Safety
/// `n` bytes at `from` may be read, and `n` bytes at `to` written.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, n: usize) {
    // SAFETY: the three parts are the `n` bytes.
    unsafe {
        if n < 2 * WORD {
            return copy_bytes(to, from, n);
        }
        let head = (to as usize).wrapping_neg() % WORD;
        copy_bytes(to, from, head);
        let (to, from, n) = (to.add(head), from.add(head), n - head);
        let words = n / WORD;
        match from as usize % WORD {
            0 => copy_words(to.cast(), from.cast(), words),
            shift => copy_shifted(to.cast(), from, shift, words),
        }
        let done = words * WORD;
        copy_bytes(to.add(done), from.add(done), n - done);
    }
}

/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn copy_bytes(to: *mut u8, from: *const u8, n: usize) {
    for at in 0..n {
        // SAFETY: the caller's obligation.
        unsafe { to.add(at).write(from.add(at).read()) };
    }
}

/// # Safety
/// As [`copy`], for `n` words at aligned addresses.
#[inline(never)] // It needs many registers, which short copies need not save.
unsafe fn copy_words(mut to: *mut u64, mut from: *const u64, n: usize) {
    // SAFETY: all words are among the `n`. A step loads before it stores.
    unsafe {
        let end = to.add(n);
        let last_step = to.add(n / STEP * STEP);
        while to != last_step {
            let get = |at| from.add(at).read();
            // One by one: a copy of an array may be compiled to a call of `memcpy`.
            let step = (get(0), get(1), get(2), get(3), get(4), get(5), get(6), get(7));
            to.write(step.0);
            to.add(1).write(step.1);
            to.add(2).write(step.2);
            to.add(3).write(step.3);
            to.add(4).write(step.4);
            to.add(5).write(step.5);
            to.add(6).write(step.6);
            to.add(7).write(step.7);
            (to, from) = (to.add(STEP), from.add(STEP));
        }
        while to != end {
            to.write(from.read());
            (to, from) = (to.add(1), from.add(1));
        }
    }
}

/// Copies `n` words from an address `shift` bytes above an aligned one, between 1 and 7.
///
/// # Safety
/// As [`copy`], for `n` words, at least one; `to` is aligned. It loads no aligned word without a
/// byte of the range.
#[inline(always)]
unsafe fn copy_shifted(to: *mut u64, from: *const u8, shift: usize, n: usize) {
    let (low, high) = (8 * shift, 64 - 8 * shift);
    // SAFETY: the last word that is loaded has the last byte of the range, as `shift` is not 0.
    unsafe {
        let from: *const u64 = from.sub(shift).cast();
        let mut word = from.read();
        for at in 0..n {
            let next = from.add(at + 1).read();
            to.add(at).write(word >> low | next << high);
            word = next;
        }
    }
}

/// Sets `n` bytes to `byte`.
///
/// # Safety
/// `n` bytes at `to` may be written.
#[inline(always)]
pub unsafe fn fill(to: *mut u8, byte: u8, n: usize) {
    // SAFETY: the three parts are the `n` bytes.
    unsafe {
        if n < 2 * WORD {
            return fill_bytes(to, byte, n);
        }
        let head = (to as usize).wrapping_neg() % WORD;
        fill_bytes(to, byte, head);
        let (to, n) = (to.add(head), n - head);
        let words = n / WORD;
        fill_words(to.cast(), u64::from_ne_bytes([byte; WORD]), words);
        fill_bytes(to.add(words * WORD), byte, n - words * WORD);
    }
}

/// # Safety
/// As [`fill`].
#[inline(always)]
unsafe fn fill_bytes(to: *mut u8, byte: u8, n: usize) {
    for at in 0..n {
        // SAFETY: the caller's obligation.
        unsafe { to.add(at).write(byte) };
    }
}

/// # Safety
/// As [`fill`], for `n` words at an aligned address.
#[inline(always)]
unsafe fn fill_words(mut to: *mut u64, word: u64, n: usize) {
    // SAFETY: all words are among the `n`.
    unsafe {
        let end = to.add(n);
        let last_step = to.add(n / STEP * STEP);
        while to != last_step {
            to.write(word);
            to.add(1).write(word);
            to.add(2).write(word);
            to.add(3).write(word);
            to.add(4).write(word);
            to.add(5).write(word);
            to.add(6).write(word);
            to.add(7).write(word);
            to = to.add(STEP);
        }
        while to != end {
            to.write(word);
            to = to.add(1);
        }
    }
}

//! `memcpy`, `memmove`, `memset` and `memcmp`, as the compiler calls them for a kernel.
//!
//! Those of `compiler_builtins` move words at aligned addresses, and bytes around them: right for
//! every machine, and the largest part of a short system call. AArch64 loads and stores any number
//! of bytes at any address of normal memory, so whatever fits into registers moves as two pieces
//! that overlap, all loaded before anything is stored:
//!
//! ```text
//!   n bytes, 8 <= n <= 16:    [first 8]
//!                          [last 8    ]
//! ```
//! Longer ones move by 64 bytes, away from what they overlap; their last piece is loaded first.
//!
//! Contract: that of C. `arch` links it into each kernel of an ISA for which it is quicker; the
//! symbols are strong where those of `compiler_builtins` are weak. Nobody uses it for memory of
//! devices. `no_builtins`: the compiler must not make calls of these functions in them.
#![no_std]
#![no_builtins]

mod whole;

use whole::{Block, Pair, Quad, Whole, block, pair, quad};

/// What moves at a time.
const BLOCK: usize = size_of::<Block>();

/// The first and the last `T` of `n` bytes, at least one `T` and at most two.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn ends<T: Whole>(to: *mut u8, from: *const u8, n: usize) {
    let last = n - size_of::<T>();
    // SAFETY: both pieces lie in the `n` bytes; both are loaded before one is stored.
    unsafe {
        let (a, b) = (T::get(from), T::get(from.add(last)));
        a.put(to);
        b.put(to.add(last));
    }
}

/// Moves `n` bytes, which may overlap.
///
/// # Safety
/// `n` bytes at `from` may be read, and at `to` be written.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, n: usize) {
    // SAFETY: each step takes one or two of a size that is not above `n`.
    unsafe {
        if n > 2 * BLOCK {
            far(to, from, n);
        } else if n > 64 {
            ends::<Block>(to, from, n);
        } else if n > 32 {
            ends::<Pair>(to, from, n);
        } else if n >= 16 {
            ends::<Quad>(to, from, n);
        } else if n >= 8 {
            ends::<u64>(to, from, n);
        } else if n >= 4 {
            ends::<u32>(to, from, n);
        } else if n >= 2 {
            ends::<u16>(to, from, n);
        } else if n == 1 {
            u8::get(from).put(to);
        }
    }
}

/// More than two blocks.
///
/// # Safety
/// As [`copy`].
unsafe fn far(to: *mut u8, from: *const u8, n: usize) {
    let mut left = n;
    // SAFETY: all blocks lie in the `n` bytes. Going up, what is stored lies before what is still
    // to be loaded, except the last block, which was loaded first; going down the other way round.
    unsafe {
        if (to as usize).wrapping_sub(from as usize) >= n {
            let last = Block::get(from.add(n - BLOCK));
            let (mut into, mut out) = (to, from);
            while left > 2 * BLOCK {
                Block::get(out).put(into);
                Block::get(out.add(BLOCK)).put(into.add(BLOCK));
                (into, out, left) = (into.add(2 * BLOCK), out.add(2 * BLOCK), left - 2 * BLOCK);
            }
            while left > BLOCK {
                Block::get(out).put(into);
                (into, out, left) = (into.add(BLOCK), out.add(BLOCK), left - BLOCK);
            }
            last.put(to.add(n - BLOCK));
        } else {
            let first = Block::get(from);
            while left > BLOCK {
                left -= BLOCK;
                Block::get(from.add(left)).put(to.add(left));
            }
            first.put(to);
        }
    }
}

/// Sets `n` bytes.
///
/// # Safety
/// `n` bytes at `to` may be written.
#[inline(always)]
pub unsafe fn fill(to: *mut u8, byte: u8, n: usize) {
    let quad = quad(byte);
    let word = u64::from_ne_bytes([byte; 8]);
    // SAFETY: each store lies in the `n` bytes.
    unsafe {
        if n > BLOCK {
            let block = block(quad);
            let (last, mut at) = (to.add(n - BLOCK), to);
            while (at as usize) < last as usize {
                block.put(at);
                at = at.add(BLOCK);
            }
            block.put(last);
        } else if n >= 32 {
            pair(quad).put(to);
            pair(quad).put(to.add(n - 32));
        } else if n >= 16 {
            quad.put(to);
            quad.put(to.add(n - 16));
        } else if n >= 8 {
            word.put(to);
            word.put(to.add(n - 8));
        } else if n >= 4 {
            (word as u32).put(to);
            (word as u32).put(to.add(n - 4));
        } else if n >= 2 {
            (word as u16).put(to);
            (word as u16).put(to.add(n - 2));
        } else if n == 1 {
            byte.put(to);
        }
    }
}

/// Below 0, 0 or above 0, as the first byte that differs.
///
/// # Safety
/// `n` bytes at `a` and at `b` may be read.
#[inline(always)]
pub unsafe fn compare(a: *const u8, b: *const u8, n: usize) -> i32 {
    let mut at = 0;
    // SAFETY: each load lies in the `n` bytes.
    unsafe {
        while n - at >= 8 {
            let (one, other) = (u64::get(a.add(at)), u64::get(b.add(at)));
            if one != other {
                return if u64::from_be(one) < u64::from_be(other) { -1 } else { 1 };
            }
            at += 8;
        }
        while at < n {
            let (one, other) = (u8::get(a.add(at)), u8::get(b.add(at)));
            if one != other {
                return i32::from(one) - i32::from(other);
            }
            at += 1;
        }
    }
    0
}

/// The symbols.
#[cfg(all(target_os = "none", target_arch = "aarch64"))]
mod symbols {
    /// # Safety
    /// C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { super::copy(to, from, n) };
        to
    }

    /// # Safety
    /// C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { super::copy(to, from, n) };
        to
    }

    /// # Safety
    /// C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { super::fill(to, byte as u8, n) };
        to
    }

    /// # Safety
    /// C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
        // SAFETY: the caller's.
        unsafe { super::compare(a, b, n) }
    }

    /// # Safety
    /// C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
        // SAFETY: the caller's.
        unsafe { super::compare(a, b, n) }
    }
}

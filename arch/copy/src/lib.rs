//! `memcpy`, `memmove`, `memset` and `memcmp`, as the compiler calls them for a kernel.
//!
//! The ones in `compiler_builtins` move words at aligned addresses and bytes around them, which is
//! correct on every machine and takes the largest part of a short system call. AArch64 loads and
//! stores at any address of normal memory, so whatever fits in registers moves as two pieces that
//! may overlap, both loaded before either is stored:
//!
//! ```text
//!   n bytes, 8 <= n <= 16:    [first 8]
//!                          [last 8    ]
//! ```
//! Longer ranges move in steps of 64 bytes, in the direction that overlap permits; the last piece
//! of that direction is loaded first.
//!
//! RV64 has aligned accesses only. There, `memcpy` and `memset` move aligned words ([`words`]), and
//! the others are those of `compiler_builtins`.
//!
//! The contract is that of C. `arch` links this crate into each kernel; its symbols are strong,
//! those of `compiler_builtins` weak. Never use it on device memory. `no_builtins` prevents the
//! compiler from turning these functions into calls of themselves.
#![no_std]
#![no_builtins]

mod unaligned;
pub mod words;

use unaligned::{Block, Pair, Quad, Unaligned, block, pair, quad};

/// Bytes per step of a long copy.
const BLOCK: usize = size_of::<Block>();

/// Copies the first and the last `T` of `n` bytes, where `n` is one to two times the size of `T`.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn copy_ends<T: Unaligned>(to: *mut u8, from: *const u8, n: usize) {
    let last = n - size_of::<T>();
    // SAFETY: both pieces are in the `n` bytes; both are loaded before one is stored.
    unsafe {
        let (a, b) = (T::get(from), T::get(from.add(last)));
        a.put(to);
        b.put(to.add(last));
    }
}

/// Copies `n` bytes; the ranges may overlap.
///
/// # Safety
/// `n` bytes at `from` may be read, and `n` bytes at `to` written.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, n: usize) {
    // SAFETY: each case uses one or two values of a size that is at most `n`.
    unsafe {
        if n > 2 * BLOCK {
            copy_blocks(to, from, n);
        } else if n > 64 {
            copy_ends::<Block>(to, from, n);
        } else if n > 32 {
            copy_ends::<Pair>(to, from, n);
        } else if n >= 16 {
            copy_ends::<Quad>(to, from, n);
        } else if n >= 8 {
            copy_ends::<u64>(to, from, n);
        } else if n >= 4 {
            copy_ends::<u32>(to, from, n);
        } else if n >= 2 {
            copy_ends::<u16>(to, from, n);
        } else if n == 1 {
            u8::get(from).put(to);
        }
    }
}

/// Copies more than two blocks.
///
/// # Safety
/// As [`copy`].
unsafe fn copy_blocks(to: *mut u8, from: *const u8, n: usize) {
    let mut left = n;
    // SAFETY: all blocks are in the `n` bytes. Going up, stores precede what is still to be loaded,
    // except for the last block, which was loaded first. Going down is the mirror image.
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

/// Sets `n` bytes to `byte`.
///
/// # Safety
/// `n` bytes at `to` may be written.
#[inline(always)]
pub unsafe fn fill(to: *mut u8, byte: u8, n: usize) {
    let quad = quad(byte);
    let word = u64::from_ne_bytes([byte; 8]);
    // SAFETY: each store is in the `n` bytes.
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

/// Returns a value below, equal to or above 0, by the first byte that differs.
///
/// # Safety
/// `n` bytes at `a` and at `b` may be read.
#[inline(always)]
pub unsafe fn compare(a: *const u8, b: *const u8, n: usize) -> i32 {
    let mut at = 0;
    // SAFETY: each load is in the `n` bytes.
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

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
mod symbols {
    /// # Safety
    /// C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
        // SAFETY: the caller's obligation.
        unsafe { super::copy(to, from, n) };
        to
    }

    /// # Safety
    /// C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
        // SAFETY: the caller's obligation.
        unsafe { super::copy(to, from, n) };
        to
    }

    /// # Safety
    /// C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
        // SAFETY: the caller's obligation.
        unsafe { super::fill(to, byte as u8, n) };
        to
    }

    /// # Safety
    /// C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
        // SAFETY: the caller's obligation.
        unsafe { super::compare(a, b, n) }
    }

    /// # Safety
    /// C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
        // SAFETY: the caller's obligation.
        unsafe { super::compare(a, b, n) }
    }
}

#[cfg(all(target_os = "none", target_arch = "riscv64"))]
mod symbols {
    /// # Safety
    /// C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
        // SAFETY: the caller's obligation.
        unsafe { super::words::copy(to, from, n) };
        to
    }

    /// # Safety
    /// C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
        // SAFETY: the caller's obligation.
        unsafe { super::words::fill(to, byte as u8, n) };
        to
    }
}

//! Loads and stores in AArch64 instructions.

use super::Unaligned;
use core::arch::aarch64::{uint8x16_t, vdupq_n_u8};
use core::arch::asm;

/// 16 bytes.
pub type Quad = uint8x16_t;

/// 32 bytes.
#[derive(Clone, Copy)]
pub struct Pair(Quad, Quad);

/// 64 bytes.
#[derive(Clone, Copy)]
pub struct Block(Pair, Pair);

/// Returns 16 bytes of value `byte`.
#[inline(always)]
pub fn quad(byte: u8) -> Quad {
    // SAFETY: every AArch64 core of ours has the instruction.
    unsafe { vdupq_n_u8(byte) }
}

#[inline(always)]
pub fn pair(quad: Quad) -> Pair {
    Pair(quad, quad)
}

#[inline(always)]
pub fn block(quad: Quad) -> Block {
    Block(pair(quad), pair(quad))
}

macro_rules! unaligned {
    ($type:ty, $class:ident, $load:literal, $store:literal) => {
        impl Unaligned for $type {
            #[inline(always)]
            unsafe fn get(at: *const u8) -> Self {
                let value;
                // SAFETY: the caller's obligation.
                unsafe {
                    asm!($load, value = lateout($class) value, at = in(reg) at,
                        options(nostack, preserves_flags, readonly));
                }
                value
            }
            #[inline(always)]
            unsafe fn put(self, at: *mut u8) {
                // SAFETY: the caller's obligation.
                unsafe {
                    asm!($store, value = in($class) self, at = in(reg) at,
                        options(nostack, preserves_flags));
                }
            }
        }
    };
}

unaligned!(u16, reg, "ldrh {value:w}, [{at}]", "strh {value:w}, [{at}]");
unaligned!(u32, reg, "ldr {value:w}, [{at}]", "str {value:w}, [{at}]");
unaligned!(u64, reg, "ldr {value}, [{at}]", "str {value}, [{at}]");
unaligned!(Quad, vreg, "ldr {value:q}, [{at}]", "str {value:q}, [{at}]");

impl Unaligned for Pair {
    #[inline(always)]
    unsafe fn get(at: *const u8) -> Pair {
        let (one, two);
        // SAFETY: the caller's obligation.
        unsafe {
            asm!("ldp {one:q}, {two:q}, [{at}]", at = in(reg) at,
                one = lateout(vreg) one, two = lateout(vreg) two,
                options(nostack, preserves_flags, readonly));
        }
        Pair(one, two)
    }
    #[inline(always)]
    unsafe fn put(self, at: *mut u8) {
        // SAFETY: the caller's obligation.
        unsafe {
            asm!("stp {one:q}, {two:q}, [{at}]", at = in(reg) at,
                one = in(vreg) self.0, two = in(vreg) self.1,
                options(nostack, preserves_flags));
        }
    }
}

impl Unaligned for Block {
    #[inline(always)]
    unsafe fn get(at: *const u8) -> Block {
        let (one, two, three, four);
        // SAFETY: the caller's obligation.
        unsafe {
            asm!("ldp {one:q}, {two:q}, [{at}]", "ldp {three:q}, {four:q}, [{at}, #32]",
                at = in(reg) at, one = out(vreg) one, two = out(vreg) two,
                three = lateout(vreg) three, four = lateout(vreg) four,
                options(nostack, preserves_flags, readonly));
        }
        Block(Pair(one, two), Pair(three, four))
    }
    #[inline(always)]
    unsafe fn put(self, at: *mut u8) {
        let Block(Pair(one, two), Pair(three, four)) = self;
        // SAFETY: the caller's obligation.
        unsafe {
            asm!("stp {one:q}, {two:q}, [{at}]", "stp {three:q}, {four:q}, [{at}, #32]",
                at = in(reg) at, one = in(vreg) one, two = in(vreg) two,
                three = in(vreg) three, four = in(vreg) four,
                options(nostack, preserves_flags));
        }
    }
}

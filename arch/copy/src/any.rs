//! Loads and stores as the compiler generates them.

use super::Unaligned;

/// 16 bytes.
pub type Quad = [u64; 2];
/// 32 bytes.
pub type Pair = [u64; 4];
/// 64 bytes.
pub type Block = [u64; 8];

/// Returns 16 bytes of value `byte`.
#[inline(always)]
pub fn quad(byte: u8) -> Quad {
    [u64::from_ne_bytes([byte; 8]); 2]
}

#[inline(always)]
pub fn pair(quad: Quad) -> Pair {
    [quad[0]; 4]
}

#[inline(always)]
pub fn block(quad: Quad) -> Block {
    [quad[0]; 8]
}

macro_rules! unaligned {
    ($($type:ty)+) => { $(
        impl Unaligned for $type {
            #[inline(always)]
            unsafe fn get(at: *const u8) -> Self {
                // SAFETY: the caller's obligation.
                unsafe { at.cast::<Self>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn put(self, at: *mut u8) {
                // SAFETY: the caller's obligation.
                unsafe { at.cast::<Self>().write_unaligned(self) }
            }
        }
    )+ };
}

unaligned!(u16 u32 u64 Quad Pair Block);

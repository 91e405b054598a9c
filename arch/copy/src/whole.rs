//! Pieces that are loaded and stored at any address by one or two instructions.
//!
//! Kernels are compiled for aligned accesses only, since the stub runs with the MMU off, where there
//! are no others; so the compiler would take an unaligned load apart. These say which instruction it
//! is. On a host, for the tests, the compiler knows.

/// # Safety
/// Of both: as many bytes at `at` may be read, or written, and are normal memory.
pub trait Whole: Copy {
    /// Loads it.
    unsafe fn get(at: *const u8) -> Self;
    /// Stores it.
    unsafe fn put(self, at: *mut u8);
}

#[cfg(not(all(target_os = "none", target_arch = "aarch64")))]
mod imp {
    /// 16 bytes.
    pub type Quad = [u64; 2];

    /// All of them `byte`.
    #[inline(always)]
    pub fn all(byte: u8) -> Quad {
        [u64::from_ne_bytes([byte; 8]); 2]
    }

    macro_rules! whole {
        ($type:ty, $class:ident, $load:literal, $store:literal) => {
            impl super::Whole for $type {
                #[inline(always)]
                unsafe fn get(at: *const u8) -> Self {
                    // SAFETY: the caller's.
                    unsafe { at.cast::<Self>().read_unaligned() }
                }
                #[inline(always)]
                unsafe fn put(self, at: *mut u8) {
                    // SAFETY: the caller's.
                    unsafe { at.cast::<Self>().write_unaligned(self) }
                }
            }
        };
    }
    pub(super) use whole;
}

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
mod imp {
    use core::arch::aarch64::{uint8x16_t, vdupq_n_u8};

    /// 16 bytes.
    pub type Quad = uint8x16_t;

    /// All of them `byte`.
    #[inline(always)]
    pub fn all(byte: u8) -> Quad {
        // SAFETY: every AArch64 core of ours has the instruction.
        unsafe { vdupq_n_u8(byte) }
    }

    macro_rules! whole {
        ($type:ty, $class:ident, $load:literal, $store:literal) => {
            impl super::Whole for $type {
                #[inline(always)]
                unsafe fn get(at: *const u8) -> Self {
                    let value: Self;
                    // SAFETY: the caller's.
                    unsafe {
                        core::arch::asm!($load, value = lateout($class) value, at = in(reg) at,
                            options(nostack, preserves_flags, readonly));
                    }
                    value
                }
                #[inline(always)]
                unsafe fn put(self, at: *mut u8) {
                    // SAFETY: the caller's.
                    unsafe {
                        core::arch::asm!($store, value = in($class) self, at = in(reg) at,
                            options(nostack, preserves_flags));
                    }
                }
            }
        };
    }
    pub(super) use whole;
}

pub use imp::{Quad, all};
imp::whole!(u16, reg, "ldrh {value:w}, [{at}]", "strh {value:w}, [{at}]");
imp::whole!(u32, reg, "ldr {value:w}, [{at}]", "str {value:w}, [{at}]");
imp::whole!(u64, reg, "ldr {value}, [{at}]", "str {value}, [{at}]");
imp::whole!(Quad, vreg, "ldr {value:q}, [{at}]", "str {value:q}, [{at}]");

impl Whole for u8 {
    #[inline(always)]
    unsafe fn get(at: *const u8) -> u8 {
        // SAFETY: the caller's.
        unsafe { at.read() }
    }
    #[inline(always)]
    unsafe fn put(self, at: *mut u8) {
        // SAFETY: the caller's.
        unsafe { at.write(self) }
    }
}

/// Two of them, one behind the other.
impl<T: Whole> Whole for (T, T) {
    #[inline(always)]
    unsafe fn get(at: *const u8) -> Self {
        // SAFETY: the caller's, of both halves.
        unsafe { (T::get(at), T::get(at.add(size_of::<T>()))) }
    }
    #[inline(always)]
    unsafe fn put(self, at: *mut u8) {
        // SAFETY: the caller's, of both halves.
        unsafe {
            self.0.put(at);
            self.1.put(at.add(size_of::<T>()));
        }
    }
}

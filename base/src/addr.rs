//! Physical and virtual addresses.

use core::fmt;

/// Bytes of a page, the same in every ISA.
pub const PAGE: u64 = 4096;

/// A physical address. It names the same byte in every domain that can access it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PhysAddr(pub u64);

/// A virtual address of the kernel layout.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VirtAddr(pub u64);

/// The linear map: VA = PA + this constant in every domain, so a shared object has one address.
pub const VA_OFFSET: u64 = 0xffff_8000_0000_0000;

impl PhysAddr {
    /// Returns its address in the linear map.
    pub const fn to_virt(self) -> VirtAddr {
        VirtAddr(self.0.wrapping_add(VA_OFFSET))
    }
    pub const fn plus(self, bytes: u64) -> PhysAddr {
        PhysAddr(self.0 + bytes)
    }
    /// `align` is a power of two.
    pub const fn is_aligned(self, align: u64) -> bool {
        self.0 & (align - 1) == 0
    }
}

impl VirtAddr {
    /// Valid only for addresses in the linear map.
    pub const fn to_phys(self) -> PhysAddr {
        PhysAddr(self.0.wrapping_sub(VA_OFFSET))
    }
    pub const fn plus(self, bytes: u64) -> VirtAddr {
        VirtAddr(self.0 + bytes)
    }
}

impl fmt::Debug for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pa {:#x}", self.0)
    }
}

impl fmt::Debug for VirtAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "va {:#x}", self.0)
    }
}

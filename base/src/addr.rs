//! Physical and virtual addresses.

use core::fmt;

/// Bytes of a page, in every ISA.
pub const PAGE: u64 = 4096;

/// A physical address, the same byte in every domain that reaches it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PhysAddr(pub u64);

/// A virtual address of the kernel layout.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VirtAddr(pub u64);

/// The linear map: VA = PA + constant in every domain, so shared objects have one address.
pub const VA_OFFSET: u64 = 0xffff_8000_0000_0000;

impl PhysAddr {
    /// Where the linear map shows it.
    pub const fn to_virt(self) -> VirtAddr {
        VirtAddr(self.0.wrapping_add(VA_OFFSET))
    }
    /// `self + bytes`.
    pub const fn plus(self, bytes: u64) -> PhysAddr {
        PhysAddr(self.0 + bytes)
    }
    /// Multiple of `align` (a power of two)?
    pub const fn is_aligned(self, align: u64) -> bool {
        self.0 & (align - 1) == 0
    }
}

impl VirtAddr {
    /// What the linear map shows there; meaningless outside of it.
    pub const fn to_phys(self) -> PhysAddr {
        PhysAddr(self.0.wrapping_sub(VA_OFFSET))
    }
    /// `self + bytes`.
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

//! Memory of the test process in the role of a kernel's memory.

use std::vec;

use base::addr::{PhysAddr, VA_OFFSET};

/// Returns `bytes` zeroed bytes at a "physical" address `skew` past a 16 MiB boundary; never freed.
pub(crate) fn memory(bytes: u64, skew: u64) -> PhysAddr {
    let block = abi::boot::BLOCK;
    let space = vec![0u8; (bytes + skew + 2 * block) as usize].leak();
    let start = space.as_mut_ptr() as u64;
    let physical = start.wrapping_sub(VA_OFFSET).next_multiple_of(block) + skew;
    PhysAddr(physical)
}

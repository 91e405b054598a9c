//! A fictitious image, 1 MiB into the linear map.

use base::addr::VA_OFFSET;

use crate::types::ImageLayout;

pub fn layout() -> ImageLayout {
    let at = |start: u64, end: u64| (VA_OFFSET + start, VA_OFFSET + end);
    ImageLayout {
        text: at(0x10_0000, 0x18_0000),
        rodata: at(0x18_0000, 0x1a_0000),
        data: at(0x1a_0000, 0x1c_0000),
        boot_stack: at(0x1d_1000, 0x1e_0000),
        xdomain: at(0x17_f000, 0x18_0000),
    }
}

pub fn staging_pa() -> u64 {
    0
}

//! Sections of the running image, by symbols of the linker script.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::types::ImageLayout;

pub(super) static STAGING_PA: AtomicU64 = AtomicU64::new(0);

/// Address of a linker symbol, relative to the program counter.
macro_rules! symbol {
    ($name:literal) => {{
        let address: u64;
        // SAFETY: computes an address.
        unsafe {
            asm!(concat!("lla {}, ", $name), out(reg) address, options(nomem, nostack, pure))
        };
        address
    }};
}

pub fn layout() -> ImageLayout {
    ImageLayout {
        text: (symbol!("__text_start"), symbol!("__text_end")),
        rodata: (symbol!("__rodata_start"), symbol!("__rodata_end")),
        data: (symbol!("__data_start"), symbol!("__data_end")),
        boot_stack: (symbol!("__boot_stack_bottom"), symbol!("__boot_stack_top")),
        xdomain: (symbol!("__xdomain_start"), symbol!("__xdomain_end")),
    }
}

pub fn staging_pa() -> u64 {
    STAGING_PA.load(Ordering::Relaxed)
}

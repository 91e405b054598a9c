//! Sections of the running image, by symbols of the linker script.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::types::ImageLayout;

macro_rules! symbols {
    ($($name:ident),*) => {
        unsafe extern "C" {
            $(safe static $name: u8;)*
        }
    };
}

symbols!(
    __text_start,
    __text_end,
    __rodata_start,
    __rodata_end,
    __data_start,
    __data_end,
    __boot_stack_bottom,
    __boot_stack_top,
    __xdomain_start,
    __xdomain_end
);

pub(super) static STAGING_PA: AtomicU64 = AtomicU64::new(0);

pub fn layout() -> ImageLayout {
    let range =
        |start: &u8, end: &u8| (core::ptr::from_ref(start) as u64, core::ptr::from_ref(end) as u64);
    ImageLayout {
        text: range(&__text_start, &__text_end),
        rodata: range(&__rodata_start, &__rodata_end),
        data: range(&__data_start, &__data_end),
        boot_stack: range(&__boot_stack_bottom, &__boot_stack_top),
        xdomain: range(&__xdomain_start, &__xdomain_end),
    }
}

pub fn staging_pa() -> u64 {
    STAGING_PA.load(Ordering::Relaxed)
}

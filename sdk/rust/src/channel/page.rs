//! Memory that begins with a page.

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// A page.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
pub struct Page(#[allow(dead_code, reason = "its size")] [u8; PAGE]);

impl Page {
    pub const ZERO: Page = Page([0; PAGE]);
}

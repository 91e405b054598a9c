//! What the engine needs of a kernel besides the functions that wasmtime calls by name.

/// Address space and pages for programs, and the calling thread. Sizes are in bytes, and whole
/// pages.
#[derive(Clone, Copy)]
pub struct Platform {
    /// Makes code executable, given its address and size. Returns false if that fails.
    pub publish: fn(usize, usize) -> bool,
    /// Reserves address space. Returns its start.
    pub reserve: fn(usize) -> Option<usize>,
    /// Opens more bytes of a reserved space, those after its open part. They read as zeroes, and
    /// may be written. Returns false without memory.
    pub open: fn(usize, usize) -> bool,
    /// Frees a reserved space and its pages.
    pub release: fn(usize),
    /// Makes sure that all pages of an open range are allocated. Returns false without memory.
    pub touch: fn(usize, usize) -> bool,
    /// Number of the calling thread, different from those of all other threads that exist.
    pub thread: fn() -> usize,
    /// Lets other threads run for a moment.
    pub pause: fn(),
}

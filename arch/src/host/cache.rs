//! A host is coherent: nothing to do.

/// Bytes of a line.
pub const LINE: usize = 64;

/// Nothing.
pub fn clean(_va: usize, _bytes: usize) {}
/// Nothing.
pub fn invalidate(_va: usize, _bytes: usize) {}
/// Nothing.
pub fn clean_invalidate(_va: usize, _bytes: usize) {}
/// Nothing.
pub fn sync_code(_va: usize, _bytes: usize) {}

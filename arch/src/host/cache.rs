//! The host is coherent: nothing to do.

pub const LINE: usize = 64;

pub fn clean(_va: usize, _bytes: usize) {}
pub fn invalidate(_va: usize, _bytes: usize) {}
pub fn clean_invalidate(_va: usize, _bytes: usize) {}
pub fn sync_code(_va: usize, _bytes: usize) {}

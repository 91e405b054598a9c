//! Finds no frames: the host has its own backtraces.

pub fn fp() -> u64 {
    0
}

pub fn record(_fp: u64, _of_program: bool) -> u64 {
    0
}

pub fn is_readable(_va: u64) -> bool {
    false
}

//! A file as atomic words, mapped as long as the process lives. The only `unsafe` code of this
//! crate: no dependency offers a slice of atomics over a mapping.
#![allow(unsafe_code, reason = "see above")]

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use vm_memory::FileOffset;
use vm_memory::mmap::MmapRegion;

/// Maps the first `count` words of the file, which is extended (sparsely) if it is shorter.
pub fn map(path: &Path, count: usize) -> std::io::Result<&'static [AtomicU64]> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
    let bytes = count.saturating_mul(8);
    if file.metadata()?.len() < bytes as u64 {
        file.set_len(bytes as u64)?;
    }
    let region: MmapRegion<()> = MmapRegion::from_file(FileOffset::new(file, 0), bytes)
        .map_err(|e| std::io::Error::other(e.to_string()))?;
    let region: &'static MmapRegion<()> = Box::leak(Box::new(region));
    // SAFETY: the mapping is `bytes` long, page-aligned and never unmapped; any bits are a word,
    // and other processes write the file by whole words, or while no thread of this process reads
    // it.
    Ok(unsafe { std::slice::from_raw_parts(region.as_ptr().cast(), count) })
}

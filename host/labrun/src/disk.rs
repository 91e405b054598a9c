//! The disk of a board in the lab: a file in its folder, which outlives a run.

use anyhow::Context;
use deploy::ext2;
use std::io::ErrorKind;
use std::path::Path;

const IMAGE: &str = "disk.disk";
/// Linux's usual size of a block.
const BLOCK: u64 = 4096;
const BYTES: u64 = 16 << 20;

/// Creates an empty ext2 on the disk of the board that starts next in `folder`.
pub fn make(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    ext2::make_empty(&folder.join(IMAGE), BLOCK, BYTES)
}

/// Creates an ext2 with the contents of `from` on the disk of the board that starts next in
/// `folder`.
pub fn fill(folder: &Path, from: &Path) -> anyhow::Result<()> {
    ext2::make(&folder.join(IMAGE), BLOCK, from, Some(BYTES))
}

/// Removes the disk that an earlier run has left in `folder`: a file system on it would be mounted,
/// and its cache would take most of the file service's memory.
pub fn remove(folder: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(folder.join(IMAGE)) {
        Err(why) if why.kind() != ErrorKind::NotFound => {
            Err(why).with_context(|| format!("{}: {IMAGE} cannot be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

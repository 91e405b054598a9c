//! The disk of a board in the lab: a file in its folder, which outlives a run.

use anyhow::Context;
use builds::apps;
use deploy::{ext2, install};
use std::io::ErrorKind;
use std::path::Path;
use tree::place::Place;
use workbench::given::EXACT;

/// On the kernels' command line: the disk is the root.
pub const ROOT: &str = "root=disk ";
const IMAGE: &str = "disk.disk";
/// Linux's usual size of a block.
const BLOCK: u64 = 4096;
const BYTES: u64 = 16 << 20;

/// Creates an empty ext2 on the disk of the board that starts next in `folder`.
pub fn make(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    ext2::make_empty(&folder.join(IMAGE), BLOCK, BYTES)
}

/// Puts programs on the disk of the board that starts next in `folder`, which no host then sends
/// them to: the run is exact.
pub fn stage(place: &Place, board: &str, folder: &Path, names: &[&str]) -> anyhow::Result<()> {
    let board = board::read(&place.board_file(board))?;
    let bin = folder.join("staged").join("bin");
    if bin.exists() {
        std::fs::remove_dir_all(&bin).with_context(|| bin.display().to_string())?;
    }
    std::fs::create_dir_all(&bin).with_context(|| bin.display().to_string())?;
    for name in names {
        let built = apps::build_for_test(place, name)?;
        let key = &EXACT.program_key;
        for (isa, image) in install::images(place, &built.wasm, None, &board, key)? {
            let path = bin.join(format!("{name}.{}", isa.name()));
            std::fs::write(&path, image).with_context(|| path.display().to_string())?;
        }
    }
    ext2::make(&folder.join(IMAGE), BLOCK, &folder.join("staged"), Some(BYTES))
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

//! Images for Linux to replay, with what our own replay finds (`host/labrun/src/linux/replay.rs`).

use super::disk::Disk;
use super::torn::{any_cut, record};
use super::tree::{Tree, tree};
use crate::common::Solo;
use fs::Vfs;
use fs::any::AnyFs;
use fs::ext2::Ext2;
use std::fmt::Write;
use std::path::PathBuf;

/// Number of traces, and of cuts of each.
const IMAGES: (u64, u64) = (10, 4);

/// FNV-1a of 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The listing that lab/linux/replay.c prints.
fn listing(tree: &Tree) -> String {
    let mut text = String::new();
    for (path, contents) in tree {
        let line = match contents {
            None => writeln!(text, "d {path}"),
            Some(bytes) => writeln!(text, "f {path} {} {:016x}", bytes.len(), hash(bytes)),
        };
        line.unwrap();
    }
    text
}

/// Returns whether the image does not contain this without a replay.
fn needs_replay(image: Vec<u8>, found: &Tree) -> bool {
    let vfs = Vfs::with_root(3, AnyFs::Ext2(Box::new(Ext2::new(0, true))));
    let solo = Solo { disk: Some(Disk::new(image, 1)), vfs, ..Solo::new(0) };
    // The state may be inconsistent.
    let before = std::panic::AssertUnwindSafe(|| tree(&mut solo.mount()));
    std::panic::catch_unwind(before).ok().as_ref() != Some(found)
}

/// The environment names the folder and the first seed.
#[test]
#[ignore = "for `./pen test lab.ext2-replay`"]
fn images_are_made_for_linux_to_replay() {
    let folder = std::env::var_os("PEN_EXT2_IMAGES").map(PathBuf::from).unwrap();
    let first: u64 = std::env::var("PEN_EXT2_SEED").unwrap().parse().unwrap();
    let mut needed = 0;
    for seed in first..first + IMAGES.0 {
        let trace = record(seed, 40 + seed % 160);
        for cut in 0..IMAGES.1 {
            let (_, image) = any_cut(&trace, seed ^ cut << 32);
            let name = folder.join(format!("{seed}-{cut}.image"));
            std::fs::write(&name, &image).unwrap();
            let found = tree(&mut Solo::on_disk(image.clone(), seed, 0).mount());
            std::fs::write(name.with_extension("list"), listing(&found)).unwrap();
            needed += u64::from(needs_replay(image, &found));
        }
    }
    println!("{needed} of {} images need a replay", IMAGES.0 * IMAGES.1);
    assert!(2 * needed > IMAGES.0 * IMAGES.1);
}

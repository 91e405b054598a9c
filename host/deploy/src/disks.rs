//! The file systems on a board's disks, before the board starts.
//!
//! The image of a disk is `run/NAME/DEVICE.disk`, and a user may put one there. Kernels can only
//! read an ext2 that has errors or no journal (docs/design/files.md), so such an image is mended.
//!
//! Contract: only an ext2 with features that kernels can write is changed, only if they could not
//! write it as it is, and only by `e2fsck -p` and `tune2fs -j`, which keep all files. An image that
//! another board uses, or that this host has mounted, is not changed.

use crate::ext2::{self, Superblock};
use anyhow::{Context, ensure};
use board::{Board, DeviceKind};
use std::fs::File;
use std::path::Path;
use workbench::instance::Instance;
use workbench::machine;

/// What was done to an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    repaired: bool,
    journal: bool,
}

impl Mended {
    /// Reports it to the user, if there is anything to report.
    pub fn report(self, image: &Path) {
        let what = match (self.repaired, self.journal) {
            (false, false) => return,
            (true, false) => "e2fsck has repaired its file system",
            (false, true) => "its ext2 has a journal now, which kernels need to write to it",
            (true, true) => "e2fsck has repaired its ext2, which has a journal now",
        };
        eprintln!("pen: {}: {what}", image.display());
    }
}

/// Mends the images of a board that is not running, but that of the disk `except`. Reports what was
/// done; what could not be done is reported too, and does not keep the board from starting.
pub fn mend_all(instance: &Instance, board: &Board, except: Option<&str>) {
    let disks = board.devices.iter().filter(|device| device.kind == DeviceKind::Block);
    for device in disks.filter(|device| Some(device.name.as_str()) != except) {
        let image = instance.path(&machine::disk(&device.name));
        let found = Superblock::read(&image);
        if !found.is_some_and(|found| found.is_supported() && !found.is_writable()) {
            continue;
        }
        match mend(&image) {
            Ok(done) => done.report(&image),
            Err(why) => eprintln!("pen: {why:#}\npen: kernels can only read this disk"),
        }
    }
}

/// Repairs the file system of an image if it has errors, and gives it a journal if it has none.
pub fn mend(image: &Path) -> anyhow::Result<Mended> {
    let shown = image.display();
    let file = File::options().read(true).write(true).open(image);
    let file = file.with_context(|| shown.to_string())?;
    // The soc of a board that uses the image has this lock.
    file.try_lock().with_context(|| format!("{shown}: another board uses it"))?;
    ensure!(!is_mounted(image), "{shown}: it is mounted on this host: unmount it first");
    let repaired = ext2::repair(image)
        .with_context(|| format!("{shown}: run `e2fsck {shown}`, which asks before it repairs"))?;
    let journal = ext2::add_journal(image).with_context(|| {
        format!(
            "{shown}: no room for a journal of 1,024 blocks: remove some of its files, or enlarge \
             it: `truncate -s +8M {shown} && e2fsck -f {shown} && resize2fs {shown}`"
        )
    })?;
    Ok(Mended { repaired, journal })
}

/// Returns whether a loop device of this host uses the image, so that it may be mounted.
fn is_mounted(image: &Path) -> bool {
    let Ok(image) = image.canonicalize() else { return false };
    let Ok(devices) = std::fs::read_dir("/sys/block") else { return false };
    let backing = devices.flatten().map(|device| device.path().join("loop/backing_file"));
    backing
        .filter_map(|file| std::fs::read(file).ok())
        .any(|path| path.trim_ascii_end() == image.as_os_str().as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use tempfile::TempDir;

    const FILE: &str = "mine";

    /// Makes an image with a file of `bytes` bytes, by `mke2fs` with `options`.
    fn made(folder: &TempDir, options: &[&str], size: u64, bytes: usize) -> std::path::PathBuf {
        let (files, image) = (folder.path().join("files"), folder.path().join("disk.disk"));
        std::fs::create_dir_all(&files).unwrap();
        std::fs::write(files.join(FILE), vec![7; bytes]).unwrap();
        File::create(&image).unwrap().set_len(size).unwrap();
        let files = files.display().to_string();
        let all = [&["-q", "-F", "-b", "1024", "-m", "0", "-d", &files], options].concat();
        ext2::tool("mke2fs", &all, &image, 0).unwrap();
        image
    }

    /// Mends the images of a board in the folder, as a start does.
    fn mend_in(folder: &TempDir, except: Option<&str>) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards/duo.toml");
        let instance = Instance::at(folder.path().to_path_buf());
        mend_all(&instance, &board::read(&file).unwrap(), except);
    }

    #[track_caller]
    fn has_its_file(image: &Path, bytes: usize) {
        ext2::tool("e2fsck", &["-fn"], image, 0).unwrap();
        assert!(ext2::content(image, FILE).unwrap() == vec![7; bytes]);
    }

    #[test]
    fn an_ext2_without_a_journal_gets_one_once_and_keeps_its_files() {
        let folder = tempfile::tempdir().unwrap();
        // Revision 0 has no features, so a journal needs revision 1.
        for options in [&["-t", "ext2"][..], &["-t", "ext2", "-r", "0"]] {
            let image = made(&folder, options, 4 << 20, 10);
            let before = std::fs::read(&image).unwrap();
            assert!(!Superblock::read(&image).unwrap().is_writable());
            mend_in(&folder, Some("disk"));
            assert!(std::fs::read(&image).unwrap() == before, "the system's disk");
            mend_in(&folder, None);
            let after = std::fs::read(&image).unwrap();
            assert!(Superblock::read(&image).unwrap().is_writable());
            has_its_file(&image, 10);
            mend_in(&folder, None);
            assert!(std::fs::read(&image).unwrap() == after, "a second time");
            assert_eq!(mend(&image).unwrap(), Mended::default());
        }
    }

    #[test]
    fn errors_are_repaired() {
        let folder = tempfile::tempdir().unwrap();
        for (kind, journal) in [("ext2", true), ("ext3", false)] {
            let image = made(&folder, &["-t", kind], 4 << 20, 10);
            ext2::change(&image, &["ssv state 2".to_string()]).unwrap();
            assert_eq!(mend(&image).unwrap(), Mended { repaired: true, journal });
            has_its_file(&image, 10);
            ext2::change(&image, &["ssv state 2".to_string()]).unwrap();
            mend_in(&folder, None);
            assert!(Superblock::read(&image).unwrap().is_writable());
        }
    }

    #[test]
    fn a_nearly_full_disk_gets_the_smallest_journal() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = 36_500_000;
        let image = made(&folder, &["-t", "ext2"], 40 << 20, bytes);
        assert_eq!(mend(&image).unwrap(), Mended { repaired: false, journal: true });
        has_its_file(&image, bytes);
    }

    #[test]
    fn a_disk_that_cannot_be_mended_keeps_its_files_and_the_error_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |image: &Path, what: &str| {
            let before = std::fs::read(image).unwrap();
            let why = format!("{:#}", mend(image).unwrap_err());
            assert!(why.contains(what), "{why}");
            mend_in(&folder, None);
            assert!(std::fs::read(image).unwrap() == before, "{what}");
        };
        let image = made(&folder, &["-t", "ext2"], 1 << 20, 10);
        refused(&image, "disk.disk: no room for a journal");
        has_its_file(&image, 10);
        // What the error says helps.
        File::options().write(true).open(&image).unwrap().set_len(9 << 20).unwrap();
        ext2::tool("e2fsck", &["-fp"], &image, 0).unwrap();
        ext2::tool("resize2fs", &[], &image, 0).unwrap();
        assert!(mend(&image).unwrap().journal);
        let image = made(&folder, &["-t", "ext2"], 4 << 20, 3_700_000);
        refused(&image, "disk.disk: no room for a journal");
        has_its_file(&image, 3_700_000);
        let image = made(&folder, &["-t", "ext2"], 4 << 20, 10);
        let board = File::open(&image).unwrap();
        board.try_lock().unwrap();
        refused(&image, "disk.disk: another board uses it");
        drop(board);
        ext2::change(&image, &["clri <2>".into(), "ssv state 2".into()]).unwrap();
        let why = format!("{:#}", mend(&image).unwrap_err());
        assert!(why.contains("disk.disk: run `e2fsck /"), "{why}");
    }

    #[test]
    fn images_that_kernels_write_or_cannot_mount_are_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        mend_in(&folder, None);
        assert!(!folder.path().join("disk.disk").exists());
        let untouched = |image: &Path| {
            let before = std::fs::read(image).unwrap();
            mend_in(&folder, None);
            assert!(std::fs::read(image).unwrap() == before);
        };
        let image = made(&folder, &["-t", "ext3"], 4 << 20, 10);
        // A replay is the kernels' task.
        ext2::change(&image, &["feature needs_recovery".to_string()]).unwrap();
        untouched(&image);
        for kind in [&["-t", "ext4"][..], &["-t", "ext4", "-O", "^has_journal"]] {
            untouched(&made(&folder, kind, 4 << 20, 10));
        }
        untouched(&made(&folder, &["-t", "ext2", "-O", "metadata_csum"], 4 << 20, 10));
        let file = File::create(&image).unwrap();
        untouched(&image);
        file.write_all_at(b"a text, which is not a file system", 0).unwrap();
        untouched(&image);
    }
}

//! The system on a board's disk: an ext2 root with all programs of `apps/apps.toml` and the files
//! in `apps/root`. The console of such a board runs the shell.
//!
//! ```text
//! run/NAME/  system/    what is to be on the disk: bin/PROGRAM.ISA, sealed for this board, etc/...
//!            disk.disk  made of it once; later only programs change there, when they did here
//! ```
//! Users' files persist: a disk is created only if there is none, or one without any contents.
//! `etc/system` on it identifies its programs. A board for one program gets a copy of the disk
//! ([`lend`]).

use crate::ext2;
use crate::{disks, install};
use anyhow::{Context, bail};
use board::{Board, DeviceKind};
use builds::apps;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};
use tree::place::Place;
use tree::progress::Step;
use workbench::instance::Instance;
use workbench::run_files::KEY_FILE;

/// Its device.
pub const DISK: &str = "disk";
/// Size of a new disk in bytes; only used blocks take space on the host.
const BYTES: u64 = 1 << 30;
/// Small blocks, because the file service's memory is bounded, and its cache is a number of blocks.
const BLOCK: u64 = 2048;
/// Files of the tree for the disk.
const ROOT: &str = "apps/root";
/// Directories that programs expect.
const FOLDERS: &[&str] = &["bin", "dev", "etc", "home", "mnt", "proc", "sys", "tmp"];
/// The file that identifies the programs on a disk.
const VERSION: &str = "etc/system";
/// Start of that file on our disks.
const OURS: &str = "penumbra ";

/// Returns whether the board can have a system.
pub fn fits(board: &Board) -> bool {
    let disk = |d: &board::Device| d.kind == DeviceKind::Block && d.name == DISK;
    board.devices.iter().any(disk)
}

/// Returns the command line of kernels with a system.
pub fn arguments(board: &str) -> String {
    arguments_without(&format!("init=/bin/sh {board}"))
}

/// Returns the command line for a disk without programs.
fn arguments_without(rest: &str) -> String {
    format!("root={DISK} {rest}").trim_end().to_string()
}

/// Returns the version file of a board's disk, if the disk is one of ours.
fn version_on(instance: &Instance) -> Option<Vec<u8>> {
    let image = instance.path(&format!("{DISK}.disk"));
    let known = if image.exists() { ext2::content(&image, VERSION).ok() } else { None };
    known.filter(|known| known.starts_with(OURS.as_bytes()))
}

/// Returns whether a board has a system that this process may copy.
pub fn is_at(instance: &Instance) -> bool {
    instance.soc().is_none() && version_on(instance).is_some()
}

/// Creates or updates the disk in the folder of a board that is not running. It has `programs`,
/// sealed by `key`.
pub fn prepare(
    place: &Place,
    instance: &Instance,
    board: &Board,
    programs: &[apps::Built],
    key: &[u8; 32],
) -> anyhow::Result<()> {
    let step = Step::begin_stage("disk", "preparing the system's disk");
    let files = bin(place, programs, board, key)?;
    let version = version(&files);
    let image = instance.path(&format!("{DISK}.disk"));
    let known = version_on(instance);
    match known {
        None => check_blank(&image)?,
        Some(_) => mend(&image)?,
    }
    if known.as_deref() != Some(version.as_bytes()) {
        let staged = instance.path("system");
        stage(place, &files, &version, &staged)?;
        match known {
            // It may contain users' files.
            Some(_) => renew(&image, &staged)?,
            None => make(&image, &staged)?,
        }
    }
    step.done();
    Ok(())
}

/// Creates the disk of a board for one program: a copy of the disk in `own`, the board's own
/// folder, with its key. With `programs`, it has those, as [`prepare`] provides them; otherwise, if
/// `own` has no disk, the new one is empty. Returns the command line of its kernels.
pub fn lend(
    place: &Place,
    own: &Instance,
    instance: &Instance,
    board: &Board,
    programs: Option<&[apps::Built]>,
) -> anyhow::Result<String> {
    let image = instance.path(&format!("{DISK}.disk"));
    if is_at(own) {
        instance.make_folder()?;
        instance.write_secret(KEY_FILE, &own.program_key()?)?;
        copy_image(&own.path(&format!("{DISK}.disk")), &image)
            .context(image.display().to_string())?;
    }
    if let Some(programs) = programs {
        prepare(place, instance, board, programs, &instance.lasting_key()?)?;
    } else if image.exists() {
        mend(&image)?;
    }
    if image.exists() {
        return Ok(arguments(&board.arguments));
    }
    let staged = instance.path("system");
    stage(place, &[], OURS, &staged)?;
    ext2::make(&image, BLOCK, &staged, Some(BYTES))?;
    Ok(arguments_without(&board.arguments))
}

/// Repairs the system's disk and gives it a journal: programs must be able to write to it.
fn mend(image: &Path) -> anyhow::Result<()> {
    let done = disks::mend(image).context("the disk of the system; move it away to start over")?;
    done.report(image);
    Ok(())
}

/// Refuses to make a disk in place of an image that has contents.
fn check_blank(image: &Path) -> anyhow::Result<()> {
    if is_blank(image).with_context(|| image.display().to_string())? {
        return Ok(());
    }
    bail!(
        "{}: it is not a disk of ours, and a system would replace what is on it: move it away for \
         a new one, or start the board with --bare",
        image.display()
    )
}

/// Returns whether there is no image, or one that has only zeros.
fn is_blank(image: &Path) -> std::io::Result<bool> {
    let mut file = match File::open(image) {
        // A link that leads nowhere is not replaced.
        Err(why) if why.kind() == ErrorKind::NotFound && image.symlink_metadata().is_err() => {
            return Ok(true);
        }
        file => file?,
    };
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        at = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(true),
            Err(why) => return Err(why.into()),
        };
        let read = file.read(&mut buffer)?;
        if buffer[..read].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += read as u64;
    }
}

/// Creates the disk from `staged`. An interruption leaves no half of one.
fn make(image: &Path, staged: &Path) -> anyhow::Result<()> {
    // The image may be a link to another place.
    let image = image.canonicalize().unwrap_or_else(|_| image.to_path_buf());
    let new = image.with_extension(format!("new-{}", std::process::id()));
    ext2::make(&new, BLOCK, staged, Some(BYTES))?;
    std::fs::rename(&new, &image).with_context(|| image.display().to_string())
}

/// Copies a sparse image: instantly if the file system can share blocks, otherwise without the
/// holes.
fn copy_image(from: &Path, to: &Path) -> std::io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    if rustix::fs::ioctl_ficlone(&to, &from).is_ok() {
        return Ok(());
    }
    to.set_len(from.metadata()?.len())?;
    let mut at = 0;
    loop {
        let data = match rustix::fs::seek(&from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(()),
            Err(why) => return Err(why.into()),
        };
        at = rustix::fs::seek(&from, SeekFrom::Hole(data))?;
        from.seek(std::io::SeekFrom::Start(data))?;
        to.seek(std::io::SeekFrom::Start(data))?;
        std::io::copy(&mut (&from).take(at - data), &mut to)?;
    }
}

/// Returns the files for `bin`: names and contents.
fn bin(
    place: &Place,
    programs: &[apps::Built],
    board: &Board,
    key: &[u8; 32],
) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let applets = place.target.join("apps").join("applets");
    let names = std::fs::read(&applets).context(applets.display().to_string())?;
    let mut files = vec![(".applets".to_string(), names)];
    for program in programs {
        for (isa, image) in install::images(place, &program.wasm, None, board, key)? {
            files.push((format!("{}.{}", program.name, isa.name()), image));
        }
    }
    Ok(files)
}

/// Returns the version file for these programs.
fn version(files: &[(String, Vec<u8>)]) -> String {
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    format!("{OURS}{:016x}\n", hasher.finish())
}

/// Puts all files for the disk into `staged`.
fn stage(
    place: &Place,
    files: &[(String, Vec<u8>)],
    version: &str,
    staged: &Path,
) -> anyhow::Result<()> {
    if staged.exists() {
        std::fs::remove_dir_all(staged).context(staged.display().to_string())?;
    }
    for folder in FOLDERS {
        let folder = staged.join(folder);
        std::fs::create_dir_all(&folder).context(folder.display().to_string())?;
    }
    copy(&place.root.join(ROOT), staged)?;
    for (name, bytes) in files {
        let path = staged.join("bin").join(name);
        std::fs::write(&path, bytes).context(path.display().to_string())?;
    }
    let path = staged.join(VERSION);
    std::fs::write(&path, version).context(path.display().to_string())
}

/// Copies a folder recursively.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).context(to.display().to_string())?;
    for entry in std::fs::read_dir(from).context(from.display().to_string())? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            std::fs::copy(&path, &target).context(path.display().to_string())?;
        }
    }
    Ok(())
}

/// Replaces the programs on the disk by the staged ones.
fn renew(image: &Path, staged: &Path) -> anyhow::Result<()> {
    // A disk that was changed by hand can be checked further by hand.
    ext2::tool("e2fsck", &["-fp"], image, 1)?;
    let mut files = vec![PathBuf::from(VERSION)];
    for entry in std::fs::read_dir(staged.join("bin"))? {
        files.push(Path::new("bin").join(entry?.file_name()));
    }
    let one = |path: &PathBuf| {
        let folder = path.parent().unwrap_or(Path::new("")).display().to_string();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let write = format!("write \"{}\" {name}", staged.join(path).display());
        [format!("cd /{folder}"), format!("rm {name}"), write]
    };
    ext2::change(image, &files.iter().flat_map(one).collect::<Vec<String>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_disk_is_renewed_and_keeps_what_is_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let (staged, image) = (folder.path().join("staged"), folder.path().join("it.disk"));
        let put = |path: &str, text: &str| {
            let path = staged.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("bin/sh.aarch64", "first");
        put("home/mine", "kept");
        put(VERSION, "penumbra 1\n");
        ext2::make(&image, 1024, &staged, Some(4 << 20)).unwrap();
        std::fs::remove_dir_all(staged.join("home")).unwrap();
        put("bin/sh.aarch64", "second, and longer");
        put("bin/new.riscv64", "new");
        put(VERSION, "penumbra 2\n");
        renew(&image, &staged).unwrap();
        let content = |path| String::from_utf8(ext2::content(&image, path).unwrap()).unwrap();
        assert_eq!(content("bin/sh.aarch64"), "second, and longer");
        assert_eq!(content("bin/new.riscv64"), "new");
        assert_eq!(content("home/mine"), "kept");
        assert_eq!(content(VERSION), "penumbra 2\n");
        ext2::tool("e2fsck", &["-fn"], &image, 0).unwrap();
    }

    #[test]
    fn only_an_image_without_contents_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (staged, image) = (folder.path().join("staged"), folder.path().join("it.disk"));
        std::fs::create_dir_all(staged.join("etc")).unwrap();
        std::fs::write(staged.join(VERSION), OURS).unwrap();
        check_blank(&image).unwrap();
        let file = File::create(&image).unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(&[0; 5000], 3 << 20).unwrap();
        check_blank(&image).unwrap();
        // A user may keep the image elsewhere.
        let link = folder.path().join("link.disk");
        std::os::unix::fs::symlink(&image, &link).unwrap();
        make(&link, &staged).unwrap();
        assert!(link.is_symlink() && ext2::content(&image, VERSION).unwrap() == OURS.as_bytes());
        let why = check_blank(&link).unwrap_err().to_string();
        assert!(why.contains("link.disk: it is not a disk of ours"), "{why}");
        file.write_all_at(b"x", (8 << 20) - 1).unwrap();
        assert!(!is_blank(&image).unwrap());
    }

    #[test]
    fn a_lent_disk_is_a_copy_with_its_key_and_the_own_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Instance::at(folder.path().join(name));
        let (own, lent, other) = (at("own"), at("lent"), at("other"));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let place = Place { root, ..Place::find().unwrap() };
        let board = board::read(&place.root.join("boards/duo.toml")).unwrap();
        let staged = folder.path().join("staged");
        std::fs::create_dir_all(staged.join("etc")).unwrap();
        std::fs::write(staged.join(VERSION), "penumbra 1\n").unwrap();
        std::fs::write(staged.join("mine"), "kept").unwrap();
        let key = own.lasting_key().unwrap();
        ext2::make(&own.path("disk.disk"), 1024, &staged, Some(4 << 20)).unwrap();
        assert_eq!(lend(&place, &own, &lent, &board, None).unwrap(), arguments(""));
        assert_eq!(lent.program_key().unwrap(), key);
        ext2::change(&lent.path("disk.disk"), &["rm mine".to_string()]).unwrap();
        assert!(ext2::content(&lent.path("disk.disk"), "mine").unwrap().is_empty());
        assert_eq!(ext2::content(&own.path("disk.disk"), "mine").unwrap(), b"kept");
        // Without a disk: an empty one, and no shell.
        let none = at("none");
        assert_eq!(lend(&place, &none, &other, &board, None).unwrap(), "root=disk");
        assert_eq!(std::fs::metadata(other.path("disk.disk")).unwrap().len(), BYTES);
        assert!(is_at(&other) && !is_at(&none));
    }

    #[test]
    fn a_copy_has_the_same_bytes_and_holes() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let file = File::create(&from).unwrap();
        file.set_len(64 << 20).unwrap();
        for at in [0, 5 << 20, (64 << 20) - 3] {
            file.write_all_at(b"abc", at).unwrap();
        }
        copy_image(&from, &to).unwrap();
        assert!(std::fs::read(&from).unwrap() == std::fs::read(&to).unwrap());
        let blocks =
            |path| std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap());
        assert!(blocks(&to) <= blocks(&from) + 16, "{} of {}", blocks(&to), blocks(&from));
        // A file that ends with a hole.
        file.set_len(80 << 20).unwrap();
        copy_image(&from, &to).unwrap();
        assert_eq!(std::fs::metadata(&to).unwrap().len(), 80 << 20);
        assert!(std::fs::read(&from).unwrap() == std::fs::read(&to).unwrap());
    }

    #[test]
    fn the_command_line_keeps_what_the_board_says() {
        assert_eq!(arguments(""), "root=disk init=/bin/sh");
        assert_eq!(arguments("twins=on run=x"), "root=disk init=/bin/sh twins=on run=x");
    }
}

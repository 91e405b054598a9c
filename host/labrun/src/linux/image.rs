//! The guest's initial RAM disk: our programs, busybox, the modules that `lab/linux/modules` names.
//!
//! It is rebuilt when a source, the list or the kernel has changed.

use super::packages::Kernel;
use super::toolbox::ToolError;
use super::{Folders, compile, layout};
use cpio::NewcBuilder;
use cpio::newc::{ModeFileType, trailer};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why there is no image.
#[derive(Debug, Error)]
pub enum ImageError {
    /// A tool failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A file cannot be used.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    /// A line of the list is invalid.
    #[error("lab/linux/modules: `{0}` is not a line of the form `GROUP PATH`")]
    Line(String),
}

type Outcome<T> = Result<T, ImageError>;

fn file<T>(path: &Path, result: std::io::Result<T>) -> Outcome<T> {
    result.map_err(|e| ImageError::File(path.to_path_buf(), e))
}

/// A module: its path in the guest, its file here.
type Module = (String, PathBuf);

/// Builds what is not up to date. Returns the image's path.
pub fn build(folders: &Folders, kernel: &Kernel) -> Outcome<PathBuf> {
    let (built, image) = (folders.built(), folders.base.join("initrd"));
    let (stamp, state) = (folders.base.join("initrd.stamp"), digest(folders, kernel)?);
    if image.exists() && std::fs::read_to_string(&stamp).is_ok_and(|text| text == state) {
        return Ok(image);
    }
    file(&built, std::fs::create_dir_all(&built))?;
    compile::programs(folders)?;
    let driver = compile::driver(folders, kernel)?;
    let list = folders.sources.join("modules");
    let modules =
        modules(&file(&list, std::fs::read_to_string(&list))?, &kernel.modules(), &driver)?;
    let mut bytes = Vec::new();
    file(&image, fill(&mut bytes, &built, &kernel.busybox(), &modules))?;
    file(&image, std::fs::write(&image, bytes))?;
    file(&stamp, std::fs::write(&stamp, state))?;
    Ok(image)
}

/// Returns a hash of what the image depends on.
fn digest(folders: &Folders, kernel: &Kernel) -> Outcome<String> {
    let mut hasher = DefaultHasher::new();
    (&kernel.release, layout::header()).hash(&mut hasher);
    let shared = folders.sources.join("../../apps/light");
    for folder in [folders.sources.clone(), folders.sources.join("dma"), shared] {
        let entries = file(&folder, std::fs::read_dir(&folder))?.flatten();
        let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).filter(|p| p.is_file()).collect();
        paths.sort();
        for path in paths {
            (path.file_name(), file(&path, std::fs::read(&path))?).hash(&mut hasher);
        }
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Returns the list's modules: those of the kernel have a folder in their path, ours does not.
fn modules(list: &str, kernel: &Path, driver: &Path) -> Outcome<Vec<Module>> {
    let mut modules: Vec<Module> = Vec::new();
    for line in list.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [group, path] = words[..] else { return Err(ImageError::Line(line.to_string())) };
        let ending = if path.ends_with(".xz") { "ko.xz" } else { "ko" };
        let before = format!("modules/{group}-");
        let number = modules.iter().filter(|(name, _)| name.starts_with(&before)).count();
        let source = if path.contains('/') { kernel.join(path) } else { driver.to_path_buf() };
        modules.push((format!("{before}{number:02}.{ending}"), source));
    }
    Ok(modules)
}

/// Writes the archive: reproducible, owned by root, dated 1970.
fn fill(
    mut out: impl Write,
    built: &Path,
    busybox: &Path,
    modules: &[Module],
) -> std::io::Result<()> {
    let mut entry = entries();
    for folder in ["bin", "dev", "mnt", "modules", "proc", "sys", "tmp"] {
        entry(folder, ModeFileType::Directory, 0o755).write(&mut out, 0).finish()?;
    }
    // The kernel opens it as the standard files of process 1, before anything is mounted.
    let console = entry("dev/console", ModeFileType::Char, 0o600).rdev_major(5).rdev_minor(1);
    console.write(&mut out, 0).finish()?;
    let programs =
        ["init", "bench", "replay", "tiny"].map(|name| (name.to_string(), built.join(name)));
    let shell = [("bin/busybox".to_string(), busybox.to_path_buf())];
    for (name, path) in programs.iter().chain(&shell).chain(modules) {
        add(&mut out, entry(name, ModeFileType::Regular, 0o755), path)?;
    }
    trailer(out).map(drop)
}

/// Returns a function that begins entries with consecutive inode numbers.
fn entries() -> impl FnMut(&str, ModeFileType, u32) -> NewcBuilder {
    let mut numbers = 1..;
    move |name, kind, mode| {
        let builder = NewcBuilder::new(name).ino(numbers.next().unwrap_or(0));
        builder.mode(mode).set_mode_file_type(kind)
    }
}

/// Adds a file.
fn add(out: impl Write, entry: NewcBuilder, path: &Path) -> std::io::Result<()> {
    let bytes = std::fs::read(path)
        .map_err(|e| std::io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    let size = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
    let mut writer = entry.write(out, size);
    writer.write_all(&bytes)?;
    writer.finish().map(drop)
}

/// Writes an archive with these files in `/images`. The kernel unpacks one archive after the other.
pub fn add_images(mut out: impl Write, images: &[PathBuf]) -> std::io::Result<()> {
    let mut entry = entries();
    entry("images", ModeFileType::Directory, 0o755).write(&mut out, 0).finish()?;
    for path in images {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let entry = entry(&format!("images/{name}"), ModeFileType::Regular, 0o644);
        add(&mut out, entry, path)?;
    }
    trailer(out).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_numbered_in_their_group() {
        let list = "# comment\next2 kernel/a.ko.xz\n\next2 kernel/b.ko\ndma ours.ko\n";
        let found = modules(list, Path::new("/k"), Path::new("/d/ours.ko")).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["modules/ext2-00.ko.xz", "modules/ext2-01.ko", "modules/dma-00.ko"]);
        assert_eq!(found[1].1, Path::new("/k/kernel/b.ko"));
        assert_eq!(found[2].1, Path::new("/d/ours.ko"));
        assert!(modules("ext2\n", Path::new("/k"), Path::new("/d")).is_err());
    }

    #[test]
    fn every_module_of_the_tree_s_list_has_a_group() {
        let list = include_str!("../../../../lab/linux/modules");
        let found = modules(list, Path::new("/k"), Path::new("/d")).unwrap();
        assert!(found.iter().any(|(_, path)| path.ends_with("brd.ko.xz")));
    }
}

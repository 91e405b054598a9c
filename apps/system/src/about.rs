//! Metadata of files.

use penumbra::{Errno, Stat};

/// Returns the metadata of the file at a path. A symbolic link is followed if `follow` is set and
/// it leads to a file.
pub fn about(path: &str, follow: bool) -> Result<Stat, Errno> {
    match stat(path, follow) {
        Err(why) if follow && why != Errno::LOOP => stat(path, false),
        found => found,
    }
}

#[cfg(target_os = "wasi")]
fn stat(path: &str, follow: bool) -> Result<Stat, Errno> {
    let full = if path.is_empty() { Err(Errno::NOENT) } else { Ok(path) };
    Stat::of(&crate::look::absolute(full?).map_err(|_| Errno::INVAL)?, follow)
}

/// The host's metadata, for tests.
#[cfg(not(target_os = "wasi"))]
fn stat(path: &str, follow: bool) -> Result<Stat, Errno> {
    use penumbra::Kind;
    use std::io::ErrorKind;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let found = if follow { std::fs::metadata(path) } else { std::fs::symlink_metadata(path) };
    let found = found.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::PermissionDenied => Errno::ACCES,
        _ if error.raw_os_error() == Some(40) => Errno::LOOP,
        _ => Errno::IO,
    })?;
    let kind = match found.file_type() {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_file() => Kind::File,
        kind if kind.is_symlink() => Kind::Link,
        kind if kind.is_char_device() => Kind::Character,
        kind if kind.is_block_device() => Kind::Block,
        _ => Kind::Stream,
    };
    let modified = u64::try_from(found.mtime()).unwrap_or(0).saturating_mul(1_000_000_000);
    let modified = modified.saturating_add(u64::try_from(found.mtime_nsec()).unwrap_or(0));
    let (links, node) = (found.nlink(), (found.dev(), found.ino()));
    Ok(Stat { kind, links, size: found.len(), modified, node })
}

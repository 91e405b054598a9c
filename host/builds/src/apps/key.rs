//! The inputs of a program's build as a text: when it differs, the program is built again.

use super::compile::{Tools, settings};
use super::{App, AppError, Source};
use std::path::{Path, PathBuf};
use tree::place::Place;

/// Folders and files that count for every program of the tree.
const COMMON: &[&str] = &["sdk/c"];
/// The same for those in Rust.
const RUST: &[&str] = &["Cargo.toml", "Cargo.lock", "sdk/rust"];

/// The entry, the compilers and how they are called, and a sum of each source.
pub fn key(place: &Place, app: &App, tools: &Tools) -> Result<String, AppError> {
    let (tools, settings) = (&tools.versions, settings(app));
    let (source, features) = (&app.source, app.features());
    let text = format!("{source:?}\n{features:?}\n{tools}\n{settings}\nnames: {}\n", app.names);
    let own = match &app.source {
        Source::Rust { package, folder } => vec![super::crate_folder(package, folder.as_deref())],
        Source::Crate { .. } => vec![],
        Source::C { folder, .. } => vec![folder.clone()],
        // With the headers beside them.
        Source::Published(it) => {
            let folders = it.ours.iter().filter_map(|file| file.parent());
            let headers = folders.map(|folder| folder.join("include"));
            let headers = headers.filter(|folder| place.root.join(folder).exists());
            it.ours.iter().cloned().chain(headers).collect()
        }
    };
    let rust = matches!(app.source, Source::Rust { .. });
    let also = RUST.iter().filter(|_| rust);
    let roots = COMMON.iter().chain(also).map(PathBuf::from).chain(own);
    Ok(text + &sums(place, roots)?)
}

/// A sum of each file of the tree in these folders.
pub fn sums(place: &Place, roots: impl Iterator<Item = PathBuf>) -> Result<String, AppError> {
    let mut text = String::new();
    for root in roots {
        let mut files = Vec::new();
        collect(&place.root.join(&root), &mut files)?;
        files.sort();
        for path in files {
            let bytes = std::fs::read(&path).map_err(|e| AppError::File(path.clone(), e))?;
            let name = path.strip_prefix(&place.root).unwrap_or(&path).display();
            text.push_str(&format!("{name} {:016x}\n", sum(&bytes)));
        }
    }
    Ok(text)
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), AppError> {
    if !path.is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    let entries = std::fs::read_dir(path).map_err(|e| AppError::File(path.into(), e))?;
    for entry in entries.flatten() {
        collect(&entry.path(), files)?;
    }
    Ok(())
}

/// FNV-1a: detects changes, not forgeries.
pub fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_differ() {
        assert_eq!(sum(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(sum(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_ne!(sum(b"ab"), sum(b"ba"));
    }
}

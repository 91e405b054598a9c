//! Sums of files, by which builds are found again.

use super::AppError;
use std::path::{Path, PathBuf};
use tree::place::Place;

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

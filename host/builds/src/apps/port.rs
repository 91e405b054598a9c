//! Programs in C from a source package of Debian 12, with the changes of a folder of ours.
//!
//! The folder has `port.toml`, which says what is compiled and what changes, and headers that the
//! sources find before their own (a `config.h`, as their configure script would write it).
//!
//! ```text
//!   archive -> target/apps/NAME.source -> changes -> the files that are compiled
//! ```

use super::AppError;
use super::archive::{Archive, file_error, remove_folder};
use serde::Deserialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tree::place::Place;

/// `port.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    source: Archive,
    /// Where the archive has its C; headers too.
    folder: PathBuf,
    /// Files there that are compiled.
    files: Vec<PathBuf>,
    #[serde(default)]
    change: Vec<Change>,
}

/// A change of a file of the source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// In the port's folder.
    file: PathBuf,
    /// A text that the file has once.
    old: String,
    /// What stands in its place.
    new: String,
    /// For people.
    #[serde(rename = "why")]
    _why: String,
}

/// Sources that are ready to be compiled.
pub struct Prepared {
    /// What is compiled.
    pub files: Vec<PathBuf>,
    /// Where headers are, in the order in which they are searched.
    pub headers: [PathBuf; 2],
    /// Option for clang: `__FILE__` is a path in the source.
    pub prefix: OsString,
}

/// Unpacks the source of the port in `folder`, for the program `name`, and changes it.
pub fn prepare(place: &Place, name: &str, folder: &Path) -> Result<Prepared, AppError> {
    let file = folder.join("port.toml");
    let text = std::fs::read_to_string(place.root.join(&file)).map_err(file_error(&file))?;
    let port: Port = toml::from_str(&text).map_err(|e| AppError::Port(file, e.to_string()))?;
    let whole = place.target.join("apps").join(format!("{name}.source"));
    remove_folder(&whole)?;
    port.source.unpack(place, &whole)?;
    let source = whole.join(&port.folder);
    for change in &port.change {
        let path = source.join(&change.file);
        let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
        std::fs::write(&path, change.of(&text)?).map_err(file_error(&path))?;
    }
    let files = port.files.iter().map(|file| source.join(file)).collect();
    let mut prefix = OsString::from("-fmacro-prefix-map=");
    prefix.push(&source);
    prefix.push("/=");
    Ok(Prepared { files, headers: [place.root.join(folder), source], prefix })
}

impl Change {
    /// Returns the changed text of the file. A text that is not there, or twice, is an error:
    /// the source is not the one that the change was made for.
    fn of(&self, text: &str) -> Result<String, AppError> {
        match text.matches(&self.old).count() {
            1 => Ok(text.replacen(&self.old, &self.new, 1)),
            count => {
                let why = format!("it has {count} times what the port changes: {:?}", self.old);
                Err(AppError::Port(self.file.clone(), why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_of_the_tree_are_understood() {
        for text in [
            include_str!("../../../../apps/lighttpd/port.toml"),
            include_str!("../../../../apps/postmark/port.toml"),
        ] {
            let port: Port = toml::from_str(text).unwrap();
            assert!(port.files.iter().all(|file| file.extension().is_some_and(|it| it == "c")));
            let mut names = port.files.clone();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), port.files.len(), "a file is named twice");
        }
    }

    #[test]
    fn a_change_needs_exactly_one_place() {
        let change = Change {
            file: "a.c".into(),
            old: "one".to_string(),
            new: "two".to_string(),
            _why: String::new(),
        };
        assert_eq!(change.of("int one;").unwrap(), "int two;");
        for text in ["int none_;".replace("one", "1"), "one one".to_string()] {
            assert!(matches!(change.of(&text), Err(AppError::Port(..))), "{text}");
        }
    }
}

//! Source packages of Debian 12, whose files the mirrors keep.
//!
//! ```text
//!   apt -> target/apps/source/FILE -> a folder of the caller's
//! ```
//! A file is checked against its SHA-256, whether apt fetched it or a person put it there. It may
//! be removed at any time.

use super::AppError;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tree::place::Place;

const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

/// The upstream sources of a package.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// The source package.
    package: String,
    /// Its `.orig.tar.xz` or the like.
    file: String,
    /// Of the file.
    sha256: String,
}

impl Archive {
    /// Fetches the archive, unless it is here, and unpacks it into a folder, without the one folder
    /// that it has.
    pub fn unpack(&self, place: &Place, into: &Path) -> Result<(), AppError> {
        let archive = self.fetch(place)?;
        std::fs::create_dir_all(into).map_err(file_error(into))?;
        // Its lzma module stands in for xz, which not every machine has.
        let mut python = Command::new("python3");
        python.args(["-m", "tarfile", "-e"]).arg(&archive).arg(into);
        self.quietly(&mut python)?;
        let entries = std::fs::read_dir(into).map_err(file_error(into))?;
        let inner = entries.flatten().map(|entry| entry.path()).find(|path| path.is_dir());
        let inner = inner.ok_or_else(|| self.error(format!("{} is empty", self.file)))?;
        let entries = std::fs::read_dir(&inner).map_err(file_error(&inner))?;
        for entry in entries.flatten() {
            let to = into.join(entry.file_name());
            std::fs::rename(entry.path(), &to).map_err(file_error(&to))?;
        }
        Ok(())
    }

    /// Returns the archive, checked; apt fetches it from the machine's own mirror.
    fn fetch(&self, place: &Place) -> Result<PathBuf, AppError> {
        let folder = place.target.join("apps/source");
        std::fs::create_dir_all(&folder).map_err(file_error(&folder))?;
        let archive = folder.join(&self.file);
        if archive.exists() {
            self.check(&archive)?;
            return Ok(archive);
        }
        for mirror in mirrors() {
            let address = format!("{mirror}/{}", self.pool());
            let mut apt = Command::new(APT_HELPER);
            apt.arg("download-file").arg(address).arg(&archive);
            let fetched = self.quietly(apt.arg(format!("SHA256:{}", self.sha256)));
            if fetched.is_ok() && archive.exists() {
                self.check(&archive)?;
                return Ok(archive);
            }
        }
        Err(self.error(format!(
            "apt cannot fetch {} (of Debian 12); check the network and the package sources, or put \
             the file into {}",
            self.file,
            folder.display()
        )))
    }

    /// Where mirrors have the file.
    fn pool(&self) -> String {
        // Libraries have a folder for each fourth letter.
        let length = if self.package.starts_with("lib") { 4 } else { 1 };
        let initial = self.package.get(..length).unwrap_or(&self.package);
        format!("pool/main/{initial}/{}/{}", self.package, self.file)
    }

    fn check(&self, archive: &Path) -> Result<(), AppError> {
        let output = Command::new("sha256sum").arg(archive).output();
        let output = output.map_err(|e| AppError::Tool("sha256sum".into(), e))?;
        let sum = String::from_utf8_lossy(&output.stdout).split(' ').next().map(str::to_string);
        if sum.as_deref() == Some(&self.sha256) {
            return Ok(());
        }
        let archive = archive.display();
        Err(self.error(format!("{archive} has another SHA-256 than the port names; remove it")))
    }

    /// Runs a command; what it says is in the error.
    fn quietly(&self, command: &mut Command) -> Result<(), AppError> {
        let program = PathBuf::from(command.get_program());
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|e| AppError::Tool(program.clone(), e))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
        Err(self.error(format!("{}: {said}", program.display())))
    }

    fn error(&self, why: String) -> AppError {
        AppError::Archive(self.package.clone(), why)
    }
}

/// Returns the addresses of the archives that apt is configured for; none without apt.
fn mirrors() -> Vec<String> {
    let output = Command::new("apt-get").args(["update", "--print-uris"]).output();
    let text = output.map_or(String::new(), |it| String::from_utf8_lossy(&it.stdout).into_owned());
    mirrors_of(&text)
}

/// The same from apt's list, with lines like `'ADDRESS/dists/SUITE/InRelease' NAME SIZE`.
fn mirrors_of(text: &str) -> Vec<String> {
    let quoted = text.lines().filter_map(|line| line.strip_prefix('\'')?.split('\'').next());
    let releases = quoted.filter(|address| address.ends_with("/InRelease"));
    let bases = releases.filter_map(|address| Some(address.split_once("/dists/")?.0.to_string()));
    let mut found: Vec<String> = bases.collect();
    found.sort();
    found.dedup();
    found
}

pub fn copy(from: &Path, to: &Path) -> Result<(), AppError> {
    std::fs::copy(from, to).map(drop).map_err(file_error(from))
}

/// Removes a folder and all in it, if it is there.
pub fn remove_folder(folder: &Path) -> Result<(), AppError> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(file_error(folder)(e)),
        _ => Ok(()),
    }
}

pub fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> AppError {
    let path = path.to_path_buf();
    |e| AppError::File(path, e)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(package: &str, sha256: &str) -> Archive {
        let [package, file, sha256] = [package, "a.tar.xz", sha256].map(str::to_string);
        Archive { package, file, sha256 }
    }

    #[test]
    fn mirrors_are_those_of_apt() {
        let text = "'http://a.example/debian/dists/one/InRelease' a_one_InRelease 0 \n\
                    'http://a.example/debian/dists/two/InRelease' a_two_InRelease 0 \n\
                    'http://a.example/debian/dists/one/main/binary-all/Packages.xz' x 0 \n\
                    'https://b.example/dists/one/InRelease' b_one_InRelease 0 \n\
                    Reading package lists...\n";
        assert_eq!(mirrors_of(text), ["http://a.example/debian", "https://b.example"]);
        assert!(mirrors_of("").is_empty());
    }

    #[test]
    fn a_library_has_a_longer_folder_in_the_pool() {
        assert_eq!(archive("wasi-libc", "").pool(), "pool/main/w/wasi-libc/a.tar.xz");
        assert_eq!(archive("libevent", "").pool(), "pool/main/libe/libevent/a.tar.xz");
    }

    #[test]
    fn an_archive_that_is_another_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "abc").unwrap();
        let other = archive("a", "none");
        assert!(matches!(other.check(&file), Err(AppError::Archive(..))));
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(archive("a", right).check(&file).is_ok());
    }
}

//! Programs in Go: modules of the tree that import the standard library only, so that a build asks
//! no network.
//!
//! Debian 12's own Go is too old for WASI. The first compiler that is new enough is used: `go` on
//! `PATH`, then those of Debian's packages, the newest first.

use super::{App, AppError};
use std::path::{Path, PathBuf};
use std::process::Command;
use tree::place::Place;

/// The oldest release that compiles for WASI preview 1: 1.21.
const OLDEST: (u32, u32) = (1, 21);
/// Where Debian's packages have their releases, each in a folder `go-MAJOR.MINOR`.
const PACKAGES: &str = "/usr/lib";
/// What compiles programs. Nothing depends on the settings of the machine or of its user.
const SETTINGS: &[(&str, &str)] = &[
    ("GOOS", "wasip1"),
    ("GOARCH", "wasm"),
    ("GOENV", "off"),
    ("GOFLAGS", ""),
    ("GOPROXY", "off"),
    ("GOTOOLCHAIN", "local"),
    ("GOWASM", ""),
    ("GOWORK", "off"),
];

/// Builds a program. Returns where it is.
pub fn build(place: &Place, app: &App, folder: &Path) -> Result<PathBuf, AppError> {
    let (go, _) = find()?;
    let made = place.target.join("apps").join(format!("{}.unnamed.wasm", app.name));
    let mut command = Command::new(&go);
    command.current_dir(place.root.join(folder)).envs(SETTINGS.iter().copied());
    command.env("GOCACHE", place.target.join("apps/go"));
    command.args(["build", "-trimpath", "-buildvcs=false", flags(app), "-o"]).arg(&made);
    let status = command.status().map_err(|e| AppError::Tool(go, e))?;
    if status.success() { Ok(made) } else { Err(AppError::Failed(app.name.clone())) }
}

/// Returns which compiler is used and how, for keys.
pub fn version(app: &App) -> Result<String, AppError> {
    Ok(format!("{}\n{SETTINGS:?} {}\n", find()?.1, flags(app)))
}

/// Of the linker: without what debuggers want, and perhaps without names.
const fn flags(app: &App) -> &'static str {
    if app.names { "-ldflags=-w" } else { "-ldflags=-s" }
}

/// Returns the compiler, and what it says it is.
fn find() -> Result<(PathBuf, String), AppError> {
    let packages = std::fs::read_dir(PACKAGES).into_iter().flatten().flatten();
    let names = packages.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let releases = newest_first(names.collect());
    let packaged = releases.iter().map(|name| Path::new(PACKAGES).join(name).join("bin/go"));
    let mut all = std::iter::once(PathBuf::from("go")).chain(packaged);
    let usable = |go: PathBuf| {
        let output = Command::new(&go).arg("version").env("GOTOOLCHAIN", "local").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
        (release(&text)? >= OLDEST).then_some((go, text))
    };
    all.find_map(usable)
        .ok_or_else(|| AppError::Missing(format!("Go {}.{} or later", OLDEST.0, OLDEST.1)))
}

/// Returns the folders of releases among these names.
fn newest_first(names: Vec<String>) -> Vec<String> {
    let number = |name: &str| numbers(name.strip_prefix("go-")?);
    let mut found: Vec<_> = names.into_iter().filter_map(|it| Some((number(&it)?, it))).collect();
    found.sort();
    found.into_iter().rev().map(|(_, name)| name).collect()
}

/// Returns the release in `go version goMAJOR.MINOR.PATCH SYSTEM`.
fn release(text: &str) -> Option<(u32, u32)> {
    numbers(text.split_whitespace().nth(2)?.strip_prefix("go")?)
}

/// Returns the first two of several numbers with dots between them. A release in preparation has
/// letters after the second: `1.24rc1`.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.split_once('.')?;
    let end = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
    Some((major.parse().ok()?, rest.get(..end)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_from_what_the_compiler_says() {
        assert_eq!(release("go version go1.23.5 linux/amd64"), Some((1, 23)));
        assert_eq!(release("go version go1.24rc1 linux/arm64"), Some((1, 24)));
        assert!(release("go version go1.19.8 linux/amd64") < Some(OLDEST));
        for text in ["", "go version", "go version devel linux/amd64", "gcc 12.2.0 Debian"] {
            assert_eq!(release(text), None, "{text}");
        }
    }

    #[test]
    fn the_newest_of_the_packaged_releases_is_taken() {
        let names = ["go-1.9", "gold-ld", "go-1.23", "go", "go-1.19", "go-x"].map(String::from);
        assert_eq!(newest_first(names.to_vec()), ["go-1.23", "go-1.19", "go-1.9"]);
    }
}

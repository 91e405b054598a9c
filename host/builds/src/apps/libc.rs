//! The C library with threads: Debian's source package with the changes of `sdk/libc/port.toml`.
//!
//! ```text
//!   apt -> target/apps/source/FILE -> target/apps/libc-KEY/source -> make -> libc-KEY/sysroot
//! ```
//! It is built once for each key: `sdk/libc`, the compiler and its settings. The folders may be
//! removed at any time.

use super::AppError;
use super::archive::{Archive, copy, file_error, remove_folder};
use super::sums::{sum, sums};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tree::place::Place;
use tree::progress::Step;

/// Our part of the library.
pub const PORT: &str = "sdk/libc";
/// Where musl's sources are, and where further sources of the library may be put.
const MUSL: &str = "libc-top-half/musl/src";
const ADDED: &str = "libc-top-half/sources";
/// Where the libraries are in the sysroot.
pub const LIBRARIES: &str = "lib/wasm32-wasi";
/// Libraries that programs name and that libc contains.
const EMPTY: &[&str] = &["m", "rt", "pthread", "crypt", "util", "xnet", "resolv", "dl"];
/// WASI's clocks are pointers where musl's condition variables keep an int.
const FLAGS: &str = "-O2 -DNDEBUG -fno-stack-protector -matomics -mbulk-memory -w \
    -Wno-int-conversion -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_MMAN -DSEM_VALUE_MAX=0x7fffffff";

/// `sdk/libc/port.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    source: Archive,
    musl: Vec<String>,
    remove: Vec<String>,
    ours: BTreeMap<String, String>,
    first_line: BTreeMap<String, String>,
    instead: BTreeMap<String, String>,
}

/// Returns the sysroot of the library, building it if necessary. `compiler` is clang's command,
/// `version` what it says it is.
pub fn sysroot(place: &Place, compiler: &str, version: &str) -> Result<PathBuf, AppError> {
    let files = sums(place, std::iter::once(PathBuf::from(PORT)))?;
    let key = sum(format!("{files}{version}{FLAGS}").as_bytes());
    let whole = place.target.join("apps").join(format!("libc-{key:016x}"));
    if !whole.join("sysroot").exists() {
        let step = Step::begin("building the C library with threads (once)");
        let part = whole.with_extension(format!("part{}", std::process::id()));
        build(place, compiler, &part)?;
        match std::fs::rename(&part, &whole) {
            // Another pen was faster.
            Err(_) if whole.join("sysroot").exists() => remove_folder(&part)?,
            renamed => renamed.map_err(file_error(&whole))?,
        }
        step.done();
    }
    Ok(whole.join("sysroot"))
}

fn build(place: &Place, compiler: &str, folder: &Path) -> Result<(), AppError> {
    let text = std::fs::read_to_string(place.root.join(PORT).join("port.toml"));
    let text = text.map_err(file_error(Path::new(PORT)))?;
    let port: Port =
        toml::from_str(&text).map_err(|e| library(format!("{PORT}/port.toml: {e}")))?;
    let source = folder.join("source");
    remove_folder(folder)?;
    port.source.unpack(place, &source)?;
    change(place, &port, &source)?;
    make(place, compiler, &source)?;
    std::fs::rename(source.join("sysroot"), folder.join("sysroot")).map_err(file_error(&source))?;
    remove_folder(&source)
}

/// Makes of Debian's source one for threads.
fn change(place: &Place, port: &Port, source: &Path) -> Result<(), AppError> {
    for name in &port.musl {
        let from = source.join(MUSL).join(name);
        let name = Path::new(name).file_name().unwrap_or_default();
        copy(&from, &source.join(ADDED).join(name))?;
    }
    for name in &port.remove {
        let path = source.join(name);
        std::fs::remove_file(&path).map_err(file_error(&path))?;
    }
    for (ours, theirs) in &port.ours {
        copy(&place.root.join(PORT).join(ours), &source.join(theirs))?;
    }
    for (file, other) in &port.instead {
        copy(&source.join(other), &source.join(file))?;
    }
    for (file, line) in &port.first_line {
        let path = source.join(file);
        let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
        std::fs::write(&path, format!("{line}\n{text}")).map_err(file_error(&path))?;
    }
    Ok(())
}

/// Runs the source's Makefile; its output is in `make.log`, which stays if it fails.
fn make(place: &Place, compiler: &str, source: &Path) -> Result<(), AppError> {
    let log = source.join("make.log");
    let output = std::fs::File::create(&log).map_err(file_error(&log))?;
    let errors = output.try_clone().map_err(file_error(&log))?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut make = Command::new("make");
    make.current_dir(source).stdin(Stdio::null()).stdout(output).stderr(errors);
    make.args([format!("-j{jobs}"), format!("CC={compiler}"), format!("EXTRA_CFLAGS={FLAGS}")]);
    make.args(["AR=ar", "NM=true", "THREAD_MODEL=posix", "startup_files", "libc"]);
    let status = make.status().map_err(|_| AppError::Missing("make".to_string()))?;
    if !status.success() {
        let log = log.strip_prefix(&place.root).unwrap_or(&log).display();
        return Err(library(format!("it does not build; see {log}")));
    }
    for name in EMPTY {
        let empty = source.join("sysroot").join(LIBRARIES).join(format!("lib{name}.a"));
        std::fs::write(&empty, "!<arch>\n").map_err(file_error(&empty))?;
    }
    Ok(())
}

fn library(why: String) -> AppError {
    AppError::Library(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port() -> Port {
        toml::from_str(include_str!("../../../../sdk/libc/port.toml")).unwrap()
    }

    #[test]
    fn the_port_is_understood_and_has_all_files_of_its_folder() {
        let port = port();
        let mut names: Vec<&String> = port.musl.iter().collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), port.musl.len(), "a file of musl is named twice");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/libc");
        let inner = std::fs::read_dir(folder.join("internal")).unwrap().count();
        // port.toml itself and the folder `internal` are not copied.
        let outer = std::fs::read_dir(&folder).unwrap().count() - 2;
        assert_eq!(port.ours.len(), inner + outer);
        assert!(port.ours.keys().all(|name| folder.join(name).is_file()));
    }
}

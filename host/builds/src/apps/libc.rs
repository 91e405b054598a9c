//! The C library with threads: Debian's source package with the changes of `sdk/libc/port.toml`.
//!
//! ```text
//!   apt -> target/apps/source/FILE -> target/apps/libc-KEY/source -> make -> libc-KEY/sysroot
//! ```
//! It is built once for each key: `sdk/libc`, the compiler and its settings. The source is checked
//! against its SHA-256, whether apt fetched it or a person put it there. The folders may be removed
//! at any time.

use super::AppError;
use super::sums::{sum, sums};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tree::place::Place;
use tree::progress::Step;

/// Our part of the library.
pub const PORT: &str = "sdk/libc";
const APT_HELPER: &str = "/usr/lib/apt/apt-helper";
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
    package: String,
    file: String,
    sha256: String,
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
    let archive = fetch(place, &port)?;
    let source = folder.join("source");
    remove_folder(folder)?;
    unpack(&archive, &source)?;
    change(place, &port, &source)?;
    make(place, compiler, &source)?;
    std::fs::rename(source.join("sysroot"), folder.join("sysroot")).map_err(file_error(&source))?;
    remove_folder(&source)
}

/// Returns the source package's archive, checked; apt fetches it from the machine's own mirror.
fn fetch(place: &Place, port: &Port) -> Result<PathBuf, AppError> {
    let folder = place.target.join("apps/source");
    std::fs::create_dir_all(&folder).map_err(file_error(&folder))?;
    let archive = folder.join(&port.file);
    if archive.exists() {
        check(&archive, port)?;
        return Ok(archive);
    }
    let initial = port.package.get(..1).unwrap_or_default();
    for mirror in mirrors() {
        let address = format!("{mirror}/pool/main/{initial}/{}/{}", port.package, port.file);
        let mut apt = Command::new(APT_HELPER);
        apt.arg("download-file").arg(address).arg(&archive);
        let fetched = quietly(apt.arg(format!("SHA256:{}", port.sha256)));
        if fetched.is_ok() && archive.exists() {
            check(&archive, port)?;
            return Ok(archive);
        }
    }
    Err(library(format!(
        "apt cannot fetch {} (Debian 12's source package {}); check the network and the package \
         sources, or put the file into {}",
        port.file,
        port.package,
        folder.display()
    )))
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

fn check(archive: &Path, port: &Port) -> Result<(), AppError> {
    let output = Command::new("sha256sum").arg(archive).output();
    let output = output.map_err(|e| AppError::Tool("sha256sum".into(), e))?;
    let sum = String::from_utf8_lossy(&output.stdout).split(' ').next().map(str::to_string);
    if sum.as_deref() == Some(&port.sha256) {
        return Ok(());
    }
    let archive = archive.display();
    Err(library(format!("{archive} is not what {PORT}/port.toml names; remove it")))
}

fn unpack(archive: &Path, into: &Path) -> Result<(), AppError> {
    std::fs::create_dir_all(into).map_err(file_error(into))?;
    // Its lzma module stands in for xz, which not every machine has.
    let mut python = Command::new("python3");
    python.args(["-m", "tarfile", "-e"]).arg(archive).arg(into);
    quietly(&mut python)?;
    // The archive has one folder, named after its version.
    let entries = std::fs::read_dir(into).map_err(file_error(into))?;
    let inner = entries.flatten().map(|entry| entry.path()).find(|path| path.is_dir());
    let inner = inner.ok_or_else(|| library(format!("{} is empty", archive.display())))?;
    let entries = std::fs::read_dir(&inner).map_err(file_error(&inner))?;
    for entry in entries.flatten() {
        let to = into.join(entry.file_name());
        std::fs::rename(entry.path(), &to).map_err(file_error(&to))?;
    }
    Ok(())
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

/// Runs it; what it says is in the error.
fn quietly(command: &mut Command) -> Result<(), AppError> {
    let program = PathBuf::from(command.get_program());
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| AppError::Tool(program.clone(), e))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Err(library(format!("{}: {said}", program.display())))
}

fn copy(from: &Path, to: &Path) -> Result<(), AppError> {
    std::fs::copy(from, to).map(drop).map_err(file_error(from))
}

fn remove_folder(folder: &Path) -> Result<(), AppError> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(file_error(folder)(e)),
        _ => Ok(()),
    }
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> AppError {
    let path = path.to_path_buf();
    |e| AppError::File(path, e)
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
        assert_eq!(port.sha256.len(), 64);
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
    fn an_archive_that_is_another_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("a");
        std::fs::write(&archive, "abc").unwrap();
        let mut port = port();
        assert!(matches!(check(&archive, &port), Err(AppError::Library(_))));
        port.sha256 =
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_string();
        assert!(check(&archive, &port).is_ok());
    }
}

//! `pen apps`: programs that run on Penumbra, from `apps/apps.toml` to `target/apps/NAME.wasm`, and
//! those that only tests run, from `apps/corpus.toml` likewise.
//!
//! A program is built again when its entry, the compilers or its sources differ from those that
//! `NAME.key` names. `NAME.toml` is its manifest, if it has one. All programs start with
//! `sdk/c/start.c`, which changes to the directory in which they were started.

mod archive;
mod compile;
mod go;
mod key;
mod libc;
mod port;
mod sources;
mod strip;
mod sums;

use crate::building;
use anyhow::Context;
use compile::Tools;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
pub use sums::{sum, sums};
use thiserror::Error;
use tree::place::Place;
use tree::progress::Step;

/// The list of programs.
const LIST: &str = "apps/apps.toml";
/// The list of those that only tests run.
const CORPUS: &str = "apps/corpus.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    app: Vec<App>,
}

/// One program.
#[derive(Clone, Debug, Deserialize)]
pub struct App {
    /// What it is called on the system.
    pub name: String,
    /// Names that it serves besides.
    #[serde(default)]
    pub applets: Vec<String>,
    /// Its manifest, where it needs one.
    pub manifest: Option<toml::Table>,
    /// Does it keep the names of its functions, by which a kernel tells where it trapped?
    #[serde(default = "yes")]
    pub names: bool,
    /// How `./pen test NAME` runs it, and what must come of it.
    pub check: Option<Check>,
    /// What it is made of.
    #[serde(flatten)]
    pub source: Source,
}

impl App {
    /// Features of the crate that it is built from.
    fn features(&self) -> Vec<&str> {
        let Source::Crate { features, applets_are_features, .. } = &self.source else {
            return vec![];
        };
        let applets = self.applets.iter().filter(|_| *applets_are_features);
        features.iter().chain(applets).map(String::as_str).collect()
    }
}

/// A run of a program whose outcome is known.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its arguments.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// What it reads.
    #[serde(default)]
    pub input: String,
    /// All that it writes to standard output.
    pub output: String,
    /// Its exit code.
    #[serde(default)]
    pub code: u8,
}

const fn yes() -> bool {
    true
}

/// Where a program comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Source {
    /// A crate of the tree.
    Rust {
        /// Its name.
        package: String,
        /// Its folder; `apps/PACKAGE` without.
        folder: Option<PathBuf>,
        /// With threads, for wasi-threads.
        #[serde(default)]
        threads: bool,
        /// With the sockets of std.
        #[serde(default)]
        sockets: bool,
    },
    /// A crate of others, with the versions that its own lock file has.
    Crate {
        /// Its name.
        package: String,
        /// Exactly this one.
        version: String,
        /// Without its default ones.
        #[serde(default)]
        features: Vec<String>,
        /// Whether each applet is a feature of the crate.
        #[serde(default)]
        applets_are_features: bool,
        /// Its program, where that is called otherwise.
        bin: Option<String>,
        /// With the sockets of std.
        #[serde(default)]
        sockets: bool,
    },
    /// C that a crate of others ships, with what ours it takes to make a program of it.
    Published(Published),
    /// C from a source package of Debian, with changes of ours.
    Debian(Debian),
    /// Go of the tree, with the standard library only.
    Go {
        /// A module: go.mod, and the package `main`.
        folder: PathBuf,
    },
    /// C of the tree.
    C {
        /// All .c files of this folder.
        folder: PathBuf,
        /// `NAME` or `NAME=VALUE`.
        #[serde(default)]
        defines: Vec<String>,
        /// Names behind `-l`.
        #[serde(default)]
        libraries: Vec<String>,
        /// Compiled for speed, at the price of size.
        #[serde(default)]
        speed: bool,
        /// With POSIX threads, for wasi-threads.
        #[serde(default)]
        threads: bool,
    },
}

impl Source {
    /// Returns whether it is C, which is compiled with `sdk/posix`.
    fn is_c(&self) -> bool {
        matches!(self, Source::C { .. } | Source::Published(_) | Source::Debian(_))
    }

    /// Returns whether it is Rust whose std has sockets: those of `sdk/posix`.
    fn has_sockets(&self) -> bool {
        let (Source::Rust { sockets, .. } | Source::Crate { sockets, .. }) = self else {
            return false;
        };
        *sockets
    }
}

/// Returns the folder of a crate of the tree.
fn crate_folder(package: &str, folder: Option<&Path>) -> PathBuf {
    folder.map_or_else(|| Path::new("apps").join(package), Path::to_path_buf)
}

/// C within a crate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The crate.
    package: String,
    /// Exactly this one.
    version: String,
    /// Where it has its C; headers too.
    folder: PathBuf,
    /// Files there; all of them when none is named.
    #[serde(default)]
    files: Vec<PathBuf>,
    /// Files of the tree.
    ours: Vec<PathBuf>,
    /// `NAME` or `NAME=VALUE`.
    #[serde(default)]
    defines: Vec<String>,
    /// Names behind `-l`.
    #[serde(default)]
    libraries: Vec<String>,
    /// Compiled for speed, at the price of size.
    #[serde(default)]
    speed: bool,
}

/// C from a source package of Debian.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Debian {
    /// A folder of the tree with `port.toml` and headers.
    port: PathBuf,
    /// `NAME` or `NAME=VALUE`.
    #[serde(default)]
    defines: Vec<String>,
    /// Names behind `-l`.
    #[serde(default)]
    libraries: Vec<String>,
    /// Compiled for speed, at the price of size.
    #[serde(default)]
    speed: bool,
}

/// Why there is no program.
#[derive(Debug, Error)]
pub enum AppError {
    /// No list has it.
    #[error("there is no program {0} in {1}; there are: {2}")]
    Unknown(String, &'static str, String),
    /// The sources of a crate cannot be had.
    #[error("the crate {0}: {1}")]
    Sources(String, String),
    /// A source package cannot be had.
    #[error("the source package {0}: {1}")]
    Archive(String, String),
    /// A source package is not what its port says, or the port is wrong.
    #[error("{0}: {1}")]
    Port(PathBuf, String),
    /// Something that builds is not there.
    #[error("{0} is missing; `./pen setup` as an administrator installs it")]
    Missing(String),
    /// A tool does not run.
    #[error("cannot run {0}: {1}")]
    Tool(PathBuf, std::io::Error),
    /// It has said why.
    #[error("{0} does not build; see the messages above")]
    Failed(String),
    /// The C library with threads cannot be had.
    #[error("the C library with threads: {0}")]
    Library(String),
    /// Its entry asks for what no target of Rust has together.
    #[error("{0}: `threads` and `sockets` exclude each other: std has one or the other on WASI")]
    ThreadsAndSockets(String),
    /// The linked module is not as it should be.
    #[error("{0}: {1}")]
    Module(String, String),
    /// A file cannot be read or written.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
}

/// A program that was built.
#[derive(Clone, Debug)]
pub struct Built {
    /// What it is called.
    pub name: String,
    /// Where it is.
    pub wasm: PathBuf,
}

/// `pen apps [NAME...]`: all programs of the system, or these, among which may be some for tests.
pub fn apps(place: &Place, names: &[String]) -> anyhow::Result<ExitCode> {
    let corpus = read(place, CORPUS)?;
    let for_tests = |name: &String| corpus.iter().any(|app| app.name == *name);
    let (tests, ours): (Vec<String>, _) = names.iter().cloned().partition(for_tests);
    let mut all = vec![];
    if tests.is_empty() || !ours.is_empty() {
        all.extend(build(place, &ours)?);
    }
    if !tests.is_empty() {
        all.extend(build_of(place, CORPUS, &corpus, &tests)?);
    }
    for built in all {
        let bytes = std::fs::metadata(&built.wasm)?.len();
        println!("{:12} {:>8} KiB  {}", built.name, bytes.div_ceil(1024), built.wasm.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds these programs, or all, and writes the list of names that they serve.
pub fn build(place: &Place, names: &[String]) -> anyhow::Result<Vec<Built>> {
    let all = read(place, LIST)?;
    let built = build_of(place, LIST, &all, names)?;
    write(&place.target.join("apps/applets"), applets(&all).as_bytes())?;
    Ok(built)
}

/// What the system has names for: programs, and what they serve besides.
pub fn names(place: &Place) -> anyhow::Result<Vec<String>> {
    let all = read(place, LIST)?.into_iter();
    Ok(all.flat_map(|app| std::iter::once(app.name).chain(app.applets)).collect())
}

/// Programs of the system with a check.
pub fn checks(place: &Place) -> anyhow::Result<Vec<(String, Check)>> {
    Ok(checked(read(place, LIST)?))
}

/// The same of those that only tests run.
pub fn test_checks(place: &Place) -> anyhow::Result<Vec<(String, Check)>> {
    Ok(checked(read(place, CORPUS)?))
}

fn checked(all: Vec<App>) -> Vec<(String, Check)> {
    all.into_iter().filter_map(|app| Some((app.name, app.check?))).collect()
}

/// Builds one that only tests run.
pub fn build_for_test(place: &Place, name: &str) -> anyhow::Result<Built> {
    let all = read(place, CORPUS)?;
    let mut built = build_of(place, CORPUS, &all, &[name.to_string()])?;
    built.pop().with_context(|| name.to_string())
}

fn build_of(
    place: &Place,
    list: &'static str,
    all: &[App],
    names: &[String],
) -> anyhow::Result<Vec<Built>> {
    if let Some(name) = names.iter().find(|name| all.iter().all(|app| app.name != **name)) {
        let known: Vec<&str> = all.iter().map(|app| app.name.as_str()).collect();
        return Err(AppError::Unknown(name.clone(), list, known.join(", ")).into());
    }
    let tools = Tools::find(place)?;
    let _alone = building::alone();
    let chosen = all.iter().filter(|app| names.is_empty() || names.contains(&app.name));
    Ok(chosen.map(|app| build_one(place, &tools, app)).collect::<Result<Vec<Built>, _>>()?)
}

fn read(place: &Place, list: &'static str) -> anyhow::Result<Vec<App>> {
    let text = std::fs::read_to_string(place.root.join(list)).context(list)?;
    let list: List = toml::from_str(&text).context(list)?;
    Ok(list.app)
}

/// Lines of `NAME PROGRAM`.
fn applets(all: &[App]) -> String {
    let served = all.iter().flat_map(|app| app.applets.iter().map(|name| (name, &app.name)));
    served.map(|(name, program)| format!("{name} {program}\n")).collect()
}

fn build_one(place: &Place, tools: &Tools, app: &App) -> Result<Built, AppError> {
    let folder = place.target.join("apps");
    let wasm = folder.join(format!("{}.wasm", app.name));
    let key_file = folder.join(format!("{}.key", app.name));
    let built = Built { name: app.name.clone(), wasm: wasm.clone() };
    put_manifest(app, &folder.join(format!("{}.toml", app.name)))?;
    let key = key::key(place, app, tools)?;
    if wasm.exists() && std::fs::read_to_string(&key_file).is_ok_and(|known| known == key) {
        return Ok(built);
    }
    let step = Step::begin_stage(&app.name, &format!("building the program {}", app.name));
    let made = compile::compile(place, tools, app, &step)?;
    let bytes = std::fs::read(&made).map_err(|e| AppError::File(made, e))?;
    let bytes = if app.source.has_sockets() { bound(app, bytes)? } else { bytes };
    let kept = if app.names { None } else { strip::without_custom(&bytes) };
    write(&wasm, &kept.unwrap_or(bytes))?;
    write(&key_file, key.as_bytes())?;
    step.done();
    Ok(built)
}

/// Without the imports that the module fulfils itself.
fn bound(app: &App, bytes: Vec<u8>) -> Result<Vec<u8>, AppError> {
    let bound = passes::bound(&bytes).map_err(|why| AppError::Module(app.name.clone(), why))?;
    Ok(bound.unwrap_or(bytes))
}

/// Beside the program, where `pen install` looks for it.
fn put_manifest(app: &App, path: &Path) -> Result<(), AppError> {
    match &app.manifest {
        Some(manifest) => write(path, manifest.to_string().as_bytes()),
        None if path.exists() => {
            std::fs::remove_file(path).map_err(|e| AppError::File(path.into(), e))
        }
        None => Ok(()),
    }
}

/// Writes what is not there yet. Scenarios that run at the same time read these files while another
/// one builds, so a file has its old contents or its new ones at each moment.
fn write(path: &Path, bytes: &[u8]) -> Result<(), AppError> {
    if std::fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    let beside = path.with_added_extension(format!("{}.part", std::process::id()));
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let put = made.and_then(|()| std::fs::write(&beside, bytes));
    put.and_then(|()| std::fs::rename(&beside, path)).map_err(|e| AppError::File(path.into(), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<Vec<App>, toml::de::Error> {
        toml::from_str::<List>(text).map(|list| list.app)
    }

    #[test]
    fn the_list_of_the_tree_is_understood() {
        let text = include_str!("../../../apps/apps.toml");
        let all = list(text).unwrap();
        let names: Vec<&str> = all.iter().map(|app| app.name.as_str()).collect();
        // `pen new program` adds to them.
        assert_eq!(names[..5], ["sh", "system", "coreutils", "sed", "hello"]);
        let mut served: Vec<&String> = all.iter().flat_map(|app| &app.applets).collect();
        let count = served.len();
        served.sort();
        served.dedup();
        assert_eq!(served.len(), count, "a name is served twice");
        let nameless: Vec<&str> =
            all.iter().filter(|app| !app.names).map(|app| app.name.as_str()).collect();
        assert_eq!(nameless, ["coreutils", "sed"]);
        assert!(applets(&all).contains("cat coreutils\n") && applets(&all).contains("ls system\n"));
    }

    #[test]
    fn so_is_the_list_for_tests() {
        let all = list(include_str!("../../../apps/corpus.toml")).unwrap();
        let names: Vec<&str> = all.iter().map(|app| app.name.as_str()).collect();
        let published = [
            "lua",
            "zlib",
            "sqlite",
            "varisat",
            "lighttpd",
            "postmark",
            "files-go",
            "store",
            "mail",
            "mail-store",
            "mail-scan",
            "mails",
            "png",
            "upload",
            "uploads",
            "sat",
            "index",
            "postmarks",
            "offload",
            "folder",
        ];
        let ours = [
            "records",
            "records-plain",
            "records-movable",
            "records-movable-calls",
            "light",
            "program-rust",
            "program-c",
            "lives",
            "sockets",
            "posix",
            "sockets-rust",
            "std-net",
            "listener-rust",
            "threads",
            "threads-rust",
            "light-threads",
            "moves",
            "versions",
            "versions-rust",
            "versions-movable",
            "pipes",
            "channels",
            "channels-c",
            "windows",
            "windows-c",
            "greet",
            "greet-server",
        ];
        assert_eq!(names, [&published[..], &ours].concat());
        assert!(all.iter().all(|app| app.applets.is_empty()));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let no_kind = "[[app]]\nname = \"a\"\n";
        let unknown = "[[app]]\nname = \"a\"\nkind = \"pascal\"\n";
        let no_package = "[[app]]\nname = \"a\"\nkind = \"rust\"\n";
        let odd = "[[app]]\nname = \"a\"\nkind = \"rust\"\npackage = \"a\"\nodd = 1\n";
        for text in [no_kind, unknown, no_package, odd] {
            assert!(list(text).is_err(), "{text}");
        }
    }
}

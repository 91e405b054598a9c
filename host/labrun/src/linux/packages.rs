//! Downloads Debian's kernel for arm64, its headers and busybox, through a private apt root: its
//! own configuration, lists and packages, with sources derived from the machine's. Nothing is
//! installed.
//!
//! An interrupted set-up continues where it stopped: a package counts as downloaded if it has its
//! size (apt has compared its hash by then), the tree as complete if its last file, `release`,
//! exists.

use super::Folders;
use super::sources::{self, Wanted};
use super::toolbox::{self, ToolError};
use std::path::{Path, PathBuf};
use std::process::Command;
use thiserror::Error;

/// The suite with the 6.12 kernel.
const SUITE: &str = "trixie";
/// Package that depends on the newest kernel of the suite.
const NEWEST: &str = "linux-image-arm64:arm64";
/// Written last.
const RELEASE: &str = "release";

/// Why there is no kernel.
#[derive(Debug, Error)]
pub enum PackageError {
    /// A tool failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A file cannot be used.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    /// No source could be derived from the machine's.
    #[error(
        "found no enabled apt source for this machine's release ({0:?}) to derive one for trixie \
         from: this lab needs a Debian machine with its usual sources below /etc/apt"
    )]
    NoSource(String),
    /// The lists do not name a kernel.
    #[error("the package lists name no {0}; the end of {1} may say why")]
    Unknown(String, PathBuf),
    /// apt succeeded without downloading it.
    #[error("{0} is incomplete: remove it and try again")]
    Incomplete(PathBuf),
    /// The set-up was not run.
    #[error("Linux was not downloaded yet: `./pen lab linux setup` fetches it (110 MB)")]
    Missing,
}

type Outcome<T> = Result<T, PackageError>;

fn file<T>(path: &Path, result: std::io::Result<T>) -> Outcome<T> {
    result.map_err(|e| PackageError::File(path.to_path_buf(), e))
}

/// A downloaded kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The output of `uname -r`.
    pub release: String,
    /// The packages' files.
    pub tree: PathBuf,
}

impl Kernel {
    /// Returns the image for QEMU.
    pub fn image(&self) -> PathBuf {
        self.tree.join("boot").join(format!("vmlinuz-{}", self.release))
    }

    /// Returns its modules.
    pub fn modules(&self) -> PathBuf {
        self.tree.join("usr/lib/modules").join(&self.release)
    }

    /// Returns the folder for building modules.
    pub fn headers(&self) -> PathBuf {
        self.tree.join("usr/src").join(format!("linux-headers-{}", self.release))
    }

    /// Returns busybox, the guest's shell and mke2fs.
    pub fn busybox(&self) -> PathBuf {
        self.tree.join("usr/bin/busybox")
    }
}

/// Returns the kernel of an earlier set-up.
pub fn found(folders: &Folders) -> Outcome<Kernel> {
    let tree = folders.tree();
    match std::fs::read_to_string(tree.join(RELEASE)) {
        Ok(text) => Ok(Kernel { release: text.trim().to_string(), tree }),
        Err(_) => Err(PackageError::Missing),
    }
}

/// Downloads and unpacks what is missing.
pub fn setup(folders: &Folders) -> Outcome<Kernel> {
    if let Ok(kernel) = found(folders) {
        return Ok(kernel);
    }
    let apt = Apt::prepare(folders)?;
    let mut update = apt.command("apt-get");
    toolbox::step(folders, "updating the private package lists", update.args(["-q", "update"]))?;
    let (release, packages) = apt.resolve()?;
    let mut fetched = Vec::new();
    for package in &packages {
        fetched.push(apt.fetch(package)?);
    }
    unpack(folders, &release, &fetched)?;
    found(folders)
}

/// A package in the lists.
struct Package {
    /// Its name and architecture, in apt's syntax.
    name: String,
    /// Name of its file.
    file: String,
    size: u64,
}

/// The private apt root.
struct Apt<'a> {
    folders: &'a Folders,
    configuration: PathBuf,
    machine: String,
}

impl<'a> Apt<'a> {
    fn prepare(folders: &'a Folders) -> Outcome<Self> {
        let root = folders.apt();
        for folder in ["lists/partial", "archives/partial", "etc/sources.list.d"] {
            let path = root.join(folder);
            file(&path, std::fs::create_dir_all(&path))?;
        }
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            file(&path, std::fs::write(&path, text))
        };
        let machine = toolbox::ask(Command::new("dpkg").arg("--print-architecture"))?;
        let machine = machine.trim().to_string();
        let own = toolbox::ask(Command::new("apt-config").arg("dump"))?;
        write("status", "")?;
        write("etc/sources.list.d/suite.sources", &derived(&machine)?)?;
        write("apt.conf", &configuration(&root, &machine, &own))?;
        Ok(Self { folders, configuration: root.join("apt.conf"), machine })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &self.configuration).env("LC_ALL", "C");
        command
    }

    /// Returns a field of the newest version of `package`.
    fn fields(&self, package: &str) -> Outcome<String> {
        let mut show = self.command("apt-cache");
        let text = toolbox::ask(show.args(["show", "--no-all-versions", package]))?;
        match text.is_empty() {
            true => Err(PackageError::Unknown(package.to_string(), self.folders.log())),
            false => Ok(text),
        }
    }

    /// Returns the release of the suite's kernel, and the packages it needs.
    fn resolve(&self) -> Outcome<(String, Vec<Package>)> {
        let unknown = || PackageError::Unknown(NEWEST.to_string(), self.folders.log());
        let newest = self.fields(NEWEST)?;
        let release = depends_on(&newest, "linux-image-").ok_or_else(unknown)?.to_string();
        let version = release.trim_end_matches("-arm64");
        let machine = &self.machine;
        let names = [
            format!("linux-image-{release}:arm64"),
            format!("linux-headers-{release}:arm64"),
            format!("linux-headers-{version}-common"),
            // Build programs that run on this machine, and the C library that they need.
            format!("linux-kbuild-{version}:{machine}"),
            format!("libc6:{machine}"),
            "busybox-static:arm64".to_string(),
        ];
        let packages = names.into_iter().map(|name| {
            let fields = self.fields(&name)?;
            let unknown = || PackageError::Unknown(name.clone(), self.folders.log());
            let path = field(&fields, "Filename").ok_or_else(unknown)?;
            let size = field(&fields, "Size").and_then(|s| s.parse().ok()).ok_or_else(unknown)?;
            let file = path.rsplit('/').next().unwrap_or(path).to_string();
            Ok(Package { name, file, size })
        });
        Ok((release.clone(), packages.collect::<Outcome<Vec<_>>>()?))
    }

    /// Downloads `package` if necessary. Returns its file.
    fn fetch(&self, package: &Package) -> Outcome<PathBuf> {
        let folder = self.folders.packages();
        let path = folder.join(&package.file);
        let complete = |path: &Path| path.metadata().is_ok_and(|m| m.len() == package.size);
        if complete(&path) {
            return Ok(path);
        }
        let incoming = folder.join("incoming");
        file(&incoming, std::fs::create_dir_all(&incoming))?;
        let text = format!("fetching {} ({} KiB)", package.name, package.size >> 10);
        let mut download = self.command("apt-get");
        download.args(["-q", "download", &package.name]).current_dir(&incoming);
        toolbox::step(self.folders, &text, &mut download)?;
        // apt writes the epoch's colon as %3a.
        for entry in file(&incoming, std::fs::read_dir(&incoming))?.flatten() {
            if complete(&entry.path()) {
                file(&path, std::fs::rename(entry.path(), &path))?;
            }
        }
        if complete(&path) { Ok(path) } else { Err(PackageError::Incomplete(incoming)) }
    }
}

/// Returns the value of a field in the output of `apt-cache show`.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

/// Returns the rest of the name of the first dependency that begins with `prefix`.
fn depends_on<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let dependencies = field(text, "Depends")?;
    dependencies.split([',', '|']).find_map(|d| d.split_whitespace().next()?.strip_prefix(prefix))
}

/// Derives the source for our suite from the first of the machine's files that allows it.
fn derived(machine: &str) -> Outcome<String> {
    let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = system.lines().find_map(|l| l.strip_prefix("VERSION_CODENAME=")).unwrap_or("");
    let codename = codename.trim_matches('"');
    let architectures = if machine == "arm64" { "arm64" } else { &format!("{machine} arm64") };
    let wanted = Wanted { machine: codename, suite: SUITE, architectures };
    let parts = std::fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = parts.map(|entry| entry.path()).collect();
    paths.sort();
    paths.insert(0, PathBuf::from("/etc/apt/sources.list"));
    let found = paths.iter().find_map(|path| {
        let text = std::fs::read_to_string(path).ok()?;
        match path.extension()?.to_str()? {
            "sources" => sources::from_stanzas(&text, wanted),
            "list" => sources::from_lines(&text, wanted),
            _ => None,
        }
    });
    found.ok_or_else(|| PackageError::NoSource(codename.to_string()))
}

/// Returns apt's configuration: everything inside `root`, except the machine's access to its
/// servers (proxies, passwords) and its trusted keys. Hooks of the machine's configuration are
/// excluded.
fn configuration(root: &Path, machine: &str, own: &str) -> String {
    let reaching = own.lines().filter(|line| line.starts_with("Acquire::"));
    let reaching: String = reaching.map(|line| format!("{line}\n")).collect();
    let root = root.display();
    format!(
        r#"{reaching}Dir::State "{root}";
Dir::State::status "{root}/status";
Dir::State::lists "{root}/lists";
Dir::Cache "{root}";
Dir::Cache::archives "{root}/archives";
Dir::Etc "{root}/etc";
Dir::Etc::parts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::netrc "/etc/apt/auth.conf";
Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
Dir::Etc::trusted "/etc/apt/trusted.gpg";
Dir::Etc::trustedparts "/etc/apt/trusted.gpg.d";
Dir::Log "{root}";
APT::Architecture "{machine}";
APT::Architectures {{ "{machine}"; "arm64"; }};
APT::Sandbox::User "root";
Acquire::Languages "none";
"#
    )
}

/// Unpacks into a new tree, fixes it, and replaces an old one by it.
fn unpack(folders: &Folders, release: &str, packages: &[PathBuf]) -> Outcome<()> {
    let (fresh, tree) = (folders.base.join("tree.new"), folders.tree());
    for old in [&fresh, &tree] {
        if old.exists() {
            file(old, std::fs::remove_dir_all(old))?;
        }
    }
    for package in packages {
        let name = package.file_name().unwrap_or_default().to_string_lossy();
        let mut extract = Command::new("dpkg-deb");
        extract.arg("-x").args([package, &fresh]);
        toolbox::step(folders, &format!("unpacking {name}"), &mut extract)?;
    }
    mend(&fresh, release)?;
    file(&fresh, std::fs::rename(&fresh, &tree))?;
    let stamp = tree.join(RELEASE);
    file(&stamp, std::fs::write(&stamp, release))
}

/// Makes the headers usable where they are: Debian's refer to an absolute path for the common part,
/// and modpost needs a newer C library than the machine may have, which the tree contains.
fn mend(tree: &Path, release: &str) -> Outcome<()> {
    let version = release.trim_end_matches("-arm64");
    let makefile = tree.join(format!("usr/src/linux-headers-{release}/Makefile"));
    let text = format!("include ../linux-headers-{version}-common/Makefile\n");
    file(&makefile, std::fs::write(&makefile, text))?;
    let modpost = tree.join(format!("usr/lib/linux-kbuild-{version}/scripts/mod/modpost"));
    file(&modpost, std::fs::write(&modpost, MODPOST))
}

/// Runs the real modpost for 64-bit little-endian modules with the dynamic loader of the tree.
const MODPOST: &str = r#"#!/bin/sh
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
for loader in "$here"/../../../*/ld-linux-*.so.*; do
    exec "$loader" --library-path "${loader%/*}" "$here/modpost.real-lsb-64" "$@"
done
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_what_the_newest_package_depends_on() {
        let text = "Package: linux-image-arm64\nVersion: 1\n\
                    Depends: linux-image-6.12.1+deb13-arm64 (= 6.12.1-1), other\n";
        assert_eq!(depends_on(text, "linux-image-"), Some("6.12.1+deb13-arm64"));
        assert_eq!(depends_on(text, "linux-headers-"), None);
        assert_eq!(field(text, "Version"), Some("1"));
    }

    #[test]
    fn hooks_stay_out_and_proxies_come_along() {
        let own = "APT::Update::Post-Invoke \"rm everything\";\nAcquire::http::Proxy \"p\";\n";
        let text = configuration(Path::new("/r"), "amd64", own);
        assert!(text.contains("Acquire::http::Proxy \"p\";") && !text.contains("Post-Invoke"));
    }
}

//! `pen install`: puts a program onto a running board. Its code for each ISA of the board is sealed
//! with the board's key and stored as `/bin/NAME.ISA`, where kernels look for programs.
//!
//! The key lives as long as the board's run folder. Code is cached (`compiler.rs`), so installing a
//! program again is fast.

use crate::contracts;
use crate::transfer::Stream;
use abi::program::{FOLDER, LIGHT_SPAWN, MODULE};
use anyhow::{Context, bail, ensure};
use board::{Board, Isa};
use builds::compiler::{self, Kind};
use builds::kernels;
use program::{Manifest, Movable};
use std::path::{Path, PathBuf};
use tree::place::Place;
use workbench::instance::Instance;

/// Maximum length of a program's name.
const NAME: usize = abi::process::NAME;

/// `pen install`
#[derive(clap::Args)]
pub struct Line {
    /// The program: a WebAssembly module for WASI preview 1.
    pub wasm: PathBuf,
    /// Manifest. By default, the .toml file of the same name next to the module, if there is one.
    #[arg(long)]
    pub manifest: Option<PathBuf>,
    /// Name of the program on the board. By default, the name of the file.
    #[arg(long)]
    pub name: Option<String>,
    /// Allow the directories that the manifest lists as grants: the program gets them from
    /// any parent.
    #[arg(long)]
    pub allow_grants: bool,
    /// Board. Optional if only one is running.
    #[arg(long)]
    pub board: Option<String>,
}

/// Whether a program may have grants (`program::Manifest::grants`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grants {
    Refused,
    Allowed,
}

/// A program to seal.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub wasm: &'a Path,
    /// By default, the manifest next to the module, if there is one.
    pub manifest: Option<&'a Path>,
    pub grants: Grants,
    /// Ports of further listeners that it starts with.
    pub listen: &'a [u16],
}

impl<'a> Source<'a> {
    /// Returns one without grants and further listeners.
    pub fn new(wasm: &'a Path, manifest: Option<&'a Path>) -> Source<'a> {
        Source { wasm, manifest, grants: Grants::Refused, listen: &[] }
    }
}

/// An installed image.
pub struct Installed {
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// `pen install`
pub fn install(place: &Place, instance: &Instance, line: &Line) -> anyhow::Result<()> {
    let name = match &line.name {
        Some(name) => named(name)?,
        None => name_of(&line.wasm)?,
    };
    let grants = if line.allow_grants { Grants::Allowed } else { Grants::Refused };
    let source = Source { grants, ..Source::new(&line.wasm, line.manifest.as_deref()) };
    for image in put_by(compiler::chosen(), place, instance, source, &name)? {
        println!("{} KiB to {}:{}", image.bytes.div_ceil(1024), instance.name, image.path);
    }
    Ok(())
}

/// Installs the program `wasm` as `name`, without grants.
pub fn put(
    place: &Place,
    instance: &Instance,
    wasm: &Path,
    manifest: Option<&Path>,
    name: &str,
) -> anyhow::Result<Vec<Installed>> {
    put_by(compiler::chosen(), place, instance, Source::new(wasm, manifest), name)
}

/// Installs a program as `name`, compiled by `kind`.
pub fn put_by(
    kind: Kind,
    place: &Place,
    instance: &Instance,
    source: Source<'_>,
    name: &str,
) -> anyhow::Result<Vec<Installed>> {
    let (isas, key) = (kernels::isas(&instance.board()?), instance.program_key()?);
    let mut installed = vec![];
    for (isa, image) in images_for(kind, place, source, isas, &key)? {
        let path = format!("/{FOLDER}/{name}.{}", isa.name());
        let bytes = Stream::open(instance)?.push(&image[..], &path).context(path.clone())?;
        installed.push(Installed { path, bytes });
    }
    Ok(installed)
}

/// Returns the images of a program for the kernel `on` of a running board, or for all of its
/// kernels.
pub fn images_on(
    place: &Place,
    instance: &Instance,
    source: Source<'_>,
    on: u32,
) -> anyhow::Result<Vec<(Isa, Vec<u8>)>> {
    let (board, key) = (instance.board()?, instance.program_key()?);
    let isas = match board.domains.get(on as usize) {
        Some(domain) if !is_for_all(source.wasm, source.manifest)? => vec![domain.isa],
        _ => kernels::isas(&board),
    };
    images_for(compiler::chosen(), place, source, isas, &key)
}

/// Returns whether a program that starts on one kernel may run on others, too: it starts light
/// threads, or can move.
fn is_for_all(wasm: &Path, manifest: Option<&Path>) -> anyhow::Result<bool> {
    if manifest_of(wasm, manifest)?.movable != Movable::No {
        return Ok(true);
    }
    let named = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let import = [named(MODULE), named(LIGHT_SPAWN)].concat();
    let bytes = std::fs::read(wasm).with_context(|| wasm.display().to_string())?;
    Ok(bytes.windows(import.len()).any(|found| found == import))
}

/// Returns the images of a program for a board, sealed with its key.
pub fn images(
    place: &Place,
    wasm: &Path,
    manifest: Option<&Path>,
    board: &Board,
    key: &[u8; 32],
) -> anyhow::Result<Vec<(Isa, Vec<u8>)>> {
    let source = Source::new(wasm, manifest);
    images_for(compiler::chosen(), place, source, kernels::isas(board), key)
}

fn images_for(
    kind: Kind,
    place: &Place,
    source: Source<'_>,
    isas: Vec<Isa>,
    key: &[u8; 32],
) -> anyhow::Result<Vec<(Isa, Vec<u8>)>> {
    let wasm = source.wasm;
    let manifest = checked_manifest(&place.root, source)?;
    let mut bytes = std::fs::read(wasm).with_context(|| wasm.display().to_string())?;
    if manifest.movable != Movable::No {
        bytes = compiler::movable(place, wasm, &bytes, manifest.movable)?;
    }
    let codes = compiler::code(place, kind, wasm, &bytes, &isas)?;
    let hash = program::source_hash(&bytes);
    let seal = |(isa, code): (Isa, Vec<u8>)| {
        let image = program::seal(&code, &manifest, isa.number(), hash, key);
        let image = image.with_context(|| format!("{} for {}", wasm.display(), isa.name()))?;
        Ok((isa, image))
    };
    isas.into_iter().zip(codes).map(seal).collect()
}

/// Returns the program's manifest with the hashes of its contracts, if its grants are allowed.
/// `root` is that of the tree.
pub fn checked_manifest(root: &Path, source: Source<'_>) -> anyhow::Result<Manifest> {
    let mut manifest = manifest_of(source.wasm, source.manifest)?;
    if let Some(file) = manifest_file(source.wasm, source.manifest) {
        contracts::resolve(root, &file, &mut manifest)?;
    }
    for port in source.listen {
        if !manifest.listen.contains(port) {
            manifest.listen.push(*port);
        }
    }
    let shown = |it: &program::Preopen| {
        let rights = if it.write { "rw" } else { "r" };
        format!("{}:{rights}", it.path)
    };
    let all: Vec<String> = manifest.grants.iter().map(shown).collect();
    ensure!(
        all.is_empty() || source.grants == Grants::Allowed,
        "{}: its manifest grants it {}, from any parent: if it may have that, install it with \
         `pen install --allow-grants`",
        source.wasm.display(),
        all.join(", ")
    );
    Ok(manifest)
}

/// Reads the program's manifest; without one, returns an empty one.
fn manifest_of(wasm: &Path, named: Option<&Path>) -> anyhow::Result<Manifest> {
    match manifest_file(wasm, named) {
        Some(file) => Ok(Manifest::read(&file)?),
        None => Ok(Manifest::default()),
    }
}

/// Returns the named manifest, or the one next to the program, if there is one.
fn manifest_file(wasm: &Path, named: Option<&Path>) -> Option<PathBuf> {
    let beside = wasm.with_extension("toml");
    named.map(Path::to_path_buf).or_else(|| beside.exists().then_some(beside))
}

/// Returns the name of a program in `file`.
pub fn name_of(file: &Path) -> anyhow::Result<String> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let what = || format!("{}: give the program another name with --name", file.display());
    named(&stem).with_context(what)
}

/// Checks that `name` is a valid name.
pub fn named(name: &str) -> anyhow::Result<String> {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.+".contains(&b);
    ensure!(
        (1..=NAME).contains(&name.len()) && name.bytes().all(good),
        "\"{name}\" cannot be a program's name: 1 to {NAME} letters, digits, '-', '_', '.', '+'"
    );
    if name.starts_with(['.', '-']) {
        bail!("\"{name}\" cannot be a program's name: it begins with a letter or a digit");
    }
    Ok(name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files() {
        assert_eq!(name_of(Path::new("a/hello.wasm")).unwrap(), "hello");
        assert_eq!(name_of(Path::new("g++.wasm")).unwrap(), "g++");
        for bad in ["", "a b", ".x", "-x", "a/b", "ä", &"a".repeat(33)] {
            assert!(named(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn listeners_are_added_to_those_of_the_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let (wasm, beside) = (folder.path().join("it.wasm"), folder.path().join("it.toml"));
        let source = Source { listen: &[80, 7, 80], ..Source::new(&wasm, None) };
        let ports = || checked_manifest(folder.path(), source).unwrap().listen;
        assert_eq!(ports(), [80, 7]);
        std::fs::write(&beside, "listen = [\"tcp:8080\", \"tcp:80\"]").unwrap();
        assert_eq!(ports(), [8080, 80, 7]);
    }

    #[test]
    fn grants_must_be_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let wasm = folder.path().join("it.wasm");
        let checked = |source| checked_manifest(folder.path(), source);
        let beside = folder.path().join("it.toml");
        std::fs::write(&beside, "grants = [\"/etc:r\", \"/data:rw\"]").unwrap();
        let why = format!("{:#}", checked(Source::new(&wasm, None)).unwrap_err());
        assert!(why.contains("it.wasm") && why.contains("/etc:r, /data:rw"), "{why}");
        assert!(why.contains("pen install --allow-grants"), "{why}");
        let allowed = Source { grants: Grants::Allowed, ..Source::new(&wasm, None) };
        assert_eq!(checked(allowed).unwrap().grants.len(), 2);
        std::fs::write(&beside, "preopens = [\"/etc:r\"]").unwrap();
        assert!(checked(Source::new(&wasm, None)).is_ok());
    }

    #[test]
    fn a_manifest_may_lie_beside() {
        let folder = tempfile::tempdir().unwrap();
        let wasm = folder.path().join("it.wasm");
        assert_eq!(manifest_of(&wasm, None).unwrap(), Manifest::default());
        let beside = folder.path().join("it.toml");
        std::fs::write(&beside, "args = [\"-v\"]").unwrap();
        assert_eq!(manifest_of(&wasm, None).unwrap().args, ["-v"]);
        let other = folder.path().join("other.toml");
        std::fs::write(&other, "").unwrap();
        assert_eq!(manifest_of(&wasm, Some(&other)).unwrap(), Manifest::default());
        std::fs::write(&beside, "arg = []").unwrap();
        let why = format!("{:#}", manifest_of(&wasm, None).unwrap_err());
        assert!(why.contains("it.toml:1: there is no field \"arg\""), "{why}");
        assert!(manifest_of(&wasm, Some(Path::new("missing.toml"))).is_err());
    }
}

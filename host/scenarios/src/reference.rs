//! Runs programs with wasmtime on this host. A program on a board must have the same output, errors
//! and exit code.

use anyhow::Context;
use builds::compiler::release;
use deploy::exec::Captured;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use tree::place::Place;

/// Runs `wasm` as `name`; its `/` is the folder `root`.
pub fn run(
    place: &Place,
    root: &Path,
    wasm: &Path,
    name: &str,
    arguments: &[&str],
    input: Vec<u8>,
) -> anyhow::Result<Captured> {
    let mut command = Command::new(release::fetch(place)?);
    command.arg("run").arg("--dir").arg(format!("{}::/", root.display()));
    // As in `exec::Line::on`.
    command.args(["--env", "COLOUR=blue", "--argv0", name]).arg(wasm).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut pipe = child.stdin.take().context("no pipe to the reference runtime")?;
    // A program that does not read its input closes the pipe.
    let feeder = std::thread::spawn(move || drop(pipe.write_all(&input)));
    let output = child.wait_with_output()?;
    // It ends when the pipe is closed.
    let _ = feeder.join();
    let code = output.status.code().and_then(|code| u8::try_from(code).ok());
    let code = code.with_context(|| output.status.to_string())?;
    Ok(Captured { code, out: output.stdout, err: output.stderr })
}

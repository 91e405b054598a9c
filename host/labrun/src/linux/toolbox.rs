//! Runs the machine's tools for this lab, with their output in the log. Each step prints a line; a
//! failed one shows the end of the log.

use super::Folders;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use thiserror::Error;
use tree::progress::Step;
use workbench::instance::tail;

/// The cross compiler's prefix.
pub const CROSS: &str = "aarch64-linux-gnu-";
/// Packages of the cross compiler and its C library, and of make.
const PACKAGES: [&str; 3] = ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "make"];

/// Why a tool failed.
#[derive(Debug, Error)]
pub enum ToolError {
    /// It cannot be started.
    #[error("cannot run {0}: {1}; `./pen lab linux setup` says what this lab needs")]
    Start(String, std::io::Error),
    /// It exited with an error.
    #[error("{step}: failed; the log's end:\n{tail}the whole log is {log}")]
    Failed {
        /// The step.
        step: String,
        /// The last lines of the log.
        tail: String,
        /// The log.
        log: PathBuf,
    },
    /// The log cannot be written.
    #[error("{0}: {1}")]
    Log(PathBuf, std::io::Error),
    /// Packages are missing on this machine.
    #[error(
        "the cross compiler is missing, and installing it needs root. An administrator must run \
         once:\n    sudo apt-get install --no-install-recommends {0}"
    )]
    Root(String),
    /// There is no apt.
    #[error("there is no cross compiler for arm64 here and no apt-get: install {0} by hand")]
    NoApt(String),
}

/// Runs `command` as the step `text`; its output and errors go to the log.
pub fn step(folders: &Folders, text: &str, command: &mut Command) -> Result<(), ToolError> {
    let log = folders.log();
    let opened = OpenOptions::new().create(true).append(true).open(&log).and_then(|mut file| {
        writeln!(file, "== {text}: {command:?}")?;
        Ok((file.try_clone()?, file))
    });
    let (output, errors) = opened.map_err(|e| ToolError::Log(log.clone(), e))?;
    let shown = Step::begin(text);
    let status = command.stdin(Stdio::null()).stdout(output).stderr(errors).status();
    let status = status.map_err(|e| ToolError::Start(name(command), e))?;
    if !status.success() {
        let (step, tail) = (text.to_string(), tail(&log, 8));
        return Err(ToolError::Failed { step, tail, log });
    }
    shown.done();
    Ok(())
}

/// Returns the output of a quick command.
pub fn ask(command: &mut Command) -> Result<String, ToolError> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.map_err(|e| ToolError::Start(name(command), e))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// Returns whether a program responds to `--version`.
fn there(program: &str) -> bool {
    let mut command = Command::new(program);
    let output = command.arg("--version").stdin(Stdio::null()).output();
    output.is_ok_and(|o| o.status.success())
}

/// Returns whether compiler, static C library and make are installed.
fn compiler_there() -> bool {
    let gcc = format!("{CROSS}gcc");
    let library = ask(Command::new(&gcc).arg("-print-file-name=libc.a"));
    // The compiler prints the bare name if it does not have the file.
    there("make") && library.is_ok_and(|path| path.contains('/'))
}

/// Makes sure that the cross compiler is installed: installs it as root, or says what to do.
pub fn compiler(folders: &Folders) -> Result<(), ToolError> {
    if compiler_there() {
        return Ok(());
    }
    let packages = PACKAGES.join(" ");
    if !there("apt-get") {
        return Err(ToolError::NoApt(packages));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(ToolError::Root(packages));
    }
    step(folders, "updating the machine's package lists", Command::new("apt-get").arg("update"))?;
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    install.args(["install", "-y", "--no-install-recommends"]).args(PACKAGES);
    step(folders, "installing the cross compiler for arm64", &mut install)
}

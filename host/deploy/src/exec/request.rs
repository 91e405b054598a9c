//! The request to a board: the program, its arguments, and the kernel.

use super::folders::Serving;
use super::{Line, Session, lock};
use crate::install;
use crate::transfer::{Sender, Stream};
use abi::host::{Exec, Kind, LARGEST};
use abi::program::{ANY_KERNEL, ARGUMENTS, FOLDER};
use anyhow::{Context, ensure};
use board::{Board, Isa};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::PathBuf;
use zerocopy::IntoBytes;

/// The program to run.
#[derive(Debug)]
pub enum Program {
    /// A module of this host.
    File(PathBuf),
    /// A program that the board has under this name.
    Name(String),
}

impl Program {
    /// Interprets the program on the command line.
    pub fn of(given: &OsStr) -> anyhow::Result<Program> {
        let shown = given.to_string_lossy();
        let is_path = shown.contains('/') || [".wasm", ".wat"].iter().any(|it| shown.ends_with(it));
        if !is_path {
            return Ok(Program::Name(install::named(&shown)?));
        }
        match std::fs::metadata(given) {
            Ok(found) if found.is_dir() => anyhow::bail!("{shown}: a directory, not a program"),
            Ok(_) => Ok(Program::File(given.into())),
            Err(why) if why.kind() == ErrorKind::NotFound => anyhow::bail!("{shown}: no such file"),
            Err(why) => Err(why).context(shown.into_owned()),
        }
    }

    /// Returns its name, which becomes its first argument.
    pub fn name(&self) -> String {
        match self {
            Program::Name(name) => name.clone(),
            Program::File(file) => {
                file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
            }
        }
    }
}

/// Returns the number of the kernel called `name`.
pub fn kernel(board: &Board, name: Option<&str>) -> anyhow::Result<u32> {
    let Some(name) = name else { return Ok(ANY_KERNEL) };
    let names: Vec<&str> = board.domains.iter().map(|domain| domain.name.as_str()).collect();
    let place = names.iter().position(|found| *found == name);
    let names = names.join(", ");
    Ok(place.with_context(|| format!("there is no kernel \"{name}\" on it; there are: {names}"))?
        as u32)
}

/// Returns an [`Exec`] and its strings: for the program `program` of the board, or for the one
/// called `name` whose images precede the request.
pub fn request(
    line: &Line,
    program: Option<&str>,
    name: &str,
    kernel: u32,
) -> anyhow::Result<Vec<u8>> {
    let path = program.map_or(String::new(), |program| format!("/{FOLDER}/{program}"));
    let mut arguments = ended(name)?;
    for argument in &line.arguments {
        arguments.extend(ended(argument)?);
    }
    let mut environment = vec![];
    for variable in &line.env {
        let named = variable.split_once('=').is_some_and(|(name, _)| !name.is_empty());
        ensure!(named, "--env {variable}: write NAME=VALUE");
        environment.extend(ended(variable)?);
    }
    let all = arguments.len() + environment.len();
    ensure!(
        all <= ARGUMENTS,
        "arguments and environment are {all} bytes together, and a process has at most \
         {ARGUMENTS}: hand the rest over in a file (--dir), or as input"
    );
    let head = Exec {
        kernel: kernel.into(),
        path: (path.len() as u32).into(),
        arguments: (arguments.len() as u32).into(),
        environment: (environment.len() as u32).into(),
    };
    Ok([head.as_bytes(), path.as_bytes(), &arguments, &environment].concat())
}

fn ended(text: &str) -> anyhow::Result<Vec<u8>> {
    ensure!(!text.contains('\0'), "arguments and environment must not contain a NUL");
    Ok([text.as_bytes(), b"\0"].concat())
}

/// Requests the program; from then on signals are sent to it.
pub fn begin(
    stream: &mut Stream,
    (images, request): (&[(Isa, Vec<u8>)], &[u8]),
    serving: &Serving,
    session: &Session,
) -> anyhow::Result<()> {
    let mut sender = stream.sender()?;
    // If the board stops reading early, its answer to the request tells why.
    let _ = ask(&mut sender, images, request, serving)?;
    *lock(&session.sender) = Some(sender);
    Ok(())
}

/// Returns false if the board stops reading.
fn ask(
    sender: &mut Sender,
    images: &[(Isa, Vec<u8>)],
    request: &[u8],
    serving: &Serving,
) -> anyhow::Result<bool> {
    for number in serving.numbers() {
        if !sender.send(Kind::UseFolder, number)? {
            return Ok(false);
        }
    }
    for (isa, image) in images {
        let begun = sender.send(Kind::Image, isa.name().as_bytes())?;
        if !begun || !pieces(sender, image)? || !sender.send(Kind::End, &[])? {
            return Ok(false);
        }
    }
    let (first, rest) = request.split_at(request.len().min(LARGEST));
    Ok(sender.send(Kind::Exec, first)? && pieces(sender, rest)?)
}

fn pieces(sender: &mut Sender, bytes: &[u8]) -> anyhow::Result<bool> {
    for piece in bytes.chunks(LARGEST) {
        if !sender.send(Kind::Data, piece)? {
            return Ok(false);
        }
    }
    Ok(true)
}

//! `pen exec`: runs a program on a board, with this terminal's input and output, and exits with the
//! program's result.
//!
//! ```text
//!   stdin   --thread-->  Data ..., End  --+
//!   ctrl-c  --thread-->  Signal         --+--> one stream --> Out, Err  --> stdout, stderr
//!                                                             Exit      --> exit code
//! ```
//! Folders of this host that the program sees ([`folders`]) have streams of their own. A second
//! signal exits at once: the stream ends, and with it the program. If no board is running, one is
//! started for the duration of the program, with a copy of the board's disk
//! ([`crate::system::lend`]).
//!
//! | how it ended | exit code |
//! | --- | --- |
//! | exit | its code, the low 8 bits |
//! | a signal | 128 + its number |
//! | a trap | 134, and which on standard error |
//! | its kernel died, or it did not start | 125, and why on standard error |

use crate::install::{self, Source};
use crate::transfer::{Sender, Stream};
use crate::up::{How, only, up};
use abi::host::{Exit, Kind, LARGEST};
use abi::process::{End, signal};
use abi::program::trap;
use anyhow::{Context, bail, ensure};
use board::Isa;
use folders::{Folders, Serving};
pub use request::kernel;
use request::{Program, begin, request};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tree::place::Place;
use workbench::instance::{BORROWED, Instance};
use workbench::prepare::own;
use zerocopy::{FromBytes, IntoBytes};

mod find;
mod folder;
mod folders;
mod request;
#[cfg(test)]
mod tests;

/// Exit code for a program that did not run, as in other tools.
const TROUBLE: u8 = 125;
/// Exit code for a trap: 128 + SIGABRT.
const TRAPPED: u8 = 134;
/// Added to the number of a signal.
const SIGNALLED: u8 = 128;
/// The board that is started if none is running.
const BOARD: &str = "duo";

/// `pen exec`
#[derive(clap::Args)]
pub struct Line {
    /// Kernel that runs it: a domain of the board. By default, the one that the manifest suggests.
    #[arg(long, value_name = "KERNEL")]
    on: Option<String>,
    /// Set an environment variable; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Let the program use a folder of this host, including writes. GUEST is its path for the
    /// program, by default HOST. If GUEST is "/", it is the program's root. May be repeated.
    #[arg(long, value_name = "HOST[::GUEST]")]
    dir: Vec<String>,
    /// Let the program in a file start with a listener at a port of the chip, as `listen` in its
    /// manifest does: LISTEN_FDS in its environment is their number, LISTEN_FDS_FIRST says where.
    /// `pen up --publish` makes the port reachable from this host. May be repeated.
    #[arg(long, value_name = "tcp:PORT", value_parser = listener)]
    listen: Vec<u16>,
    /// Manifest of a program in a file. By default, NAME.toml next to NAME.wasm.
    #[arg(long)]
    manifest: Option<PathBuf>,
    /// Board: a running one, or one from boards/, which is started for the duration of the program
    /// (as `pen run` does, on a copy of its disk).
    #[arg(long)]
    board: Option<String>,
    /// A file (any path with a "/" in it, or that ends with .wasm or .wat), which leaves nothing on
    /// the board. Or the name of a program in the board's /bin; for one, the programs of the system
    /// are built first if necessary, which takes minutes, once.
    program: OsString,
    /// Arguments of the program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// State for the signal thread: the program to signal, or the board to take down.
#[derive(Default)]
struct Session {
    /// While the program runs.
    sender: Mutex<Option<Sender>>,
    /// A board that was started for the program.
    borrowed: Mutex<Option<Instance>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Takes down the board that was started for the program. After `trouble` its folder is kept
    /// for diagnosis.
    fn release(&self, trouble: bool) {
        let Some(instance) = lock(&self.borrowed).take() else { return };
        match instance.stop() {
            Err(why) => eprintln!("pen: {}: {why}", instance.name),
            Ok(()) if trouble && instance.folder.exists() => {
                eprintln!("pen: logs stay in {}", instance.folder.display())
            }
            Ok(()) => drop(std::fs::remove_dir_all(&instance.folder)),
        }
    }

    /// Sends a frame. Returns false if the connection has ended.
    fn send(&self, kind: Kind, data: &[u8]) -> bool {
        lock(&self.sender).as_mut().is_some_and(|it| it.send(kind, data).unwrap_or(false))
    }
}

/// `pen exec`
pub fn exec(place: &Place, line: &Line) -> ExitCode {
    let session = Arc::new(Session::default());
    let ended = listen(&session).and_then(|()| run(place, line, &session));
    let code = ended.unwrap_or_else(|why| {
        eprintln!("pen: {why:#}");
        TROUBLE
    });
    session.release(code == TROUBLE);
    ExitCode::from(code)
}

/// From now on the first signal is sent to the program. A second one, or one before it runs, ends
/// this process.
fn listen(session: &Arc<Session>) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let session = session.clone();
    std::thread::spawn(move || {
        let mut told = false;
        for number in signals.forever() {
            let known = if number == SIGINT { signal::INT } else { signal::TERM };
            let running = session.sender.try_lock().map_or(true, |sender| sender.is_some());
            if told || !running {
                session.release(false);
                std::process::exit(i32::from(SIGNALLED) + number);
            }
            told = true;
            // The stream may be full; the next signal must not wait for it.
            let session = session.clone();
            std::thread::spawn(move || {
                session.send(Kind::Signal, u32::from(known).as_bytes());
            });
        }
    });
    Ok(())
}

fn run(place: &Place, line: &Line, session: &Arc<Session>) -> anyhow::Result<u8> {
    let program = Program::of(&line.program)?;
    let is_file = matches!(program, Program::File(_));
    ensure!(is_file || line.manifest.is_none(), "--manifest is for a .wasm file");
    ensure!(
        is_file || line.listen.is_empty(),
        "--listen is for a .wasm file; an installed program gets listeners by `listen` in its \
         manifest (`pen manifest`)"
    );
    let folders = Folders::open(&line.dir)?;
    let name = program.name();
    let instance = board(place, line.board.as_deref(), (!is_file).then_some(&*name), session)?;
    let on = kernel(&instance.board()?, line.on.as_deref())?;
    let images = images(place, &instance, line, &program, on)?;
    let path = match &program {
        Program::File(_) => None,
        Program::Name(name) => Some(find::program(&instance, name)?),
    };
    let request = request(line, path.as_deref(), &name, on)?;
    let serving = folders.serve(&instance)?;
    let mut stream = Stream::open(&instance)?;
    begin(&mut stream, (&images, &request), &serving, session)?;
    drop(images);
    let session = session.clone();
    std::thread::spawn(move || input(std::io::stdin(), &session));
    output(&mut stream, &name, &mut std::io::stdout(), &mut std::io::stderr())
}

/// Parses `tcp:PORT`.
fn listener(text: &str) -> Result<u16, &'static str> {
    abi::reach::listener(text.as_bytes()).ok_or("not \"tcp:PORT\", such as tcp:80")
}

/// Returns the images of a file, which are sent with the request.
fn images(
    place: &Place,
    instance: &Instance,
    line: &Line,
    program: &Program,
    on: u32,
) -> anyhow::Result<Vec<(Isa, Vec<u8>)>> {
    match program {
        Program::File(file) => {
            let source = Source::new(file, line.manifest.as_deref());
            install::images_on(place, instance, Source { listen: &line.listen, ..source }, on)
        }
        Program::Name(_) => Ok(vec![]),
    }
}

/// Returns the requested board, or the only one that is running; or starts one now, with the
/// program `wanted` of its system.
fn board(
    place: &Place,
    name: Option<&str>,
    wanted: Option<&str>,
    session: &Session,
) -> anyhow::Result<Instance> {
    let running = match name {
        // A path to a board file is not the name of a running board.
        Some(name) if name.ends_with(".toml") => None,
        Some(name) => Some(Instance::named(place, name)?).filter(|it| it.soc().is_some()),
        None => only(place)?,
    };
    if let Some(instance) = running {
        return Ok(instance);
    }
    let name = name.unwrap_or(BOARD);
    if let Some(wanted) = wanted {
        find::check(place, &own(place, name)?, wanted)?;
    }
    let lent = format!("{}{}", BORROWED, std::process::id());
    *lock(&session.borrowed) = Some(Instance::named(place, &lent)?);
    up(place, &How::lent(name, lent, wanted.is_some()))
}

/// Sends all of `from`, then the end of input.
fn input(mut from: impl Read, session: &Session) {
    let mut bytes = vec![0; LARGEST];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) if session.send(Kind::Data, &bytes[..count]) => {}
            Ok(_) => return,
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    session.send(Kind::End, &[]);
}

/// Prints output until the program ends. Returns how it ended.
fn output(
    stream: &mut Stream,
    name: &str,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<u8> {
    loop {
        let (kind, data) = stream.receive()?;
        let written = match kind {
            Kind::Out => out.write_all(&data).and_then(|()| out.flush()),
            Kind::Err => err.write_all(&data).and_then(|()| err.flush()),
            Kind::RootFull => {
                eprintln!("pen: {}", stream.full(&data));
                Ok(())
            }
            Kind::Exit => {
                let exit = Exit::read_from_bytes(&data).ok();
                let (code, why) = ending(&exit.context("the board sent an invalid exit status")?);
                if let Some(why) = why {
                    eprintln!("pen: {name}: {why}");
                }
                return Ok(code);
            }
            kind => bail!("the board answered {kind:?} to a request to run a program"),
        };
        match written {
            Ok(()) => {}
            // The reader of our output is gone; the program ends with the stream.
            Err(why) if why.kind() == ErrorKind::BrokenPipe => {
                return Ok(SIGNALLED + signal::PIPE as u8);
            }
            Err(why) => return Err(why.into()),
        }
    }
}

/// Returns the exit code and the message for an end.
fn ending(exit: &Exit) -> (u8, Option<&'static str>) {
    let status = exit.status.get();
    let kind = u16::try_from(exit.kind.get()).ok().and_then(End::from_code);
    match kind {
        Some(End::Exit) => ((status & 0xff) as u8, None),
        Some(End::Signal) => (SIGNALLED + (status & 0x7f) as u8, None),
        Some(End::Trap) => (TRAPPED, Some(trapped(status))),
        Some(End::Lost) => (TROUBLE, Some("its kernel died")),
        None => (TROUBLE, Some("it ended in a way that this `pen` does not know")),
    }
}

fn trapped(which: u32) -> &'static str {
    match which {
        trap::STACK => "trap: recursion without end",
        trap::MEMORY => "trap: a load or store outside its memory",
        trap::TABLE => "trap: a call through a table's entry that is empty, wrong or not there",
        trap::UNREACHABLE => "trap: unreachable, a panic or an abort of the program",
        trap::NUMBER => "trap: a division by zero, or a number that does not fit",
        trap::NO_MEMORY => "trap: no memory for it any more",
        _ => "trap",
    }
}

/// Output and result of a program, for tests.
#[derive(Debug, PartialEq, Eq)]
pub struct Captured {
    /// The exit code of `pen exec`.
    pub code: u8,
    /// Its output.
    pub out: Vec<u8>,
    /// Its errors.
    pub err: Vec<u8>,
}

/// A running program whose output is not read. Dropping it disconnects, like killing `pen exec`.
pub struct Begun {
    stream: Stream,
    session: Arc<Session>,
    _serving: Serving,
}

/// Starts a file or an installed program.
pub fn begun(instance: &Instance, line: &Line) -> anyhow::Result<Begun> {
    let session = Arc::new(Session::default());
    let on = kernel(&instance.board()?, line.on.as_deref())?;
    let program = Program::of(&line.program)?;
    let (name, images) = (program.name(), images(&Place::find()?, instance, line, &program, on)?);
    let _serving = Folders::open(&line.dir)?.serve(instance)?;
    let mut stream = Stream::open(instance)?;
    let request = request(line, images.is_empty().then_some(name.as_str()), &name, on)?;
    begin(&mut stream, (&images, &request), &_serving, &session)?;
    Ok(Begun { stream, session, _serving })
}

/// Runs a file or an installed program with `input`, as `pen exec` does.
pub fn captured(
    instance: &Instance,
    line: &Line,
    input: Option<Vec<u8>>,
) -> anyhow::Result<Captured> {
    let mut begun = begun(instance, line)?;
    if let Some(bytes) = input {
        let session = begun.session.clone();
        std::thread::spawn(move || self::input(&bytes[..], &session));
    }
    let (mut out, mut err) = (vec![], vec![]);
    let name = line.program.to_string_lossy();
    let code = output(&mut begun.stream, &name, &mut out, &mut err)?;
    Ok(Captured { code, out, err })
}

impl Line {
    /// The command line `PROGRAM ARGUMENTS`, without a kernel.
    pub fn anywhere(program: &str, arguments: &[&str]) -> Line {
        Line { on: None, ..Line::on("", program, arguments) }
    }

    /// Adds `--dir` for each of these.
    pub fn with(self, folders: &[String]) -> Line {
        Line { dir: folders.to_vec(), ..self }
    }

    /// Adds `--manifest MANIFEST --listen tcp:PORT`.
    pub fn at(self, manifest: &Path, port: u16) -> Line {
        Line { manifest: Some(manifest.to_path_buf()), listen: vec![port], ..self }
    }

    /// The command line `--on KERNEL PROGRAM ARGUMENTS`.
    pub fn on(kernel: &str, program: &str, arguments: &[&str]) -> Line {
        Line {
            on: Some(kernel.to_string()),
            env: vec!["COLOUR=blue".to_string()],
            dir: vec![],
            listen: vec![],
            manifest: None,
            board: None,
            program: program.into(),
            arguments: arguments.iter().map(ToString::to_string).collect(),
        }
    }
}

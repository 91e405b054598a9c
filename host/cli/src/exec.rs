//! `pen exec`: a program runs on a board, with this terminal's input and output, and `pen` ends as
//! the program ends.
//!
//! ```text
//!   stdin   --thread-->  Data ..., End  --+
//!   ctrl-c  --thread-->  Signal         --+--> one stream --> Out, Err  --> stdout, stderr
//!                                                             Exit      --> exit code
//! ```
//! Folders of this host that the program sees ([`folders`]) have streams of their own.
//! A second signal leaves at once: the stream ends, and with it the program. Where no board runs,
//! one is started for as long as the program does, with a copy of the disk that the board has here
//! ([`crate::system::lend`]).
//!
//! | how it ended | exit code |
//! | --- | --- |
//! | said so | what it said, its low 8 bits |
//! | a signal | 128 + its number |
//! | a trap | 134, and which on standard error |
//! | its kernel died, or it did not begin | 125, and why on standard error |

use crate::instance::Instance;
use crate::place::Place;
use crate::transfer::{Sender, Stream};
use crate::{How, commands, install};
use abi::host::{Exec, Exit, Kind, LARGEST};
use abi::process::{End, signal};
use abi::program::{ANY_KERNEL, FOLDER, trap};
use anyhow::{Context, bail, ensure};
use board::Board;
use folders::{Folders, Serving};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerocopy::{FromBytes, IntoBytes};

mod find;
mod folder;
mod folders;
#[cfg(test)]
mod tests;

/// A program that did not run, as shells and their like tell it.
const TROUBLE: u8 = 125;
/// As a program's own abort on other systems: 128 + SIGABRT.
const TRAPPED: u8 = 134;
/// What a code is above for a signal.
const SIGNALLED: u8 = 128;
/// The board that is started where none runs.
const BOARD: &str = "duo";

/// `pen exec`
#[derive(clap::Args)]
pub struct Line {
    /// Which kernel runs it: a domain of the board; without, whichever its manifest suggests.
    #[arg(long, value_name = "KERNEL")]
    on: Option<String>,
    /// Of its environment; may come several times.
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A folder of this host that it sees, writes included, and by which path; may come several
    /// times.
    #[arg(long, value_name = "HOST:GUEST")]
    dir: Vec<String>,
    /// What it may do, where a file is installed first.
    #[arg(long)]
    manifest: Option<PathBuf>,
    /// Which board: one that runs, or one from boards/, which is started for as long as this takes
    /// (as `pen run` does, on a copy of its disk).
    #[arg(long)]
    board: Option<String>,
    /// A .wasm (or .wat) file, which is installed first, or a name in the board's /bin. For a name,
    /// the programs of the system are built, where that was not done: minutes, once.
    program: String,
    /// Arguments of the program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// What the thread for signals needs: whom to tell, or what to clean up.
#[derive(Default)]
struct Session {
    /// While the program runs.
    sender: Mutex<Option<Sender>>,
    /// A board that ends with the program.
    borrowed: Mutex<Option<Instance>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Takes the board down that was started for the program. Its folder tells of `trouble`, and is
    /// of no use otherwise.
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

    /// Sends while nobody else does; false: nobody listens any more.
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

/// From now on a first signal is the program's, and a second one, or one before it runs, ends us.
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
            // The stream may be full for now; the next signal must not wait for that.
            let session = session.clone();
            std::thread::spawn(move || {
                session.send(Kind::Signal, u32::from(known).as_bytes());
            });
        }
    });
    Ok(())
}

fn run(place: &Place, line: &Line, session: &Arc<Session>) -> anyhow::Result<u8> {
    let is_file = [".wasm", ".wat"].iter().any(|end| line.program.ends_with(end));
    let file = Some(Path::new(&line.program)).filter(|_| is_file);
    let name = match file {
        Some(file) => install::name_of(file)?,
        None => install::named(&line.program)?,
    };
    ensure!(file.is_some() || line.manifest.is_none(), "--manifest is for a .wasm file");
    ensure!(file.is_none_or(Path::exists), "{}: no such file", line.program);
    let folders = Folders::open(&line.dir)?;
    let wanted = Some(name.as_str()).filter(|_| file.is_none());
    let instance = board(place, line.board.as_deref(), wanted, session)?;
    let kernel = kernel(&instance.board()?, line.on.as_deref())?;
    let program = match file {
        Some(file) => {
            install::put(place, &instance, file, line.manifest.as_deref(), &name)?;
            name.clone()
        }
        None => find::program(&instance, &name)?,
    };
    let request = request(line, (&program, &name), kernel)?;
    let serving = folders.serve(&instance)?;
    let mut stream = Stream::open(&instance)?;
    begin(&mut stream, &request, &serving, session)?;
    let session = session.clone();
    std::thread::spawn(move || input(std::io::stdin(), &session));
    output(&mut stream, &name, &mut std::io::stdout(), &mut std::io::stderr())
}

/// The board that was asked for, or the only one that runs, or one that is started now, with the
/// program `wanted` of its system.
fn board(
    place: &Place,
    name: Option<&str>,
    wanted: Option<&str>,
    session: &Session,
) -> anyhow::Result<Instance> {
    let running = match name {
        // A path to a board's file is no name of one that runs.
        Some(name) if name.ends_with(".toml") => None,
        Some(name) => Some(Instance::named(place, name)?).filter(|it| it.soc().is_some()),
        None => commands::only(place)?,
    };
    if let Some(instance) = running {
        return Ok(instance);
    }
    let name = name.unwrap_or(BOARD);
    if let Some(wanted) = wanted {
        find::check(place, &commands::own(place, name)?, wanted)?;
    }
    let lent = format!("{}{}", commands::BORROWED, std::process::id());
    *lock(&session.borrowed) = Some(Instance::named(place, &lent)?);
    commands::up(place, &How::lent(name, lent, wanted.is_some()))
}

/// The number of the kernel called `name`.
fn kernel(board: &Board, name: Option<&str>) -> anyhow::Result<u32> {
    let Some(name) = name else { return Ok(ANY_KERNEL) };
    let names: Vec<&str> = board.domains.iter().map(|domain| domain.name.as_str()).collect();
    let place = names.iter().position(|found| *found == name);
    let names = names.join(", ");
    Ok(place.with_context(|| format!("there is no kernel \"{name}\" on it; there are: {names}"))?
        as u32)
}

/// What the board is asked: an [`Exec`] and its strings. A program, and by which name it is called.
fn request(line: &Line, (program, name): (&str, &str), kernel: u32) -> anyhow::Result<Vec<u8>> {
    let path = format!("/{FOLDER}/{program}");
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
    let head = Exec {
        kernel: kernel.into(),
        path: (path.len() as u32).into(),
        arguments: (arguments.len() as u32).into(),
        environment: (environment.len() as u32).into(),
    };
    let request = [head.as_bytes(), path.as_bytes(), &arguments, &environment].concat();
    let room = LARGEST - size_of::<Exec>() - path.len();
    ensure!(
        request.len() <= LARGEST,
        "arguments and environment are {} bytes together; at most {room} go through",
        arguments.len() + environment.len()
    );
    Ok(request)
}

fn ended(text: &str) -> anyhow::Result<Vec<u8>> {
    ensure!(!text.contains('\0'), "arguments and environment have no NUL");
    Ok([text.as_bytes(), b"\0"].concat())
}

/// Asks for the program; from here on it is who is told of signals.
fn begin(
    stream: &mut Stream,
    request: &[u8],
    serving: &Serving,
    session: &Session,
) -> anyhow::Result<()> {
    let mut sender = stream.sender()?;
    for number in serving.numbers() {
        sender.send(Kind::UseFolder, number)?;
    }
    sender.send(Kind::Exec, request)?;
    *lock(&session.sender) = Some(sender);
    Ok(())
}

/// Sends all of `from`, and that it ended.
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

/// Shows what comes, until the program ends; how did it?
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
            Kind::Exit => {
                let exit = Exit::read_from_bytes(&data).ok();
                let (code, why) = ending(&exit.context("the board sends an end without sense")?);
                if let Some(why) = why {
                    eprintln!("pen: {name}: {why}");
                }
                return Ok(code);
            }
            kind => bail!("the board answers {kind:?} to a program"),
        };
        match written {
            Ok(()) => {}
            // Nobody reads it any more; the program ends with the stream.
            Err(why) if why.kind() == ErrorKind::BrokenPipe => {
                return Ok(SIGNALLED + signal::PIPE as u8);
            }
            Err(why) => return Err(why.into()),
        }
    }
}

/// The exit code for an end, and what is to be said about it.
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

/// What a program said and how it ended: for tests.
#[derive(Debug, PartialEq, Eq)]
pub struct Captured {
    /// The exit code that `pen exec` would have.
    pub code: u8,
    /// Its output.
    pub out: Vec<u8>,
    /// Its errors.
    pub err: Vec<u8>,
}

/// A program that runs, without anybody who hears it. Who drops it is gone, as a `pen exec` that
/// was killed.
pub struct Begun {
    stream: Stream,
    session: Arc<Session>,
    _serving: Serving,
}

/// Begins what is installed.
pub fn begun(instance: &Instance, line: &Line) -> anyhow::Result<Begun> {
    let session = Arc::new(Session::default());
    let on = kernel(&instance.board()?, line.on.as_deref())?;
    let _serving = Folders::open(&line.dir)?.serve(instance)?;
    let mut stream = Stream::open(instance)?;
    let request = request(line, (&line.program, &line.program), on)?;
    begin(&mut stream, &request, &_serving, &session)?;
    Ok(Begun { stream, session, _serving })
}

/// Runs what is installed with `input`, as `pen exec` does.
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
    let code = output(&mut begun.stream, &line.program, &mut out, &mut err)?;
    Ok(Captured { code, out, err })
}

impl Line {
    /// `PROGRAM ARGUMENTS`, on whichever kernel.
    pub fn anywhere(program: &str, arguments: &[&str]) -> Line {
        Line { on: None, ..Line::on("", program, arguments) }
    }

    /// The same with `--dir` for each of these.
    pub fn with(self, folders: &[String]) -> Line {
        Line { dir: folders.to_vec(), ..self }
    }

    /// `--on KERNEL PROGRAM ARGUMENTS`
    pub fn on(kernel: &str, program: &str, arguments: &[&str]) -> Line {
        Line {
            on: Some(kernel.to_string()),
            env: vec!["COLOUR=blue".to_string()],
            dir: vec![],
            manifest: None,
            board: None,
            program: program.to_string(),
            arguments: arguments.iter().map(ToString::to_string).collect(),
        }
    }
}

//! The system monitor: lines from the system console, commands, text back.
//!
//! A command gets its words and a place to write; it does not know whether it was typed here or
//! sent by another kernel's `on`. Nothing typed can panic this kernel, except the command that
//! says so.

mod aside;
mod balloon;
mod bench;
mod blocks;
mod chip;
mod disks;
mod dma;
mod faults;
pub mod files;
#[cfg(feature = "seeded")]
mod handover;
mod hoard;
mod inspect;
mod line;
mod net;
mod overlap;
pub mod pingpong;
mod pipes;
mod section93;
mod sequence;
mod stress;
mod table6;
mod tasks;
mod twins;
mod watts;

use crate::kernel::Kernel;
use crate::panic::Text;
use crate::peers::{Ask, CallFailure, Terms};
use crate::terminal::{self, Pressed};
use alloc::vec::Vec;
use base::id::DomainId;
use core::fmt::{self, Write};
pub use disks::settle;
use kernel_msg::Level;
use kernel_terminal::Keys;
use line::{Edit, LINE, Line};
pub use watts::{asked_frequency, gates_idle};

/// Most words of a command line; the rest is refused.
const WORDS: usize = 16;

/// A kernel without a sign of life for this long is given up by the commands that asked it.
const PATIENCE_NS: u64 = 10_000_000_000;

/// On whose behalf a command runs: here on the console, or for another kernel's request.
#[derive(Clone, Copy)]
pub struct Session {
    /// The kernel it runs in.
    pub kernel: &'static Kernel,
    /// Level of its calls, and of those of the threads that it makes and waits for.
    pub level: Level,
}

impl Session {
    /// In `kernel`, calling at `level`.
    pub fn at(kernel: &'static Kernel, level: Level) -> Self {
        Session { kernel, level }
    }

    /// Calls another kernel.
    pub fn call(
        &self,
        peer: DomainId,
        ask: Ask,
        payload: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, CallFailure> {
        let terms = Terms { level: self.level, patience: Some(PATIENCE_NS) };
        self.kernel.peers.call(terms, peer, ask, payload, buffer)
    }

    /// A call of one number for another.
    pub fn call_value(&self, peer: DomainId, ask: Ask, value: u64) -> Result<u64, CallFailure> {
        let mut answer = [0; 8];
        let bytes = self.call(peer, ask, &value.to_le_bytes(), &mut answer)?;
        if bytes == 8 { Ok(u64::from_le_bytes(answer)) } else { Err(CallFailure::Limits) }
    }
}

/// Why a command did not do what it was asked.
pub enum Failure {
    /// Wrong words: show how it is meant.
    Usage,
    /// It was tried; this is why it did not work.
    Failed(&'static str),
    /// The place to write went away or is full.
    Output,
}

impl Failure {
    /// For people.
    pub fn text(&self) -> &'static str {
        match self {
            Failure::Failed(text) => text,
            Failure::Usage | Failure::Output => "refused",
        }
    }
}

impl From<CallFailure> for Failure {
    fn from(failure: CallFailure) -> Self {
        Failure::Failed(failure.text())
    }
}

impl From<fmt::Error> for Failure {
    fn from(_: fmt::Error) -> Self {
        Failure::Output
    }
}

/// Result of a command.
pub type Outcome = Result<(), Failure>;

/// One command.
pub struct Command {
    name: &'static str,
    arguments: &'static str,
    help: &'static str,
    run: fn(&Session, &mut dyn Write, &[&str]) -> Outcome,
}

const HELP: Command =
    Command { name: "help", arguments: "[COMMAND]", help: "this list", run: help };

/// All commands, in the order of `help`.
fn commands() -> impl Iterator<Item = &'static Command> {
    [
        HELP_LIST,
        inspect::COMMANDS,
        chip::COMMANDS,
        dma::COMMANDS,
        files::COMMANDS,
        tasks::COMMANDS,
        pipes::COMMANDS,
        overlap::COMMANDS,
        net::COMMANDS,
        watts::COMMANDS,
        section93::COMMANDS,
        sequence::COMMANDS,
        stress::COMMANDS,
        balloon::COMMANDS,
        bench::COMMANDS,
        faults::COMMANDS,
        twins::COMMANDS,
        pingpong::COMMANDS,
        aside::COMMANDS,
        hoard::COMMANDS,
        #[cfg(feature = "seeded")]
        handover::COMMANDS,
    ]
    .into_iter()
    .flatten()
}

const HELP_LIST: &[Command] = &[HELP];

/// The monitor thread: for ever.
pub fn thread(_: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    let mut line = Line::new();
    greet(kernel);
    scripted(kernel);
    let (mut keys, shared) = (Keys::new(), terminal::start(kernel));
    if !shared {
        prompt(kernel);
    }
    loop {
        let mut bytes = [0; 64];
        let count = kernel.devices.read(kernel, &mut bytes);
        for &byte in &bytes[..count] {
            match shared.then(|| terminal::press(kernel, &mut keys, byte)) {
                Some(Pressed::Taken) => {}
                Some(Pressed::Away) => prompt(kernel),
                Some(Pressed::Monitors) | None => typed(kernel, &mut line, byte),
            }
        }
    }
}

fn greet(kernel: &'static Kernel) {
    let mut out = kernel.console();
    let board = abi::boot::text(&kernel.blob.name);
    // A console that is gone has nobody to tell.
    let _ = writeln!(out, "\nPenumbra on {board}: kernel {}", kernel.name());
    let _ = writeln!(out, "`help` lists what this monitor can do.");
}

/// Runs what the board's command line says behind `run=`: commands with `;` between them.
fn scripted(kernel: &'static Kernel) {
    let arguments = abi::boot::text(&kernel.blob.arguments);
    let Some((_, script)) = arguments.split_once("run=") else { return };
    for line in script.split(';') {
        let mut out = kernel.console();
        let _ = writeln!(out, "{}> {}", kernel.name(), line.trim());
        run(&Session::at(kernel, Level(0)), &mut out, line);
    }
}

fn prompt(kernel: &'static Kernel) {
    let _ = write!(kernel.console(), "{}> ", kernel.name());
}

fn typed(kernel: &'static Kernel, line: &mut Line, byte: u8) {
    let mut out = kernel.console();
    let _ = match line.feed(byte) {
        Edit::Echo(byte) => out.write_char(byte as char),
        Edit::Erase => out.write_str("\x08 \x08"),
        Edit::EraseAll(count) => (0..count).try_for_each(|_| out.write_str("\x08 \x08")),
        Edit::Cancel => {
            let _ = out.write_str("^C\n");
            prompt(kernel);
            Ok(())
        }
        Edit::Refuse => out.write_char('\x07'),
        Edit::Nothing => Ok(()),
        Edit::Enter => {
            let _ = out.write_char('\n');
            run(&Session::at(kernel, Level(0)), &mut out, line.text());
            line.reset();
            prompt(kernel);
            Ok(())
        }
    };
}

/// Runs one command line; everything it has to say goes to `out`. What failed begins with `! `,
/// here and in what another kernel answers, so that a script's reader sees it.
pub fn run(session: &Session, out: &mut dyn Write, text: &str) {
    let mut words = [""; WORDS];
    let mut count = 0;
    for word in text.split_ascii_whitespace() {
        if count == WORDS {
            let _ = writeln!(out, "! more than {WORDS} words: nothing was done");
            return;
        }
        words[count] = word;
        count += 1;
    }
    let Some((&name, arguments)) = words[..count].split_first() else { return };
    let Some(command) = commands().find(|c| c.name == name) else {
        let _ = writeln!(out, "! no command `{name}`; `help` lists them");
        return;
    };
    // Nothing is left to tell when the output itself fails.
    let _ = match (command.run)(session, out, arguments) {
        Ok(()) | Err(Failure::Output) => Ok(()),
        Err(Failure::Usage) => writeln!(out, "! usage: {} {}", command.name, command.arguments),
        Err(Failure::Failed(why)) => writeln!(out, "! {}: {why}", command.name),
    };
}

fn help(_: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let wanted = arguments.first();
    for command in commands().filter(|c| wanted.is_none_or(|&name| c.name == name)) {
        writeln!(out, "  {:<8}{:<32}{}", command.name, command.arguments, command.help)?;
    }
    if wanted.is_none() {
        writeln!(out, "ctrl-a x leaves this terminal.")?;
    }
    Ok(())
}

/// What one of `rounds` took, behind the name of a record.
fn record(out: &mut dyn Write, total: u64, rounds: u64) -> Outcome {
    let tenths = total.saturating_mul(10) / rounds.max(1);
    Ok(writeln!(out, "{}.{} ns", tenths / 10, tenths % 10)?)
}

/// Words as a command line again.
fn joined(words: &[&str]) -> Result<Text<LINE>, Failure> {
    let mut line = Text::new();
    let fits = words.iter().try_for_each(|word| write!(line, "{word} "));
    fits.map_err(|_| Failure::Failed("the command is too long"))?;
    Ok(line)
}

/// Zeroed memory for a message.
fn buffer(bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut buffer = Vec::new();
    let reserved = buffer.try_reserve_exact(bytes);
    reserved.map_err(|_| Failure::Failed("no memory for a buffer"))?;
    buffer.resize(bytes, 0);
    Ok(buffer)
}

/// A number among the words, or how it is meant.
fn number(arguments: &[&str], index: usize, default: u64) -> Result<u64, Failure> {
    match arguments.get(index) {
        None => Ok(default),
        Some(word) => word.parse().map_err(|_| Failure::Usage),
    }
}

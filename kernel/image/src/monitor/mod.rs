//! The system monitor: lines from the system console, commands, text back.
//!
//! A command gets its words and a place to write; it does not know whether it was typed here or
//! sent by another kernel's `on`. Nothing typed can panic this kernel, except the command that
//! says so.

mod bench;
mod chip;
mod dma;
mod inspect;
mod line;
mod stress;

use crate::kernel::Kernel;
use core::fmt::{self, Write};
use line::{Edit, Line};

/// Most words of a command line; the rest is refused.
const WORDS: usize = 16;

/// Why a command did not do what it was asked.
pub enum Failure {
    /// Wrong words: show how it is meant.
    Usage,
    /// It was tried; this is why it did not work.
    Failed(&'static str),
    /// The place to write went away or is full.
    Output,
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
    run: fn(&'static Kernel, &mut dyn Write, &[&str]) -> Outcome,
}

const HELP: Command =
    Command { name: "help", arguments: "[COMMAND]", help: "this list", run: help };

/// All commands, in the order of `help`.
fn commands() -> impl Iterator<Item = &'static Command> {
    [HELP_LIST, inspect::COMMANDS, chip::COMMANDS, dma::COMMANDS, stress::COMMANDS, bench::COMMANDS]
        .into_iter()
        .flatten()
}

const HELP_LIST: &[Command] = &[HELP];

/// The monitor thread: for ever.
pub fn thread(_: usize) {
    let Some(kernel) = crate::kernel::get() else { return };
    let mut line = Line::new();
    greet(kernel);
    prompt(kernel);
    loop {
        let mut bytes = [0; 64];
        let count = kernel.devices.read(kernel, &mut bytes);
        for &byte in &bytes[..count] {
            typed(kernel, &mut line, byte);
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
            run(kernel, &mut out, line.text());
            line.reset();
            prompt(kernel);
            Ok(())
        }
    };
}

/// Runs one command line; everything it has to say goes to `out`.
pub fn run(kernel: &'static Kernel, out: &mut dyn Write, text: &str) {
    let mut words = [""; WORDS];
    let mut count = 0;
    for word in text.split_ascii_whitespace() {
        if count == WORDS {
            let _ = writeln!(out, "more than {WORDS} words: nothing was done");
            return;
        }
        words[count] = word;
        count += 1;
    }
    let Some((&name, arguments)) = words[..count].split_first() else { return };
    let Some(command) = commands().find(|c| c.name == name) else {
        let _ = writeln!(out, "no command `{name}`; `help` lists them");
        return;
    };
    // Nothing is left to tell when the output itself fails.
    let _ = match (command.run)(kernel, out, arguments) {
        Ok(()) | Err(Failure::Output) => Ok(()),
        Err(Failure::Usage) => writeln!(out, "usage: {} {}", command.name, command.arguments),
        Err(Failure::Failed(why)) => writeln!(out, "{}: {why}", command.name),
    };
}

fn help(_: &'static Kernel, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let wanted = arguments.first();
    for command in commands().filter(|c| wanted.is_none_or(|&name| c.name == name)) {
        writeln!(out, "  {:<8}{:<26}{}", command.name, command.arguments, command.help)?;
    }
    if wanted.is_none() {
        writeln!(out, "ctrl-a x leaves this terminal.")?;
    }
    Ok(())
}

/// A number among the words, or how it is meant.
fn number(arguments: &[&str], index: usize, default: u64) -> Result<u64, Failure> {
    match arguments.get(index) {
        None => Ok(default),
        Some(word) => word.parse().map_err(|_| Failure::Usage),
    }
}

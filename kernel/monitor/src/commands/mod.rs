//! Commands: words in, text out. The monitor, `/proc` and other kernels (`on`) run them in the same
//! way, so a command does not know where its output goes. No input can panic this kernel, except
//! the commands `panic` and `overflow`.
//!
//! - [`inspect`]: cores, memory, interrupts, threads, traces
//! - [`chip`]: peers, calls, power, devices
//! - [`files`], [`disks`]: services and file systems
//! - [`network`]: the interface to the outside, sockets
//! - [`tasks`][]: processes
//! - [`channels`]: ends of channels, and descriptors; [`names`]: names of channels; [`traffic`]:
//!   what programs have sent through them, for tools
//! - [`watts`]: frequency, idle state, energy
//! - [`balloon`]: memory blocks
//! - [`records`]: measurements of boot time and memory

mod balloon;
mod channels;
mod chip;
mod disks;
mod files;
mod inspect;
mod names;
mod network;
mod records;
mod tasks;
mod traffic;
mod watts;

use alloc::vec::Vec;
use arch::lock::Once;
pub use balloon::{audit, explain as explain_balloon};
pub use chip::first_peer;
use core::fmt::Write;
pub use disks::NAMES_SERVER;
use kernel_node::print::Text;
use kernel_services::session::{Failure, Outcome, Session};
pub use watts::{asked_frequency, gates_idle};

/// Most bytes of a command line.
pub const LINE: usize = 200;
/// Most words of a command line. A longer one is refused.
const WORDS: usize = 16;

pub struct Command {
    pub name: &'static str,
    /// Its arguments, for the usage text.
    pub arguments: &'static str,
    /// What it does, for `help`.
    pub help: &'static str,
    /// Executes the command with its arguments, and writes its output.
    pub run: fn(&Session, &mut dyn Write, &[&str]) -> Outcome,
}

const HELP: Command =
    Command { name: "help", arguments: "[COMMAND]", help: "this list", run: help };

/// The commands of every kernel, in the order of `help`.
const OURS: &[&[Command]] = &[
    &[HELP],
    inspect::COMMANDS,
    chip::COMMANDS,
    files::COMMANDS,
    network::COMMANDS,
    tasks::COMMANDS,
    channels::COMMANDS,
    traffic::COMMANDS,
    names::COMMANDS,
    watts::COMMANDS,
    balloon::COMMANDS,
    records::COMMANDS,
];

/// Additional commands of a test image.
static MORE: Once<&'static [&'static [Command]]> = Once::new();

/// Adds commands. Only the first call has an effect.
pub fn extend(more: &'static [&'static [Command]]) {
    let _ = MORE.set(more);
}

/// Returns all commands, in the order of `help`.
fn commands() -> impl Iterator<Item = &'static Command> {
    let more = MORE.get().copied().unwrap_or_default();
    OURS.iter().chain(more).copied().flatten()
}

/// Runs one command line, with its output to `out`. Errors are lines that begin with `! `, also if
/// they come from another kernel, so that scripts can detect them.
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
    // A failure of the output cannot be reported.
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

/// Joins words to a command line.
pub fn joined(words: &[&str]) -> Result<Text<LINE>, Failure> {
    let mut line = Text::new();
    let fits = words.iter().try_for_each(|word| write!(line, "{word} "));
    fits.map_err(|_| Failure::Failed("the command is too long"))?;
    Ok(line)
}

/// Writes bytes as hexadecimal digits.
pub fn hex(out: &mut dyn Write, bytes: &[u8]) -> core::fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

/// Allocates `bytes` bytes of zeroes.
pub fn buffer(bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut buffer = Vec::new();
    let reserved = buffer.try_reserve_exact(bytes);
    reserved.map_err(|_| Failure::Failed("no memory for a buffer"))?;
    buffer.resize(bytes, 0);
    Ok(buffer)
}

/// Returns the argument at `index` as a number, or `default` if there is none.
pub fn number(arguments: &[&str], index: usize, default: u64) -> Result<u64, Failure> {
    match arguments.get(index) {
        None => Ok(default),
        Some(word) => word.parse().map_err(|_| Failure::Usage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_its_own_name_and_fits_a_line() {
        let names = || commands().map(|command| command.name);
        for (index, name) in names().enumerate() {
            assert!(!name.is_empty() && name.len() < LINE);
            assert!(!names().skip(index + 1).any(|other| other == name), "two are named {name}");
        }
    }

    #[test]
    fn a_missing_number_has_a_default_and_a_wrong_one_is_an_error() {
        assert_eq!(number(&["7"], 0, 3).ok(), Some(7));
        assert_eq!(number(&["7"], 1, 3).ok(), Some(3));
        for wrong in ["", "x", "-1", "99999999999999999999"] {
            assert!(matches!(number(&[wrong], 0, 3), Err(Failure::Usage)));
        }
    }

    #[test]
    fn words_are_joined_to_a_command_line_if_it_is_not_too_long() {
        let line = joined(&["fs", "cat", "note"]).ok();
        assert_eq!(line.as_ref().map(Text::as_bytes), Some(&b"fs cat note "[..]));
    }
}

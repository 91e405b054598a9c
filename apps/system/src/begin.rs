//! Programs that tools begin: `on`, `limit`, `env`, `xargs`, `find`.

use crate::Answer;
use crate::look::absolute;
use penumbra::{Command, End, Errno};

/// Where the names are that other programs serve.
const APPLETS: &str = "/bin/.applets";
/// Bytes that a program's arguments and environment may have: 128 KiB, of which some are left for
/// what a manifest or a script adds.
pub const ROOM: usize = 120 << 10;

/// What became of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It ended so.
    Ended(End),
    /// It did not begin.
    Not(Errno),
}

impl Ran {
    /// As a shell has it; says why one did not begin.
    pub fn code(self, program: &str) -> u32 {
        match self {
            Ran::Ended(end) => end.code(),
            Ran::Not(error) => {
                eprintln!("{program}: {error}");
                if error == Errno::NOENT { 127 } else { 126 }
            }
        }
    }
}

/// Bytes that strings take in a beginning.
pub fn bytes<'a>(words: impl IntoIterator<Item = &'a String>) -> usize {
    words.into_iter().map(|word| word.len() + 1).sum()
}

/// The program that serves a name: lines of `NAME PROGRAM`.
fn served(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(APPLETS).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(served, _)| *served == name).map(|(_, program)| format!("/bin/{program}"))
}

/// Begins a program, waits for it, and answers as it does.
pub fn run(
    program: &str,
    arguments: &[String],
    variables: Vec<(String, String)>,
    change: impl Fn(Command) -> Command,
) -> Answer {
    Ok(begin(program, arguments, &variables, change)?.code(program))
}

/// The same, and how it ended. It gets input, output and errors of the caller, unless `change` says
/// otherwise.
pub fn begin(
    program: &str,
    arguments: &[String],
    variables: &[(String, String)],
    change: impl Fn(Command) -> Command,
) -> Result<Ran, String> {
    let begin = |path: &str| {
        let mut command = Command::bare(path).arg(program).file(0, 0).file(1, 1).file(2, 2);
        command = command.args(arguments.iter().map(String::as_str));
        for (name, value) in variables {
            command = command.env(name, value);
        }
        change(command).spawn()
    };
    let path = match program.contains('/') {
        true => absolute(program)?,
        false => format!("/bin/{program}"),
    };
    let begun = begin(&path).or_else(|why| match served(program) {
        Some(by) if why == Errno::NOENT => begin(&by),
        _ => Err(why),
    });
    match begun {
        Ok(child) => Ok(Ran::Ended(child.wait().map_err(|error| error.to_string())?.end)),
        Err(error) => Ok(Ran::Not(error)),
    }
}

//! Starting programs from tools: `on`, `limit`, `env`, `xargs`, `find`.

use crate::Answer;
use crate::look::absolute;
use penumbra::{Command, End, Errno};

/// Names that other programs serve: lines of `NAME PROGRAM`.
const APPLETS: &str = "/bin/.applets";
/// Bytes that a tool uses for a program's arguments and environment: the limit of 128 KiB, less
/// some space for what a manifest or a script adds.
pub const ROOM: usize = 120 << 10;

/// The result of running a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It ended.
    Ended(End),
    /// It did not start.
    Not(Errno),
}

impl Ran {
    /// Returns the exit code as a shell reports it. Prints an error if the program did not start.
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

/// Returns the bytes that strings take in the start data.
pub fn bytes<'a>(words: impl IntoIterator<Item = &'a String>) -> usize {
    words.into_iter().map(|word| word.len() + 1).sum()
}

/// Returns the program that serves a name.
fn served(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(APPLETS).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(served, _)| *served == name).map(|(_, program)| format!("/bin/{program}"))
}

/// Runs a program and returns its exit code.
pub fn run(
    program: &str,
    arguments: &[String],
    variables: Vec<(String, String)>,
    change: impl Fn(Command) -> Command,
) -> Answer {
    Ok(begin(program, arguments, &variables, change)?.code(program))
}

/// Runs a program and returns how it ended. It inherits standard input, output and error, unless
/// `change` replaces them.
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

//! The shell's state, and running a text.

use crate::ast::Redirected;
use crate::error::ParseError;
use crate::history::History;
use crate::jobs::Jobs;
use crate::lex::Aliases;
use crate::parse::Parser;
use crate::system::System;
use crate::vars::Variables;
use penumbra::Errno;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Why execution does not continue with the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Leave so many loops.
    Break(u32),
    /// Continue the loop that is so many levels further out.
    Continue(u32),
    /// Leave a function or a sourced file.
    Return(u32),
    /// Leave the shell.
    Exit(u32),
    /// An error: leave the shell or, at a terminal, this line.
    Abort(u32),
}

/// An exit status, or the reason why there is none.
pub(crate) type Run = Result<u32, Stop>;

/// Collected output.
pub(crate) type Sink = Rc<RefCell<Vec<u8>>>;

/// What a descriptor of the shell refers to.
pub(crate) enum Slot<F> {
    File(Rc<F>),
    Sink(Sink),
}

impl<F> Clone for Slot<F> {
    fn clone(&self) -> Self {
        match self {
            Slot::File(file) => Slot::File(file.clone()),
            Slot::Sink(sink) => Slot::Sink(sink.clone()),
        }
    }
}

/// The shell's descriptors.
pub(crate) type Slots<F> = BTreeMap<u32, Slot<F>>;

/// The options of `set`, by letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options(u32);

/// Letters and long names of options.
pub(crate) const OPTIONS: &[(char, &str)] = &[
    ('a', "allexport"),
    ('C', "noclobber"),
    ('e', "errexit"),
    ('f', "noglob"),
    ('i', "interactive"),
    ('m', "monitor"),
    ('n', "noexec"),
    ('o', "pipefail"),
    ('u', "nounset"),
    ('v', "verbose"),
    ('x', "xtrace"),
];

impl Options {
    fn bit(letter: char) -> u32 {
        OPTIONS.iter().position(|(l, _)| *l == letter).map_or(0, |at| 1 << at)
    }

    pub fn has(self, letter: char) -> bool {
        self.0 & Options::bit(letter) != 0
    }

    /// Sets an option. Returns false if it does not exist.
    pub fn set(&mut self, letter: char, on: bool) -> bool {
        let bit = Options::bit(letter);
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
        bit != 0
    }

    /// Returns the letters of the options that are on (`$-`).
    pub fn letters(self) -> String {
        let on = OPTIONS.iter().filter(|(l, _)| self.has(*l) && *l != 'o');
        on.map(|(letter, _)| *letter).collect()
    }
}

/// State that a subshell copies.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub variables: Variables,
    pub functions: BTreeMap<String, Rc<Redirected>>,
    pub aliases: Aliases,
    pub options: Options,
    /// `$0`
    pub name: String,
    /// `$1` and so on.
    pub arguments: Vec<String>,
    /// The working directory.
    pub folder: String,
    /// `$?`
    pub status: u32,
    /// `$$`
    pub pid: u32,
    /// `$!`
    pub background: Option<u32>,
    pub traps: BTreeMap<String, String>,
    pub umask: u32,
    /// Number of loops, functions and files being executed.
    pub loops: u32,
    pub functions_deep: u32,
    pub files_deep: u32,
    /// Above 0: failures are part of a condition and do not end the shell (`set -e`).
    pub tested: u32,
    /// It runs in a subshell.
    pub subshell: bool,
    pub line: u32,
    /// Status of the last command substitution.
    pub substituted: Option<u32>,
    /// Position of `getopts` within an argument.
    pub option_at: usize,
}

/// A shell.
pub struct Shell<S: System> {
    pub(crate) system: S,
    pub(crate) state: State,
    pub(crate) slots: Slots<S::File>,
    pub(crate) jobs: Jobs,
    pub(crate) history: History,
    /// Output of background commands of a command substitution, collected at its end.
    pub(crate) undrained: Vec<(S::File, Sink)>,
    /// Nesting depth of commands.
    pub(crate) depth: u32,
    /// Numbers the names of temporary files.
    pub(crate) counter: u32,
    /// Names that other programs serve, once they were read.
    pub(crate) applets: Option<BTreeMap<String, String>>,
}

impl<S: System> Shell<S> {
    /// Creates a shell called `name` with these arguments, files and variables.
    pub fn new(
        system: S,
        name: &str,
        arguments: Vec<String>,
        files: Vec<(u32, S::File)>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Shell<S> {
        let (pid, parent) = system.identity();
        let mut state = State { name: name.to_string(), arguments, pid, ..State::default() };
        state.umask = 0o022;
        for (name, value) in environment.into_iter().filter(|(n, _)| crate::ast::is_name(n)) {
            // Cannot fail: no variable is read-only yet.
            let _ = state.variables.set(&name, &value);
            state.variables.export(&name);
        }
        let folder = state.variables.get("PWD").filter(|p| p.starts_with('/')).unwrap_or("/");
        state.folder = crate::path::normal(folder);
        let slots = files.into_iter().map(|(n, file)| (n, Slot::File(Rc::new(file)))).collect();
        let mut shell = Shell {
            system,
            state,
            slots,
            jobs: Jobs::default(),
            history: History::default(),
            undrained: Vec::new(),
            depth: 0,
            counter: 0,
            applets: None,
        };
        shell.defaults(parent);
        shell
    }

    fn defaults(&mut self, parent: u32) {
        let folder = self.state.folder.clone();
        let parent = parent.to_string();
        let wanted = [
            ("PATH", "/bin"),
            ("IFS", " \t\n"),
            ("PS1", "$PWD $ "),
            ("PS2", "> "),
            ("PS4", "+ "),
            ("OPTIND", "1"),
        ];
        let variables = &mut self.state.variables;
        for (name, value) in wanted {
            if name == "IFS" || name == "OPTIND" || variables.get(name).is_none() {
                let _ = variables.set(name, value);
            }
        }
        let _ = variables.set("PPID", &parent);
        let _ = variables.set("PWD", &folder);
        variables.export("PWD");
    }

    /// Runs a whole text. Returns the exit code.
    pub fn run(&mut self, text: &str) -> u32 {
        let result = self.text(text);
        let code = self.ended(result);
        self.leave(code)
    }

    /// Runs a line typed at a terminal. Returns an exit code if it ended the shell.
    pub fn typed(&mut self, text: &str) -> Option<u32> {
        match self.text(text) {
            Err(Stop::Exit(code)) => Some(self.leave(code)),
            result => {
                self.state.status = self.ended(result);
                // Reset what an aborted command may have left.
                (self.depth, self.state.loops, self.state.tested) = (0, 0, 0);
                None
            }
        }
    }

    /// Returns the status of the last command.
    pub fn last_status(&self) -> u32 {
        self.state.status
    }

    /// Runs the trap for `EXIT`. Returns the exit code.
    pub fn leave(&mut self, code: u32) -> u32 {
        let Some(action) = self.state.traps.remove("EXIT") else { return code & 0xff };
        self.state.status = code;
        match self.text(&action) {
            Err(Stop::Exit(code) | Stop::Abort(code)) => code & 0xff,
            _ => code & 0xff,
        }
    }

    /// Converts the result of a text to a status.
    pub(crate) fn ended(&mut self, result: Run) -> u32 {
        match result {
            Ok(status) => status,
            Err(Stop::Break(_) | Stop::Continue(_)) => self.state.status,
            Err(Stop::Return(status) | Stop::Exit(status) | Stop::Abort(status)) => status,
        }
    }

    /// Runs a text, one line of commands after another.
    pub(crate) fn text(&mut self, text: &str) -> Run {
        let mut parser = Parser::new(text, self.state.aliases.clone());
        let mut status = None;
        loop {
            parser.set_aliases(self.state.aliases.clone());
            match parser.command_line() {
                Ok(Some(_)) if self.state.options.has('n') && !self.state.options.has('i') => {}
                Ok(Some(list)) => status = Some(self.list(&list)?),
                Ok(None) => return Ok(status.unwrap_or(0)),
                Err(error) => {
                    self.say(&format!("line {}: {}", error.line, error.what));
                    self.state.status = 2;
                    return Err(Stop::Abort(2));
                }
            }
        }
    }

    /// Returns whether `text` needs more lines before it can run.
    pub fn is_incomplete(&self, text: &str) -> bool {
        let mut parser = Parser::new(text, self.state.aliases.clone());
        loop {
            match parser.command_line() {
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(ParseError { incomplete, .. }) => return incomplete,
            }
        }
    }

    /// Handles the end of input. Returns the exit code.
    pub fn finish(&mut self) -> u32 {
        self.leave(self.state.status)
    }

    /// Sets the history.
    pub fn set_history(&mut self, history: History) {
        self.history = history;
    }

    /// Returns the history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Adds a typed line to the history. Returns false if it was not added.
    pub fn remember(&mut self, line: &str) -> bool {
        self.history.add(line)
    }

    /// Sets an option by its letter, as `set -LETTER` would.
    pub fn set_option(&mut self, letter: char) -> bool {
        self.state.options.set(letter, true)
    }

    /// Returns `$PS1` or `$PS2`, expanded.
    pub fn prompt(&mut self, name: &str) -> String {
        let text = self.state.variables.get(name).unwrap_or_default().to_string();
        let status = self.state.status;
        let shown = self.expand_text(&text).unwrap_or(text);
        self.state.status = status;
        shown
    }

    /// Prints an error message.
    pub(crate) fn say(&mut self, text: &str) {
        let line = format!("{}: {text}\n", crate::path::last(&self.state.name));
        // An error is ignored: it could only be reported to the same descriptor.
        let _ = self.put(2, line.as_bytes());
    }

    /// Writes all of `data` to a descriptor.
    pub(crate) fn put(&mut self, number: u32, data: &[u8]) -> Result<(), Errno> {
        match self.slots.get(&number).cloned() {
            None => Err(Errno::BADF),
            Some(Slot::Sink(sink)) => {
                sink.borrow_mut().extend_from_slice(data);
                Ok(())
            }
            Some(Slot::File(file)) => self.write_all(&file, data),
        }
    }

    pub(crate) fn write_all(&mut self, file: &S::File, mut data: &[u8]) -> Result<(), Errno> {
        while !data.is_empty() {
            match self.system.write(file, data)? {
                0 => return Err(Errno::IO),
                written => data = data.get(written..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    /// Writes the output of a builtin. Returns status 0, or 1 if it could not be written. Without a
    /// reader the shell ends, as a program would with SIGPIPE.
    pub(crate) fn out(&mut self, data: &[u8]) -> Run {
        match self.put(1, data) {
            Ok(()) => Ok(0),
            Err(Errno::PIPE) => Err(Stop::Exit(128 + penumbra::process::signal::PIPE)),
            Err(error) => {
                self.say(&format!("cannot write: {error}"));
                Ok(1)
            }
        }
    }
}

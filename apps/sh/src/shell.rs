//! The shell's state, and how a text is carried out.

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

/// Why commands do not simply go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Out of so many loops.
    Break(u32),
    /// To the next round of the loop that is so many further out.
    Continue(u32),
    /// Out of a function or a file.
    Return(u32),
    /// Out of the shell.
    Exit(u32),
    /// Out of the shell, or (at a terminal) out of this line, for something is wrong in it.
    Abort(u32),
}

/// A status, or why there is none.
pub(crate) type Run = Result<u32, Stop>;

/// Output that is collected.
pub(crate) type Sink = Rc<RefCell<Vec<u8>>>;

/// What a descriptor of the shell is.
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

/// `set -...`, each by its letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options(u32);

/// Letters of options and their long names.
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

    /// False when there is no such option.
    pub fn set(&mut self, letter: char, on: bool) -> bool {
        let bit = Options::bit(letter);
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
        bit != 0
    }

    /// Letters of those that are on (`$-`).
    pub fn letters(self) -> String {
        let on = OPTIONS.iter().filter(|(l, _)| self.has(*l) && *l != 'o');
        on.map(|(letter, _)| *letter).collect()
    }
}

/// All that a subshell has a copy of.
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
    /// Where it is.
    pub folder: String,
    /// `$?`
    pub status: u32,
    /// `$$`
    pub pid: u32,
    /// `$!`
    pub background: Option<u32>,
    pub traps: BTreeMap<String, String>,
    pub umask: u32,
    /// How many loops, functions and files are under way.
    pub loops: u32,
    pub functions_deep: u32,
    pub files_deep: u32,
    /// Not 0: a failure is no reason to end (`set -e`).
    pub tested: u32,
    /// It is within `( )` or the like.
    pub subshell: bool,
    pub line: u32,
    /// Status of the last `$( )`.
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
    /// Output of background commands of a `$( )`, to be collected at its end.
    pub(crate) undrained: Vec<(S::File, Sink)>,
    /// How many commands are within each other.
    pub(crate) depth: u32,
    /// Counts names of files in between.
    pub(crate) counter: u32,
    /// Names that one program serves, once they were looked up.
    pub(crate) applets: Option<BTreeMap<String, String>>,
}

impl<S: System> Shell<S> {
    /// A shell called `name` with these arguments, files and variables.
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
            // Nothing is read only yet.
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

    /// Carries out a whole text and ends: the exit code.
    pub fn run(&mut self, text: &str) -> u32 {
        let result = self.text(text);
        let code = self.ended(result);
        self.leave(code)
    }

    /// Carries out what was typed at a terminal; an exit code when that was the end.
    pub fn typed(&mut self, text: &str) -> Option<u32> {
        match self.text(text) {
            Err(Stop::Exit(code)) => Some(self.leave(code)),
            result => {
                self.state.status = self.ended(result);
                // Whatever was under way is over.
                (self.depth, self.state.loops, self.state.tested) = (0, 0, 0);
                None
            }
        }
    }

    /// The status of the last command.
    pub fn last_status(&self) -> u32 {
        self.state.status
    }

    /// What the shell does last: `trap ... EXIT`.
    pub fn leave(&mut self, code: u32) -> u32 {
        let Some(action) = self.state.traps.remove("EXIT") else { return code & 0xff };
        self.state.status = code;
        match self.text(&action) {
            Err(Stop::Exit(code) | Stop::Abort(code)) => code & 0xff,
            _ => code & 0xff,
        }
    }

    /// The status that a text ended with.
    pub(crate) fn ended(&mut self, result: Run) -> u32 {
        match result {
            Ok(status) => status,
            Err(Stop::Break(_) | Stop::Continue(_)) => self.state.status,
            Err(Stop::Return(status) | Stop::Exit(status) | Stop::Abort(status)) => status,
        }
    }

    /// Carries out a text, a line of commands after the other.
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

    /// Is more needed until `text` can be carried out?
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

    /// The end of input: the exit code.
    pub fn finish(&mut self) -> u32 {
        self.leave(self.state.status)
    }

    /// Lines that were typed earlier.
    pub fn set_history(&mut self, history: History) {
        self.history = history;
    }

    /// Lines that were typed so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Adds a line that was typed to the history; false when it is left out.
    pub fn remember(&mut self, line: &str) -> bool {
        self.history.add(line)
    }

    /// Sets an option by its letter, as `set -LETTER` would.
    pub fn set_option(&mut self, letter: char) -> bool {
        self.state.options.set(letter, true)
    }

    /// `$PS1` or `$PS2`, with what is expanded in it.
    pub fn prompt(&mut self, name: &str) -> String {
        let text = self.state.variables.get(name).unwrap_or_default().to_string();
        let status = self.state.status;
        let shown = self.expand_text(&text).unwrap_or(text);
        self.state.status = status;
        shown
    }

    /// A message for people.
    pub(crate) fn say(&mut self, text: &str) {
        let line = format!("{}: {text}\n", crate::path::last(&self.state.name));
        // There is nobody else to tell.
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

    /// Output of a builtin: status 0, or 1 when it could not be written. Nobody reads: the shell
    /// ends, as a program would by a signal.
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

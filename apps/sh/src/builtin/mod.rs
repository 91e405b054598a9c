//! Builtin commands.

mod control;
mod echo;
mod folder;
mod format;
mod jobs;
mod names;
mod read;
mod set;
mod test;
mod variables;

use crate::exec::RESUMED;
use crate::shell::{Run, Shell};
use crate::system::System;

/// Special builtins: functions cannot replace them, and their assignments persist.
const SPECIAL: &[&str] = &[
    ":", ".", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return", "set",
    "shift", "source", "times", "trap", "unset", RESUMED,
];

/// Regular builtins.
const OTHERS: &[&str] = &[
    "[", "alias", "bg", "cd", "command", "echo", "false", "fg", "getopts", "hash", "help",
    "history", "jobs", "kill", "let", "local", "printf", "pwd", "read", "test", "true", "type",
    "ulimit", "umask", "unalias", "wait", "which",
];

/// Builtins that run other commands, so their output is unbounded.
const UNBOUNDED: &[&str] = &[".", "command", "eval", "exec", "fg", "source", "wait"];

/// Returns whether `name` is a special builtin, which is found before functions.
pub(crate) fn is_special(name: &str) -> bool {
    SPECIAL.contains(&name)
}

/// Returns whether there is a builtin of this name.
pub(crate) fn exists(name: &str) -> bool {
    is_special(name) || OTHERS.contains(&name)
}

/// Returns whether it can run inside a pipeline with its output collected in memory.
pub(crate) fn is_bounded(name: &str) -> bool {
    exists(name) && !UNBOUNDED.contains(&name)
}

/// Returns all names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SPECIAL.iter().chain(OTHERS).copied().filter(|name| *name != RESUMED)
}

impl<S: System> Shell<S> {
    /// Runs the builtin `name`; `words` includes the name.
    pub(crate) fn builtin(&mut self, name: &str, words: &[String]) -> Run {
        let arguments = words.get(1..).unwrap_or_default();
        match name {
            ":" | "true" => Ok(0),
            "false" => Ok(1),
            "[" | "test" => self.test(name, arguments),
            "." | "source" => self.source(arguments),
            "alias" => self.alias(arguments),
            "unalias" => self.unalias(arguments),
            "break" | "continue" => self.out_of_loops(name, arguments),
            "cd" => self.cd(arguments),
            "command" => self.command_builtin(arguments),
            "echo" => self.echo(arguments),
            "eval" => self.eval(arguments),
            "exec" => self.exec(arguments),
            "exit" => self.exit(arguments),
            "export" | "readonly" => self.declare(name, arguments),
            "local" => self.local(arguments),
            "fg" | "bg" => self.foreground(name, arguments),
            "getopts" => self.getopts(arguments),
            "hash" => Ok(0),
            "help" => self.help(),
            "history" => self.show_history(arguments),
            "jobs" => self.show_jobs(arguments),
            "kill" => self.kill(arguments),
            "let" => self.let_(arguments),
            "printf" => self.printf(arguments),
            "pwd" => self.pwd(),
            "read" => self.read(arguments),
            "return" => self.return_(arguments),
            "set" => self.set(arguments),
            "shift" => self.shift(arguments),
            "times" => self.times(),
            "trap" => self.trap(arguments),
            "type" | "which" => self.type_(name, arguments),
            "ulimit" => self.out(b"unlimited\n"),
            "umask" => self.umask(arguments),
            "unset" => self.unset(arguments),
            "wait" => self.wait(arguments),
            RESUMED => self.resumed(arguments),
            _ => Ok(127),
        }
    }

    /// Reports wrong usage of a builtin.
    pub(crate) fn misused(&mut self, name: &str, why: &str) -> Run {
        self.say(&format!("{name}: {why}"));
        Ok(2)
    }

    fn help(&mut self) -> Run {
        let mut all: Vec<&str> = names().collect();
        all.sort_unstable();
        let text = format!("builtins: {}\n", all.join(" "));
        let programs = self.programs();
        self.out(text.as_bytes())?;
        self.out(format!("programs: {}\n", programs.join(" ")).as_bytes())
    }
}

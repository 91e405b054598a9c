//! The meaning of names: `type`, `which`, `command -v`; `alias` and `history`.

use crate::shell::{Run, Shell};
use crate::system::System;
use std::rc::Rc;

/// Reserved words.
const KEYWORDS: &[&str] = &[
    "!", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then",
    "time", "until", "while",
];

impl<S: System> Shell<S> {
    /// `type NAME...`, `which NAME...`, `command -v NAME` (called `command`).
    pub(super) fn type_(&mut self, how: &str, names: &[String]) -> Run {
        let mut status = 0;
        for name in names {
            let (short, long) = match self.described(name) {
                Some(found) => found,
                None => {
                    status = if how == "command" { 127 } else { 1 };
                    if how != "command" {
                        self.say(&format!("{name}: not found"));
                    }
                    continue;
                }
            };
            let line = if how == "type" { format!("{name} is {long}\n") } else { short + "\n" };
            self.out(line.as_bytes())?;
        }
        Ok(status)
    }

    /// Returns the description of a name: for programs, and for people.
    fn described(&mut self, name: &str) -> Option<(String, String)> {
        if let Some(text) = self.state.aliases.get(name) {
            let short = format!("alias {name}={}", crate::print::quote(text));
            return Some((short, format!("an alias for {text}")));
        }
        let itself = |what: &str| Some((name.to_string(), what.to_string()));
        if KEYWORDS.contains(&name) {
            return itself("a word of the shell");
        }
        if super::is_special(name) {
            return itself("a special builtin");
        }
        if self.state.functions.contains_key(name) {
            return itself("a function");
        }
        if super::exists(name) {
            return itself("a builtin");
        }
        for path in self.places(name, None) {
            if self.system.has_program(&path) {
                return Some((path.clone(), path));
            }
        }
        let program = self.serves(name)?;
        Some((name.to_string(), format!("a part of {program}")))
    }

    /// Returns the names of programs in the directories of `PATH`, sorted.
    pub(crate) fn programs(&mut self) -> Vec<String> {
        let mut found = self.served();
        let folders = self.places("x", None);
        for folder in folders.iter().filter_map(|place| place.strip_suffix("/x")) {
            let folder = if folder.is_empty() { "/" } else { folder };
            let names = self.system.folder(folder).unwrap_or_default();
            found.extend(names.iter().map(|name| self.system.command_name(name).to_string()));
        }
        found.retain(|name| !name.starts_with('.'));
        found.sort();
        found.dedup();
        found
    }

    /// Returns every possible first word of a command.
    pub fn command_names(&mut self) -> Vec<String> {
        let mut found = self.programs();
        found.extend(super::names().map(str::to_string));
        found.extend(self.state.functions.keys().cloned());
        found.extend(self.state.aliases.keys().cloned());
        found.sort();
        found.dedup();
        found
    }

    pub(super) fn alias(&mut self, arguments: &[String]) -> Run {
        let shown =
            |name: &str, text: &str| format!("alias {name}={}\n", crate::print::quote(text));
        if arguments.is_empty() {
            let all: String = self.state.aliases.iter().map(|(n, t)| shown(n, t)).collect();
            return self.out(all.as_bytes());
        }
        let mut status = 0;
        for argument in arguments {
            if let Some((name, text)) = argument.split_once('=') {
                let name = name.to_string();
                Rc::make_mut(&mut self.state.aliases).insert(name, text.to_string());
            } else if let Some(text) = self.state.aliases.get(argument) {
                let line = shown(argument, text);
                self.out(line.as_bytes())?;
            } else {
                self.say(&format!("alias: {argument}: not found"));
                status = 1;
            }
        }
        Ok(status)
    }

    pub(super) fn unalias(&mut self, arguments: &[String]) -> Run {
        let mut status = 0;
        for argument in arguments {
            if argument == "-a" {
                self.state.aliases = Rc::default();
            } else if Rc::make_mut(&mut self.state.aliases).remove(argument).is_none() {
                self.say(&format!("unalias: {argument}: not found"));
                status = 1;
            }
        }
        Ok(status)
    }

    pub(super) fn show_history(&mut self, arguments: &[String]) -> Run {
        if arguments.first().is_some_and(|a| a == "-c") {
            self.history.clear();
            return Ok(0);
        }
        let most = arguments.first().and_then(|a| a.parse::<usize>().ok()).unwrap_or(usize::MAX);
        let lines = self.history.lines();
        let skipped = lines.len().saturating_sub(most);
        let numbered = lines.iter().enumerate().skip(skipped);
        let text: String = numbered.map(|(i, line)| format!("{:5}  {line}\n", i + 1)).collect();
        self.out(text.as_bytes())
    }
}

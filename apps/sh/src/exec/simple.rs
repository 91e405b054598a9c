//! Simple commands: assignments, redirections, then a builtin, a function or a program.

use crate::ast::{Redirect, Simple, Word, literal};
use crate::builtin;
use crate::shell::{Run, Shell, Slots, Stop};
use crate::system::System;
use crate::vars::Variable;

/// Commands whose arguments of the form `NAME=VALUE` are assignments.
const DECLARING: &[&str] = &["export", "readonly", "local", "alias"];

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Special,
    Function,
    Builtin,
    Program,
}

impl<S: System> Shell<S> {
    pub(crate) fn meaning(&self, name: &str) -> Meaning {
        if builtin::is_special(name) {
            Meaning::Special
        } else if self.state.functions.contains_key(name) {
            Meaning::Function
        } else if builtin::exists(name) {
            Meaning::Builtin
        } else {
            Meaning::Program
        }
    }

    pub(crate) fn simple(&mut self, simple: &Simple, redirects: &[Redirect]) -> Run {
        self.state.substituted = None;
        let words = self.command_words(&simple.words)?;
        let before = (!redirects.is_empty()).then(|| self.slots.clone());
        let Some(name) = words.first().cloned() else {
            let good = self.redirect(redirects);
            self.slots = before.unwrap_or_else(|| self.slots.clone());
            if !good? {
                return Ok(1);
            }
            return self.assign_all(&simple.assigns);
        };
        let meaning = self.meaning(&name);
        let assigns = self.assigned(&simple.assigns)?;
        self.trace(&assigns, &words);
        match self.redirect(redirects) {
            Ok(true) => {}
            failed => {
                self.slots = before.unwrap_or_else(|| self.slots.clone());
                failed?;
                return if meaning == Meaning::Special { Err(Stop::Abort(2)) } else { Ok(1) };
            }
        }
        let result = self.invoke(meaning, &assigns, &words);
        // `exec` without a command keeps its redirections.
        let keeps = name == "exec" && words.len() == 1;
        self.put_back(if keeps { None } else { before });
        result
    }

    fn put_back(&mut self, slots: Option<Slots<S::File>>) {
        if let Some(slots) = slots {
            self.slots = slots;
        }
    }

    fn invoke(&mut self, meaning: Meaning, assigns: &[(String, String)], words: &[String]) -> Run {
        if meaning == Meaning::Program {
            return self.program(words, assigns);
        }
        let special = meaning == Meaning::Special;
        let mut kept: Vec<(String, Option<Variable>)> = Vec::new();
        for (name, value) in assigns {
            if !special {
                kept.push((name.clone(), self.state.variables.copy(name)));
            }
            self.assign(name, value)?;
            if !special {
                self.state.variables.export(name);
            }
        }
        let name = words.first().map_or("", String::as_str);
        let result = match self.state.functions.get(name).cloned() {
            Some(body) if meaning == Meaning::Function => self.call(&body, words),
            _ => self.builtin(name, words),
        };
        for (name, before) in kept.into_iter().rev() {
            self.state.variables.put_back(&name, before);
        }
        result
    }

    /// Expands the words of a command; arguments of declaring builtins are not split into fields.
    pub(crate) fn command_words(&mut self, words: &[Word]) -> Result<Vec<String>, Stop> {
        let declares = words
            .first()
            .and_then(|word| literal(word))
            .is_some_and(|name| DECLARING.contains(&name));
        if !declares {
            return self.expand(words);
        }
        let mut found = Vec::new();
        for word in words {
            match crate::parse::assignment(word) {
                Some((name, value)) => {
                    let value = self.expand_value(&value)?;
                    found.push(format!("{name}={value}"));
                }
                None => found.extend(self.expand(std::slice::from_ref(word))?),
            }
        }
        Ok(found)
    }

    pub(crate) fn assigned(
        &mut self,
        assigns: &[(String, Word)],
    ) -> Result<Vec<(String, String)>, Stop> {
        assigns.iter().map(|(name, word)| Ok((name.clone(), self.expand_value(word)?))).collect()
    }

    /// Assignments without a command: each one sees those before it. The status is that of the last
    /// command substitution.
    fn assign_all(&mut self, assigns: &[(String, Word)]) -> Run {
        for (name, word) in assigns {
            let value = self.expand_value(word)?;
            self.trace(&[(name.clone(), value.clone())], &[]);
            self.assign(name, &value)?;
        }
        Ok(self.state.substituted.unwrap_or(0))
    }

    /// Prints a command for `set -x`.
    pub(crate) fn trace(&mut self, assigns: &[(String, String)], words: &[String]) {
        if !self.state.options.has('x') {
            return;
        }
        let mut line = self.prompt("PS4");
        let assigns = assigns.iter().map(|(name, value)| format!("{name}={}", shown(value)));
        let all: Vec<String> = assigns.chain(words.iter().map(|word| shown(word))).collect();
        line.push_str(&all.join(" "));
        line.push('\n');
        // An error is ignored: it could only be reported to the same descriptor.
        let _ = self.put(2, line.as_bytes());
    }
}

/// Returns the text, quoted if necessary.
pub(crate) fn shown(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,^".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_string()
    } else {
        crate::print::quote(text)
    }
}

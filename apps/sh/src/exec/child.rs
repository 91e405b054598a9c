//! A second shell that goes on with a piece of this one: what `fork` would be for elsewhere.
//!
//! It is `/bin/sh --resume N`. Descriptor N is a pipe with all of this shell's state as text of the
//! shell's own language (variables, functions, arguments, options), and behind it what it is to
//! carry out.

use super::program::{NotStarted, Plumbing, SHELL};
use crate::print;
use crate::shell::{Shell, State};
use crate::system::{Program, System};
use penumbra::Errno;
use std::fmt::Write;
use std::rc::Rc;

/// The builtin that sets what no variable holds. Only such a text calls it.
pub(crate) const RESUMED: &str = "__resumed";
/// Where the text comes from.
const TEXT: u32 = 10;
/// Descriptors of a script that programs do not get come so much higher.
const RAISED: u32 = 20;

impl<S: System> Shell<S> {
    /// Begins a shell that carries out `text` with this one's state and descriptors.
    pub(crate) fn second_shell(
        &mut self,
        text: &str,
        plumbing: &mut Plumbing<S::File>,
    ) -> Result<u32, NotStarted> {
        self.try_second_shell(text, plumbing).map_err(|error| {
            self.say(&format!("{SHELL}: {error}"));
            NotStarted(126)
        })
    }

    fn try_second_shell(
        &mut self,
        text: &str,
        plumbing: &mut Plumbing<S::File>,
    ) -> Result<u32, Errno> {
        let high: Vec<u32> = self.slots.keys().copied().filter(|n| *n > 2).collect();
        let raised = high.iter().filter_map(|n| Some((n + RAISED, self.slots.get(n)?.clone())));
        let raised: Vec<_> = raised.collect();
        self.slots.extend(raised);
        let files = self.files(plumbing);
        high.iter().for_each(|n| {
            self.slots.remove(&(n + RAISED));
        });
        let mut files = files?;
        files.retain(|(n, _)| *n <= 2 || *n > RAISED);
        let (read, write) = self.system.pipe()?;
        files.push((TEXT, Rc::new(read)));
        let state = written(&self.state, &high) + text;
        let arguments = ["sh".to_string(), "--resume".to_string(), TEXT.to_string()];
        let folder = self.state.folder.clone();
        let program = Program {
            path: SHELL,
            arguments: &arguments,
            environment: &[],
            files: &files,
            folder: &folder,
            group: plumbing.group,
        };
        let pid = self.system.spawn(&program)?;
        self.lead(plumbing, pid);
        drop(files);
        // It reads all of it before it does anything, so this ends.
        let given = self.write_all(&write, state.as_bytes());
        match given {
            Ok(()) | Err(Errno::PIPE) => Ok(pid),
            Err(error) => Err(error),
        }
    }
}

/// A state as text that brings it about.
fn written(state: &State, descriptors: &[u32]) -> String {
    let mut text = String::new();
    for number in descriptors {
        let from = number + RAISED;
        let _ = writeln!(text, "exec {number}>&{from} {from}>&-");
    }
    for (name, variable) in state.variables.iter() {
        if let Some(value) = &variable.value {
            let _ = writeln!(text, "{name}={}", print::quote(value));
        }
        if variable.exported {
            let _ = writeln!(text, "export {name}");
        }
        if variable.readonly {
            let _ = writeln!(text, "readonly {name}");
        }
    }
    for (name, value) in state.aliases.iter() {
        let _ = writeln!(text, "alias {}", print::quote(&format!("{name}={value}")));
    }
    for (name, body) in &state.functions {
        let _ = write!(text, "{name}() {}", print::command(body));
    }
    let arguments: Vec<String> = state.arguments.iter().map(|a| print::quote(a)).collect();
    let _ = writeln!(text, "set -- {}", arguments.join(" "));
    let _ = writeln!(text, "umask {:03o}", state.umask);
    let background = state.background.map_or(String::new(), |pid| pid.to_string());
    let (name, status) = (print::quote(&state.name), state.status);
    let pipefail = if state.options.has('o') { "set -o pipefail;" } else { "" };
    let letters: String = state.options.letters().replace(['i', 'm', 'n', 'v'], "");
    let options = if letters.is_empty() { String::new() } else { format!("set -{letters};") };
    // All in one line, so that the options do not see it.
    let _ = writeln!(
        text,
        "{pipefail} {options} {RESUMED} {name} {} {status} '{background}'",
        state.pid
    );
    text
}

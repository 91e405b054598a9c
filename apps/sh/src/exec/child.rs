//! A second shell that runs a part of this one's script: the substitute for `fork`.
//!
//! It is `/bin/sh --resume N`. Descriptor N is a pipe that carries this shell's whole state as text
//! in the shell's own language (variables, functions, arguments, options), followed by the commands
//! to run.

use super::program::{NotStarted, Plumbing, SHELL};
use crate::print;
use crate::shell::{Shell, State};
use crate::system::{Program, System};
use penumbra::Errno;
use std::fmt::Write;
use std::rc::Rc;

/// The builtin that sets state which no variable holds. Only such a text calls it.
pub(crate) const RESUMED: &str = "__resumed";
/// Descriptor of the text.
const TEXT: u32 = 10;
/// Offset added to the script's descriptors that programs do not get.
const RAISED: u32 = 20;

impl<S: System> Shell<S> {
    /// Starts a shell that runs `text` with this one's state and descriptors.
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
        // The child reads the whole text before it runs anything, so this write finishes.
        let given = self.write_all(&write, state.as_bytes());
        match given {
            Ok(()) | Err(Errno::PIPE) => Ok(pid),
            Err(error) => Err(error),
        }
    }
}

/// Serializes the state as a script that restores it.
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
    // On one line, so that the restored options do not affect it.
    let _ = writeln!(
        text,
        "{pipefail} {options} {RESUMED} {name} {} {status} '{background}'",
        state.pid
    );
    text
}

//! The interactive shell: prompts, line editing, the history file.

use penumbra::{File, Keys};
use sh::edit::{Editor, Event};
use sh::wasi::Wasi;
use sh::{History, Shell};
use std::io::Write;

/// Width of a terminal whose width is unknown.
const WIDTH: usize = 80;
/// The list of file systems with their sizes and free space.
const MOUNTS: &str = "/proc/mounts";

/// Reads and runs lines until the end. Returns the exit code.
pub fn run(mut shell: Shell<Wasi>, input: &File) -> u32 {
    shell.set_option('i');
    shell.set_option('m');
    let path = history_path();
    let text = path.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
    shell.set_history(History::new(&text.unwrap_or_default()));
    let (mut editor, mut text) = (Editor::default(), String::new());
    let output = File::lent(1);
    loop {
        show(&output, shell.news().as_bytes());
        at_terminal(input, Keys::Raw);
        let prompt = shell.prompt(if text.is_empty() { "PS1" } else { "PS2" });
        let Some(event) = line(&mut shell, &mut editor, input, &output, &prompt) else {
            return shell.finish();
        };
        match event {
            Event::Line(line) => {
                if shell.remember(&line) {
                    keep(path.as_deref(), &line);
                }
                text.push_str(&(line + "\n"));
            }
            Event::End if text.is_empty() => return shell.finish(),
            _ => {
                text.clear();
                continue;
            }
        }
        if shell.is_incomplete(&text) {
            continue;
        }
        let typed = std::mem::take(&mut text);
        if let Some(code) = shell.typed(&typed) {
            return code;
        }
        if shell.last_status() != 0
            && let Ok(mounts) = std::fs::read_to_string(MOUNTS)
        {
            show(&File::lent(2), sh::full::remark(&mounts).as_bytes());
        }
    }
}

/// Makes the shell the only reader of the terminal and sets how it reads. Fails silently for other
/// files, which have no modes.
fn at_terminal(input: &File, keys: Keys) {
    let _ = input.set_foreground(0);
    let _ = input.set_keys(keys);
}

fn history_path() -> Option<String> {
    let named = std::env::var("HISTFILE").ok();
    named.or_else(|| std::env::var("HOME").ok().map(|home| format!("{home}/.sh_history")))
}

/// Appends a line to the history file, if there is one.
fn keep(path: Option<&str>, line: &str) {
    let Some(path) = path else { return };
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let _ = opened.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
}

fn show(output: &File, mut bytes: &[u8]) {
    while let Ok(written @ 1..) = output.write(bytes) {
        bytes = bytes.get(written..).unwrap_or_default();
        if bytes.is_empty() {
            return;
        }
    }
}

/// Reads one line; `None` if the terminal is gone.
fn line(
    shell: &mut Shell<Wasi>,
    editor: &mut Editor,
    input: &File,
    output: &File,
    prompt: &str,
) -> Option<Event> {
    let mut out = Vec::new();
    let lines = shell.history().lines().to_vec();
    let width = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).unwrap_or(WIDTH);
    editor.begin(prompt, &lines, width, &mut out);
    show(output, &out);
    // One byte at a time: what follows the line is input for the program that it starts.
    let mut byte = [0];
    let mut asked = false;
    loop {
        if input.read(&mut byte).ok()? == 0 {
            return None;
        }
        out.clear();
        let event = editor.byte(byte[0], &mut out);
        if matches!(event, Some(Event::Line(_))) {
            // Before the line's end is echoed: from then on, keys are for a program.
            at_terminal(input, Keys::Lines);
        }
        show(output, &out);
        out.clear();
        match event {
            Some(Event::Complete) => {
                complete(shell, editor, asked, &mut out);
                asked = true;
                show(output, &out);
            }
            Some(event) => return Some(event),
            None => asked = false,
        }
    }
}

/// Completes the word before the cursor; when repeated, shows the candidates.
fn complete(shell: &mut Shell<Wasi>, editor: &mut Editor, again: bool, out: &mut Vec<u8>) {
    let found = shell.complete(&editor.before());
    let before = editor.before();
    if !found.found.is_empty() {
        editor.insert(found.back, &found.text, out);
    }
    if found.found.len() > 1 && again && editor.before() == before {
        out.extend(format!("\r\n{}\r\n", found.found.join("  ")).into_bytes());
        editor.show(out);
    }
}

//! `pen exec FILE`: any name, many arguments, and nothing remains on the board.

use super::programs::{Running, wrong};
use super::{Failure, PATIENCE, Rig};
use deploy::exec::{Line, begun};
use std::time::Instant;
use tree::place::Place;

/// A program; its arguments are described at its top.
const TOOL: &str = "tests/programs/tool.wat";
/// A program that prints its arguments.
const ARGUMENTS: &str = "tests/programs/long.wat";
/// Longer than any process name shown, with characters that no name in `/bin` has.
const NAME: &str = "a name with blanks, dots.v1 and äöü, longer than thirty-two.wat";
/// Nearly the maximum of arguments and environment.
const LONG: usize = (128 << 10) - 1000;

/// A file runs on both kernels, ends normally or with its `pen`, and leaves nothing.
pub fn executed(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let file = rig.instance.path(NAME);
    std::fs::copy(Place::find()?.root.join(TOOL), &file)?;
    let file = file.display().to_string();
    let first = Line::anywhere(&file, &["args"]);
    Running::of(&rig.instance, first, b"").end()?;
    let before = listed(rig)?;
    for kernel in ["main", "shadow"] {
        long(rig, kernel)?;
        let line = Line::on(kernel, &file, &["exit", "7"]);
        let code = Running::of(&rig.instance, line, b"").end()?.code;
        if code != 7 {
            return Err(wrong("exit 7", (kernel, code)));
        }
        abandoned(rig, kernel, &file)?;
    }
    let after = listed(rig)?;
    if before == after { Ok(()) } else { Err(wrong("what stays", (before, after))) }
}

/// A program gets many arguments unchanged.
fn long(rig: &Rig, kernel: &str) -> Result<(), Failure> {
    let file = Place::find()?.root.join(ARGUMENTS).display().to_string();
    let long = "x".repeat(LONG);
    let found = Running::of(&rig.instance, Line::on(kernel, &file, &[&long, "last"]), b"").end()?;
    let wanted = format!("long\0{long}\0last\0").into_bytes();
    if (found.code, found.out) == (0, wanted) {
        return Ok(());
    }
    Err(wrong("a file with many arguments", (kernel, found.code, found.err)))
}

/// The `pen exec` of a program that waits for input is killed.
fn abandoned(rig: &mut Rig, kernel: &str, file: &str) -> Result<(), Failure> {
    let line = Line::on(kernel, file, &["cat"]);
    let running = begun(&rig.instance, &line).map_err(|why| wrong("exec", format!("{why:#}")))?;
    // `ps` truncates such a name at a character boundary.
    let name = "a name with blanks, dots.v1 and";
    await_processes(rig, "begins", |said| said.contains(name))?;
    drop(running);
    await_processes(rig, "ends", |said| !said.contains(name))
}

fn await_processes(rig: &mut Rig, what: &str, holds: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let said = rig.ask("main", "ps", PATIENCE)?;
        if holds(&said) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(wrong(what, said));
        }
    }
}

/// Returns the contents of folders that might have leftovers: programs, received images, partial
/// files.
fn listed(rig: &mut Rig) -> Result<[String; 3], Failure> {
    let mut said = [String::new(), String::new(), String::new()];
    for (said, path) in said.iter_mut().zip([".", "bin", "tmp"]) {
        *said = rig.ask("main", &format!("fs ls {path}"), PATIENCE)?;
        // Nothing was ever installed there.
        if path != "bin" && said.contains("! ") {
            return Err(wrong(path, said));
        }
    }
    Ok(said)
}

//! A call of cargo whose progress is a step's: cargo draws a line for terminals, which is read here
//! and not shown; what else it says is passed on.

use super::Step;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};

/// Words that begin lines about things going well.
const ROUTINE: &[&str] = &[
    "Compiling",
    "Building",
    "Finished",
    "Downloading",
    "Fetch",
    "Downloaded",
    "Updating",
    "Locking",
    "Blocking",
    "Installing",
    "Installed",
    "Replacing",
    "Replaced",
    "Adding",
    "Fresh",
    "Ignored",
];

/// What `cargo install` advises: the folder is not in PATH, and the published lock file names a
/// version that was withdrawn since. Neither is for the people at this terminal.
const ADVICE: &[&str] = &["warning: be sure to add", "in Cargo.lock is yanked"];

/// Runs `cargo` to its end as a part of `step`. Its arguments must not make it quiet.
pub fn run(mut cargo: Command, step: &Step) -> std::io::Result<ExitStatus> {
    cargo.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", "100");
    let mut child = cargo.stderr(Stdio::piped()).spawn()?;
    if let Some(said) = child.stderr.take() {
        follow(said, |done, of| step.set_done(done, of), |line| eprintln!("{line}"));
    }
    child.wait()
}

/// Reads lines, which end with a return or a line feed, until there are no more.
fn follow(said: impl Read, mut progress: impl FnMut(u32, u32), mut show: impl FnMut(&str)) {
    let mut said = BufReader::new(said);
    let mut line = vec![];
    while said.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        for part in line.split(|&byte| byte == b'\r' || byte == b'\n') {
            let text = plain(&String::from_utf8_lossy(part));
            if let Some((done, of)) = units(&text) {
                progress(done, of);
                continue;
            }
            let first = text.split_whitespace().next().unwrap_or_default();
            let routine = ROUTINE.contains(&first);
            let advice = ADVICE.iter().any(|advice| text.contains(advice));
            if !routine && !advice && !text.is_empty() {
                show(&text);
            }
        }
        line.clear();
    }
}

/// `Building [====>   ] 45/101: names`
fn units(line: &str) -> Option<(u32, u32)> {
    let counts = line.trim_start().strip_prefix("Building [")?.split_once(']')?.1;
    let (done, of) = counts.split(':').next()?.trim().split_once('/')?;
    Some((done.parse().ok()?, of.parse().ok()?))
}

/// Without the sequences that colour it or clear the line.
fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, sequence)) = rest.split_once("\u{1b}[") {
        text.push_str(before);
        let end = sequence.find(|c: char| c.is_ascii_alphabetic());
        rest = end.map_or("", |end| &sequence[end + 1..]);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_and_only_what_matters_is_shown() {
        let said = "   Compiling abi v0.1.0\n\r    Building [==>   ] 45/101: core, abi\r\u{1b}[K\
                    \u{1b}[1m\u{1b}[33mwarning\u{1b}[0m: unused\n --> a.rs:1:2\n\n\
                    \u{20}   Finished `x`\n   Fetch 2 complete; 1 pending\r\
                    warning: package `a v1.0.0` in Cargo.lock is yanked in registry `crates-io`\n";
        let (mut counts, mut shown) = (vec![], vec![]);
        follow(said.as_bytes(), |a, b| counts.push((a, b)), |line| shown.push(line.to_string()));
        assert_eq!(counts, [(45, 101)]);
        assert_eq!(shown, ["warning: unused", " --> a.rs:1:2"]);
    }
}

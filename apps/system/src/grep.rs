//! `grep`: prints the lines that match a pattern.
//!
//! POSIX's `grep`, with GNU's options `-r`, `-R`, `-o`, `-w`, `-h`, `-H`, `-L`, `-m` and `-G`.
//! Bytes that are not UTF-8 are printed unchanged, and matched as replacement characters. A file
//! with a NUL in a selected line is binary: only that it matches is reported.

use crate::options::{Options, number};
use crate::pattern::{self, Kind, Whole};
use crate::{Answer, NOBODY_READS};
use regex_lite::Regex;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

/// Maximum length of a line in bytes.
const LINE: u64 = 4 << 20;
/// Maximum depth of `-r`.
const DEPTH: u32 = 64;
/// Name of standard input.
const INPUT: &str = "(standard input)";

/// What is printed for a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Show {
    #[default]
    Lines,
    Matches,
    Count,
    /// The file's name if a line is selected.
    With,
    /// The file's name if no line is selected.
    Without,
    /// Nothing.
    Nothing,
}

/// The parsed command line.
#[derive(Clone, Debug, Default)]
struct Plan {
    kind: Kind,
    whole: Whole,
    any_case: bool,
    invert: bool,
    show: Show,
    numbers: bool,
    silent: bool,
    recurse: bool,
    /// Whether lines are prefixed with the file's name; `None`: if there are several files.
    names: Option<bool>,
    /// Maximum lines per file.
    most: Option<usize>,
    patterns: Vec<String>,
    files: Vec<String>,
}

impl Plan {
    fn of(arguments: &[String]) -> Result<Plan, String> {
        let options = Options::of(arguments, "efm", true)?;
        let mut plan = Plan { files: options.rest, ..Plan::default() };
        let mut has_patterns = false;
        for (letter, value) in options.all {
            match letter {
                'e' => plan.patterns.extend(value.split('\n').map(String::from)),
                'f' => plan.patterns.extend(lines(&value)?),
                'm' => plan.most = Some(number(letter, &value)?),
                letter => plan.switch(letter)?,
            }
            has_patterns |= "ef".contains(letter);
        }
        if !has_patterns {
            if plan.files.is_empty() {
                return Err("which pattern?".to_string());
            }
            plan.patterns.extend(plan.files.remove(0).split('\n').map(String::from));
        }
        if plan.files.is_empty() {
            plan.files.push(if plan.recurse { "." } else { "-" }.to_string());
        }
        Ok(plan)
    }

    fn switch(&mut self, letter: char) -> Result<(), String> {
        match letter {
            'E' => self.kind = Kind::Extended,
            'F' => self.kind = Kind::Fixed,
            'G' => self.kind = Kind::Basic,
            'i' | 'y' => self.any_case = true,
            'v' => self.invert = true,
            'w' if self.whole == Whole::No => self.whole = Whole::Word,
            'w' => {}
            'x' => self.whole = Whole::Line,
            'o' if self.show == Show::Lines => self.show = Show::Matches,
            'o' => {}
            'c' if matches!(self.show, Show::Lines | Show::Matches) => self.show = Show::Count,
            'c' => {}
            'l' if self.show != Show::Nothing => self.show = Show::With,
            'L' if self.show != Show::Nothing => self.show = Show::Without,
            'l' | 'L' => {}
            'q' => self.show = Show::Nothing,
            'n' => self.numbers = true,
            's' => self.silent = true,
            'r' | 'R' => self.recurse = true,
            'h' => self.names = Some(false),
            'H' => self.names = Some(true),
            _ => return Err(format!("-{letter}: no such option")),
        }
        Ok(())
    }
}

/// Reads patterns from a file.
fn lines(path: &str) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(text.lines().map(String::from).collect())
}

/// A search in progress.
struct Search<'a, W> {
    plan: &'a Plan,
    regex: Regex,
    names: bool,
    out: W,
    found: bool,
    failed: bool,
}

/// Why a file is not read any further.
enum Halt {
    /// Reading failed.
    Input(io::Error),
    /// Output failed.
    Output(io::Error),
}

impl<W: Write> Search<'_, W> {
    /// Searches a file, or the files in a directory.
    fn path(&mut self, path: &str, depth: u32) -> io::Result<()> {
        if path == "-" {
            return self.input(INPUT, io::stdin().lock());
        }
        let is_directory = Path::new(path).is_dir();
        if is_directory && self.plan.recurse {
            return self.directory(path, depth);
        }
        match std::fs::File::open(path) {
            _ if is_directory => self.complain(path, "a directory"),
            Ok(file) => return self.input(path, BufReader::with_capacity(1 << 16, file)),
            Err(error) => self.complain(path, error),
        }
        Ok(())
    }

    /// Searches a directory. Links in it are not followed.
    fn directory(&mut self, path: &str, depth: u32) -> io::Result<()> {
        if depth >= DEPTH {
            self.complain(path, "too deep");
            return Ok(());
        }
        let listed = std::fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = match listed {
            Ok(entries) => entries,
            Err(error) => {
                self.complain(path, error);
                return Ok(());
            }
        };
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type();
            if kind.is_ok_and(|kind| kind.is_file() || kind.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                let name = if path == "." { name } else { format!("{path}/{name}") };
                self.path(&name, depth + 1)?;
                if self.is_done() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.found && self.plan.show == Show::Nothing
    }

    fn complain(&mut self, name: &str, why: impl std::fmt::Display) {
        self.failed = true;
        if !self.plan.silent {
            eprintln!("grep: {name}: {why}");
        }
    }

    /// Searches a whole input.
    fn input(&mut self, name: &str, input: impl BufRead) -> io::Result<()> {
        let count = match self.count(name, input) {
            Ok(count) => count,
            Err(Halt::Output(error)) => return Err(error),
            Err(Halt::Input(error)) => {
                self.complain(name, error);
                return Ok(());
            }
        };
        let is_without = self.plan.show == Show::Without;
        self.found |= (count > 0) != is_without;
        match self.plan.show {
            Show::Count if self.names => writeln!(self.out, "{name}:{count}"),
            Show::Count => writeln!(self.out, "{count}"),
            Show::With if count > 0 => writeln!(self.out, "{name}"),
            Show::Without if count == 0 => writeln!(self.out, "{name}"),
            _ => Ok(()),
        }
    }

    /// Prints the selected lines and returns their number.
    fn count(&mut self, name: &str, mut input: impl BufRead) -> Result<usize, Halt> {
        let is_one_enough = matches!(self.plan.show, Show::With | Show::Without | Show::Nothing);
        let most = if is_one_enough { 1 } else { self.plan.most.unwrap_or(usize::MAX) };
        let (mut line, mut number, mut count) = (Vec::new(), 0u64, 0);
        while count < most {
            line.clear();
            let read = input.by_ref().take(LINE).read_until(b'\n', &mut line);
            let read = read.map_err(Halt::Input)?;
            if read == 0 {
                break;
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            } else if read as u64 == LINE {
                return Err(Halt::Input(io::Error::other("a line is too long")));
            }
            number += 1;
            let text = String::from_utf8_lossy(&line);
            if self.regex.is_match(&text) == self.plan.invert {
                continue;
            }
            count += 1;
            let is_text =
                !matches!(self.plan.show, Show::Lines | Show::Matches) || !line.contains(&0);
            if !is_text {
                writeln!(self.out, "{name}: a binary file matches").map_err(Halt::Output)?;
                break;
            }
            self.show(name, number, &line, &text).map_err(Halt::Output)?;
        }
        Ok(count)
    }

    fn show(&mut self, name: &str, number: u64, line: &[u8], text: &str) -> io::Result<()> {
        let mut head = if self.names { format!("{name}:") } else { String::new() };
        if self.plan.numbers {
            head.push_str(&format!("{number}:"));
        }
        match self.plan.show {
            Show::Lines => {
                self.out.write_all(head.as_bytes())?;
                self.out.write_all(line)?;
                self.out.write_all(b"\n")
            }
            Show::Matches if !self.plan.invert => {
                let found = self.regex.find_iter(text).filter(|found| !found.is_empty());
                for found in found {
                    writeln!(self.out, "{head}{}", found.as_str())?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Runs the search. Returns the exit code.
fn search(plan: &Plan, out: impl Write) -> Result<u32, String> {
    let regex = pattern::any(&plan.patterns, plan.kind, plan.whole, plan.any_case)?;
    let several = plan.recurse || plan.files.len() > 1;
    let names = plan.names.unwrap_or(several);
    let mut search = Search { plan, regex, names, out, found: false, failed: false };
    let mut written = Ok(());
    for file in &plan.files {
        written = written.and_then(|()| search.path(file, 0));
        if search.is_done() {
            break;
        }
    }
    match written.and_then(|()| search.out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(NOBODY_READS),
        Err(error) => Err(error.to_string()),
        Ok(()) if search.failed && !search.is_done() => Ok(2),
        Ok(()) => Ok(u32::from(!search.found)),
    }
}

/// `grep`
pub fn grep(arguments: &[String]) -> Answer {
    let found =
        Plan::of(arguments).and_then(|plan| search(&plan, BufWriter::new(io::stdout().lock())));
    Ok(found.unwrap_or_else(|why| {
        eprintln!("grep: {why}");
        2
    }))
}

#[cfg(test)]
mod tests;

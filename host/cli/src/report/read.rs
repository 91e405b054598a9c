//! Finds the files of records and reads their lines. What is no record is a [`Problem`] with its
//! place; the rest is still reported.

use super::record::{Line, parse};
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// No record is longer.
const LINE_LIMIT: u64 = 64 << 10;
/// How deep folders may lie in folders.
const DEPTH: usize = 8;

/// A line that is no record, or that does not fit the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which file, and which line of it.
    pub place: Origin,
    /// What is wrong.
    pub reason: String,
}

/// Where a record stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.place.file, self.place.line, self.reason)
    }
}

/// Everything that was read.
#[derive(Default)]
pub struct Input {
    /// The files.
    pub files: Vec<String>,
    /// Their records.
    pub lines: Vec<(Origin, Line)>,
    /// What is none.
    pub problems: Vec<Problem>,
}

/// A file or folder that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not there, or closed to us.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
}

impl ReadError {
    fn at(path: &Path) -> impl FnOnce(std::io::Error) -> ReadError {
        let path = path.to_path_buf();
        |why| ReadError::Unreadable { path, why }
    }
}

/// Reads files, and the `.jsonl` files below folders, in order of their names.
pub fn read(paths: &[PathBuf]) -> Result<Input, ReadError> {
    let mut input = Input::default();
    for path in paths {
        let mut files = Vec::new();
        collect(path, DEPTH, &mut files)?;
        for file in files {
            let open = std::fs::File::open(&file).map_err(ReadError::at(&file))?;
            let name = file.display().to_string();
            input.take(&name, BufReader::new(open)).map_err(ReadError::at(&file))?;
        }
    }
    Ok(input)
}

fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), ReadError> {
    let about = std::fs::metadata(path).map_err(ReadError::at(path))?;
    if !about.is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    let entries = std::fs::read_dir(path).map_err(ReadError::at(path))?;
    let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    inside.sort();
    for inner in inside {
        let records = inner.extension().is_some_and(|e| e == "jsonl");
        if inner.is_dir() && depth > 0 || inner.is_file() && records {
            collect(&inner, depth.saturating_sub(1), files)?;
        }
    }
    Ok(())
}

impl Input {
    /// Reads one file's text. Empty lines are passed over.
    pub fn take(&mut self, file: &str, mut text: impl BufRead) -> std::io::Result<()> {
        self.files.push(file.to_string());
        let mut bytes = Vec::new();
        for line in 1.. {
            bytes.clear();
            if text.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            let place = Origin { file: file.to_string(), line };
            if bytes.len() as u64 == LINE_LIMIT && bytes.last() != Some(&b'\n') {
                text.skip_until(b'\n')?;
                let reason = format!("longer than {LINE_LIMIT} bytes");
                self.problems.push(Problem { place, reason });
                continue;
            }
            self.line(place, &String::from_utf8_lossy(&bytes));
        }
        Ok(())
    }

    fn line(&mut self, place: Origin, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        match parse(text) {
            Ok(line) => self.lines.push((place, line)),
            Err(why) => self.problems.push(Problem { place, reason: why.to_string() }),
        }
    }
}

//! Finds the files of records and parses their lines. A line that is not a record becomes a
//! [`Problem`]; the others are still reported.

use records::record::{Line, parse};
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Maximum length of a record.
const LINE_LIMIT: u64 = 64 << 10;
/// Maximum depth of nested folders.
const DEPTH: usize = 8;

/// A line that is not a record, or that contradicts others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// File and line.
    pub place: Origin,
    /// Description.
    pub reason: String,
}

/// Location of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.place.file, self.place.line, self.reason)
    }
}

/// All input.
#[derive(Default)]
pub struct Input {
    /// The files.
    pub files: Vec<String>,
    /// Their records.
    pub lines: Vec<(Origin, Line)>,
    /// Lines that are not records.
    pub problems: Vec<Problem>,
}

/// A file or folder that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It does not exist, or access is denied.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The error.
        why: std::io::Error,
    },
}

impl ReadError {
    fn at(path: &Path) -> impl FnOnce(std::io::Error) -> ReadError {
        let path = path.to_path_buf();
        |why| ReadError::Unreadable { path, why }
    }
}

/// Reads files, and the `.jsonl` files below folders, ordered by name.
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
    /// Parses the text of a file. Empty lines are skipped.
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

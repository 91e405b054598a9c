//! An index of the words in the text files of a folder, made in memory.
//!
//! ```text
//!   FOLDER --walk, in the order of names--> texts --words--> word: (file, how often)...
//! ```
//! Contract: the same files give the same index. A file that is not UTF-8 is left out and reported;
//! one that cannot be read fails. Links are not followed.

use crate::words;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum depth of folders.
const MOST_DEPTH: usize = 64;

/// A file that has been read.
#[derive(Debug, PartialEq, Eq)]
pub struct Document {
    /// Its path.
    pub path: String,
    /// Number of its words.
    pub words: u32,
}

/// A word in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posting {
    /// Number of the document.
    pub document: u32,
    /// How often the word is in it.
    pub times: u32,
}

/// An index in memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Documents, in the order of their numbers.
    pub documents: Vec<Document>,
    /// The documents of each word, by number.
    pub postings: HashMap<String, Vec<Posting>>,
}

impl Words {
    /// Reads a folder. `left_out` gets the paths of files that are not text.
    pub fn of_folder(folder: &str, mut left_out: impl FnMut(&Path)) -> Result<Words, String> {
        let mut files = Vec::new();
        walk(Path::new(folder), MOST_DEPTH, &mut files)?;
        let mut all = Words::default();
        for file in files {
            let bytes = fs::read(&file).map_err(|why| format!("{}: {why}", file.display()))?;
            match (String::from_utf8(bytes), file.to_str()) {
                (Ok(text), Some(path)) => all.add(path, &text),
                _ => left_out(&file),
            }
        }
        Ok(all)
    }

    /// Adds a document.
    pub fn add(&mut self, path: &str, text: &str) {
        let document = self.documents.len() as u32;
        let mut words = 0;
        words::of(text, |word| {
            words += 1;
            match self.postings.get_mut(word) {
                None => {
                    self.postings.insert(word.to_string(), vec![Posting { document, times: 1 }]);
                }
                Some(postings) => match postings.last_mut() {
                    Some(last) if last.document == document => last.times += 1,
                    _ => postings.push(Posting { document, times: 1 }),
                },
            }
        });
        self.documents.push(Document { path: path.to_string(), words });
    }

    /// Returns how many words there are, repeated ones included.
    pub fn count(&self) -> u64 {
        self.documents.iter().map(|document| u64::from(document.words)).sum()
    }
}

/// Adds the files below a folder, in the order of names.
fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
    if depth == 0 {
        return Err(format!("{}: more than {MOST_DEPTH} folders deep", folder.display()));
    }
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            walk(&entry.path(), depth - 1, files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

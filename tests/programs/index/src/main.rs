//! A full-text index of a folder. `./pen test servers.index` runs it.
//!
//! ```text
//!   index add INDEX FOLDER        makes the file INDEX of the text files below FOLDER
//!   index find INDEX WORD...      ranks and names of the files that have a word, best first
//!   index find INDEX              the same for each line of the input, and an empty line after it
//! ```
//! `begin*` means all words that begin so. The exit code is 0; 1 if no file is found; 2 after an
//! error.
//!
//! - [`words`]: the words of a text
//! - [`mod@add`]: an index in memory
//! - [`mod@file`]: its file on the disk
//! - [`mod@find`]: ranks of files

mod add;
mod file;
mod find;
mod words;

use std::process::ExitCode;

const USAGE: &str = "usage: index add INDEX FOLDER | index find INDEX [WORD...]";
/// Most files that are printed.
const MOST: usize = 20;
const NOTHING: u8 = 1;
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match &words[..] {
        ["add", index, folder] => add(index, folder),
        ["find", index] => answer(index),
        ["find", index, words @ ..] => find(index, words),
        _ => Err(USAGE.to_string()),
    };
    done.unwrap_or_else(|why| {
        eprintln!("index: {why}");
        ExitCode::from(FAILED)
    })
}

fn add(index: &str, folder: &str) -> Result<ExitCode, String> {
    let words = add::Words::of_folder(folder, |path| {
        eprintln!("index: {}: left out, it is not UTF-8", path.display());
    })?;
    file::write(index, &words)?;
    let (files, different) = (words.documents.len(), words.postings.len());
    println!("{files} files, {} words, {different} different ones", words.count());
    Ok(ExitCode::SUCCESS)
}

fn find(index: &str, words: &[&str]) -> Result<ExitCode, String> {
    let read = file::Index::read(index)?;
    let count = print(index, &read, words)?;
    Ok(if count == 0 { ExitCode::from(NOTHING) } else { ExitCode::SUCCESS })
}

/// Answers the questions of the input.
fn answer(index: &str) -> Result<ExitCode, String> {
    let read = file::Index::read(index)?;
    for line in std::io::stdin().lines() {
        let line = line.map_err(|why| format!("the input: {why}"))?;
        print(index, &read, &line.split_whitespace().collect::<Vec<_>>())?;
        println!();
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what was found. Returns its number.
fn print(name: &str, index: &file::Index, words: &[&str]) -> Result<usize, String> {
    let found = find::find(index, words).map_err(|why| format!("{name}: {why}"))?;
    for (rank, path) in found.iter().take(MOST) {
        println!("{rank:.3} {path}");
    }
    Ok(found.len())
}

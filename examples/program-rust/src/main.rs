//! An example to copy: a WASI program in Rust, with std. It counts the lines and words of its
//! standard input, and says so under the name that its first argument gives.
//!
//! `./pen new program NAME` makes a copy that is built, installed and tested.

use std::io::Read;
use std::process::ExitCode;

/// What was counted.
#[derive(Debug, PartialEq, Eq)]
struct Count {
    lines: usize,
    words: usize,
}

fn count(text: &str) -> Count {
    Count { lines: text.lines().count(), words: text.split_whitespace().count() }
}

/// The kernel it runs on, where the system says: a host does not.
fn kernel() -> String {
    match penumbra::process::identity() {
        Ok(me) => format!("kernel {}", me.kernel),
        Err(_) => "a host".to_string(),
    }
}

fn main() -> ExitCode {
    let title = std::env::args().nth(1).unwrap_or_else(|| "input".to_string());
    let mut text = String::new();
    if let Err(why) = std::io::stdin().read_to_string(&mut text) {
        eprintln!("program-rust: standard input: {why}");
        return ExitCode::FAILURE;
    }
    let Count { lines, words } = count(&text);
    println!("{title}: {lines} lines, {words} words");
    // Standard error, so that the output is the same on each kernel.
    eprintln!("counted on {}", kernel());
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_words_are_counted() {
        assert_eq!(count("one two\nthree\n"), Count { lines: 2, words: 3 });
        assert_eq!(count(""), Count { lines: 0, words: 0 });
    }
}

//! Signatures of viruses, in two of ClamAV's forms, a line each:
//!
//! ```text
//!   NAME:TARGET:OFFSET:HEX      where TARGET is 0 (any) or 4 (mail), OFFSET `*` or a number
//!   MD5:SIZE:NAME               all of the data; SIZE is a number or `*`
//! ```
//! HEX is what [`Pattern`] knows. Lines of other forms are left out and counted; empty ones and
//! those that begin with `#` are comments.
//!
//! One pass of an Aho-Corasick automaton over the data finds the signatures that can match; only
//! these are compared as a whole.

use crate::pattern::Pattern;
use aho_corasick::AhoCorasick;
use md5::{Digest, Md5};
use std::collections::HashMap;

/// All that is looked for.
pub struct Signatures {
    /// Names and patterns, in the order of the automaton's.
    patterns: Vec<(String, Pattern)>,
    /// Bytes that each pattern needs.
    certain: AhoCorasick,
    /// Size and name, by MD5.
    whole: HashMap<[u8; 16], (Option<usize>, String)>,
    /// Lines that were left out: how many, and the first one.
    left_out: Option<(usize, usize)>,
}

impl Signatures {
    /// Reads a file of signatures. A file without any is an error.
    pub fn read(text: &str) -> Result<Signatures, String> {
        let (mut patterns, mut whole, mut left_out) = (Vec::new(), HashMap::new(), None);
        for (line, number) in text.lines().zip(1..) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some((sum, size, name)) = whole_of(line) {
                whole.insert(sum, (size, name));
            } else if let Some(pattern) = pattern_of(line) {
                patterns.push(pattern);
            } else {
                let (count, first) = left_out.unwrap_or((0, number));
                left_out = Some((count + 1, first));
            }
        }
        if patterns.is_empty() && whole.is_empty() {
            return Err("it has no signature that this program knows".to_string());
        }
        let certain =
            patterns.iter().map(|(_, pattern): &(String, Pattern)| pattern.certain_bytes());
        let certain = AhoCorasick::new(certain).map_err(|why| why.to_string())?;
        Ok(Signatures { patterns, certain, whole, left_out })
    }

    /// Returns what there is, for people.
    pub fn about(&self) -> String {
        let count = self.patterns.len() + self.whole.len();
        let left_out = self.left_out.map_or(String::new(), |(count, first)| {
            format!("; left out {count} of other forms, the first in line {first}")
        });
        format!("{count} signatures{left_out}")
    }

    /// Returns the name of a virus in the data.
    pub fn find(&self, data: &[u8]) -> Option<&str> {
        self.find_whole(data).or_else(|| self.find_pattern(data))
    }

    fn find_whole(&self, data: &[u8]) -> Option<&str> {
        if self.whole.is_empty() {
            return None;
        }
        let sum: [u8; 16] = Md5::digest(data).into();
        let (size, name) = self.whole.get(&sum)?;
        size.is_none_or(|size| size == data.len()).then_some(name)
    }

    fn find_pattern(&self, data: &[u8]) -> Option<&str> {
        let mut was_compared = vec![false; self.patterns.len()];
        for found in self.certain.find_overlapping_iter(data) {
            let index = found.pattern().as_usize();
            if !std::mem::replace(&mut was_compared[index], true) {
                let (name, pattern) = &self.patterns[index];
                if pattern.is_in(data) {
                    return Some(name);
                }
            }
        }
        None
    }
}

fn whole_of(line: &str) -> Option<([u8; 16], Option<usize>, String)> {
    let mut fields = line.split(':');
    let [sum, size, name] = [fields.next()?, fields.next()?, fields.next()?];
    let size = if size == "*" { None } else { Some(size.parse().ok()?) };
    let sum = u128::from_str_radix(sum, 16).ok().filter(|_| sum.len() == 32)?;
    Some((sum.to_be_bytes(), size, name.to_string()))
}

fn pattern_of(line: &str) -> Option<(String, Pattern)> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, "0" | "4", offset, hex] = fields[..] else { return None };
    let offset = if offset == "*" { None } else { Some(offset.parse().ok()?) };
    Some((name.to_string(), Pattern::read(hex, offset)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# two forms, and others\n\
        Test.Text:0:*:76697275733f\n\
        Test.Start:4:0:46726f6d3a20\n\
        Test.Program:1:EP+0:4d5a\n\
        5d41402abc4b2a76b9719d911017c592:5:Test.Hello\n\
        7d793037a0760186574b0282f2f435e7:*:Test.World\n\
        \n\
        Test.Other:0:*:(61|62)\n";

    #[test]
    fn what_is_found() {
        let signatures = Signatures::read(FILE).unwrap();
        assert_eq!(
            signatures.about(),
            "4 signatures; left out 2 of other forms, the first in line 4"
        );
        for (data, name) in [
            (b"is this a virus?".as_slice(), Some("Test.Text")),
            (b"From: me", Some("Test.Start")),
            (b"\nFrom: me", None),
            (b"hello", Some("Test.Hello")),
            (b"world", Some("Test.World")),
            (b"hello world", None),
            (b"", None),
        ] {
            assert_eq!(signatures.find(data), name, "{data:?}");
        }
    }

    #[test]
    fn a_file_without_signatures_is_refused() {
        for text in ["", "# nothing", "Test.Program:1:EP+0:4d5a"] {
            assert!(Signatures::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_of_many_is_found() {
        let hex = |number: u32| format!("{:08x}{:08x}", number, number.wrapping_mul(2_654_435_761));
        let line = |number: u32| format!("Test.{number}:0:*:{}\n", hex(number));
        let signatures = Signatures::read(&(0..2000).map(line).collect::<String>()).unwrap();
        for number in 0..2000_u32 {
            let mut data = vec![7; 300];
            data.extend(number.to_be_bytes());
            assert_eq!(signatures.find(&data), None);
            data.extend(number.wrapping_mul(2_654_435_761).to_be_bytes());
            assert_eq!(signatures.find(&data), Some(format!("Test.{number}").as_str()));
        }
    }
}

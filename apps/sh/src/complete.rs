//! Completion of the word before the cursor.

use crate::path;
use crate::shell::Shell;
use crate::system::System;
use penumbra::Kind;

/// Characters that must be quoted in a word.
const SPECIAL: &str = " \t\\'\"$`*?[]|&;<>(){}#~!";

/// Result of a completion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Number of characters before the cursor to replace.
    pub back: usize,
    /// The replacement: the longest common prefix of all candidates.
    pub text: String,
    /// The candidates, for display.
    pub found: Vec<String>,
}

impl<S: System> Shell<S> {
    /// Completes the word at the end of `before`.
    pub fn complete(&mut self, before: &str) -> Completion {
        let (start, first) = last_word(before);
        let raw = before.get(start..).unwrap_or_default();
        let word = raw.replace('\\', "");
        let back = raw.chars().count();
        let mut found: Vec<String> = if first && !word.contains('/') {
            let names = self.command_names();
            names.into_iter().filter(|name| name.starts_with(&word)).collect()
        } else if let Some(name) = word.strip_prefix('$') {
            let all = self.state.variables.iter().map(|(n, _)| n);
            all.filter(|n| n.starts_with(name)).map(|n| format!("${n}")).collect()
        } else {
            self.file_names(&word)
        };
        found.sort();
        let common = common(&found);
        let mut text = match word.starts_with('$') {
            true => common,
            false => escaped(&common),
        };
        if let [one] = found.as_slice()
            && !one.ends_with('/')
        {
            text.push(' ');
        }
        if found.is_empty() {
            text = raw.to_string();
        }
        let shown = |name: &String| match name.strip_suffix('/') {
            Some(folder) => format!("{}/", path::last(folder)),
            None => path::last(name).to_string(),
        };
        Completion { back, text, found: found.iter().map(shown).collect() }
    }

    fn file_names(&mut self, word: &str) -> Vec<String> {
        let (folder, part) = match word.rfind('/') {
            Some(at) => word.split_at(at + 1),
            None => ("", word),
        };
        let home = self.state.variables.get("HOME").unwrap_or("/");
        let place = match folder.strip_prefix("~/") {
            Some(rest) => format!("{home}/{rest}"),
            None => format!("./{folder}"),
        };
        let place = if folder.starts_with('/') { folder } else { place.as_str() };
        let place = path::absolute(&self.state.folder, place);
        let names = self.system.folder(&place).unwrap_or_default();
        let fits = |name: &&String| {
            name.starts_with(part) && (!name.starts_with('.') || part.starts_with('.'))
        };
        let fitting: Vec<String> = names.iter().filter(fits).cloned().collect();
        let mut found = Vec::new();
        for name in fitting {
            let full = path::absolute(&place, &name);
            let is_folder = self.system.stat(&full, true).is_ok_and(|s| s.kind == Kind::Directory);
            found.push(format!("{folder}{name}{}", if is_folder { "/" } else { "" }));
        }
        found
    }
}

/// Returns where the last word begins, and whether it is the first word of a command.
fn last_word(before: &str) -> (usize, bool) {
    let (mut start, mut first, mut slash) = (0, true, false);
    let mut words = 0;
    for (at, c) in before.char_indices() {
        let escaped = slash;
        slash = c == '\\' && !escaped;
        if escaped {
            continue;
        }
        match c {
            ' ' | '\t' => {
                words += usize::from(at > start);
                (start, first) = (at + 1, words == 0);
            }
            ';' | '|' | '&' | '(' | '`' => (start, first, words) = (at + 1, true, 0),
            '<' | '>' | '=' => (start, first, words) = (at + 1, false, words + 1),
            _ => {}
        }
    }
    (start, first)
}

fn common(words: &[String]) -> String {
    let Some((first, rest)) = words.split_first() else { return String::new() };
    let mut common: Vec<char> = first.chars().collect();
    for word in rest {
        let same = common.iter().zip(word.chars()).take_while(|(a, b)| **a == *b).count();
        common.truncate(same);
    }
    common.into_iter().collect()
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for (at, c) in text.chars().enumerate() {
        if SPECIAL.contains(c) && !(c == '~' && at == 0) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_found() {
        let cases = [
            ("ec", (0, true)),
            ("cat fo", (4, false)),
            ("a | b", (4, true)),
            ("  ls", (2, true)),
            ("cat a\\ b", (4, false)),
            ("x >fi", (3, false)),
            ("a;b", (2, true)),
            ("", (0, true)),
            ("cat ", (4, false)),
            ("x=/b", (2, false)),
        ];
        for (text, expected) in cases {
            assert_eq!(last_word(text), expected, "{text}");
        }
    }

    #[test]
    fn what_words_have_in_common() {
        let words = |all: &[&str]| all.iter().map(|w| w.to_string()).collect::<Vec<String>>();
        assert_eq!(common(&words(&["food", "fool", "foo"])), "foo");
        assert_eq!(common(&words(&["ä1", "ä2"])), "ä");
        assert_eq!(common(&[]), "");
        assert_eq!(escaped("a b$"), "a\\ b\\$");
    }
}

//! Separates the prose of a file from its code.
//!
//! Prose is normalized to lower case and single spaces, so that a phrase is found across line ends.

use crate::pieces::{self, Piece};

/// A part of a file. `lines` maps bytes to lines: (first byte, line), ascending.
#[derive(Default)]
pub struct Extract {
    text: String,
    lines: Vec<(usize, usize)>,
}

impl Extract {
    fn push(&mut self, c: char, line: usize) {
        if self.lines.last().is_none_or(|&(_, last)| last != line) {
            self.lines.push((self.text.len(), line));
        }
        self.text.push(c);
    }

    /// Adds a gap between pieces; adjacent gaps are merged.
    fn gap(&mut self, line: usize) {
        if !self.text.is_empty() && !self.text.ends_with(' ') {
            self.push(' ', line);
        }
    }

    /// Adds a character of prose: lower case, with white space as gaps.
    fn prose(&mut self, c: char, line: usize) {
        if c.is_whitespace() {
            return self.gap(line);
        }
        c.to_lowercase().for_each(|c| self.push(c, line));
    }

    /// Adds prose that begins on `line`. Returns the line on which it ends.
    fn all(&mut self, prose: &str, mut line: usize) -> usize {
        for c in prose.chars() {
            self.prose(c, line);
            line += usize::from(c == '\n');
        }
        line
    }

    /// Does the same for a string with escapes; each escape becomes a character that no phrase
    /// contains.
    fn escaped(&mut self, prose: &str, mut line: usize) -> usize {
        let mut chars = prose.chars();
        while let Some(c) = chars.next() {
            let at = line;
            let escape = (c == '\\').then(|| chars.next()).flatten();
            line += usize::from(c == '\n' || escape == Some('\n'));
            self.prose(if escape.is_some() { ' ' } else { c }, at);
        }
        line
    }

    fn line(&self, at: usize) -> usize {
        let next = self.lines.partition_point(|&(from, _)| from <= at);
        next.checked_sub(1).map_or(0, |index| self.lines[index].1)
    }

    /// Returns the lines that contain `phrase` as whole words in prose, not counting the phrases in
    /// `except`.
    pub fn phrase(&self, phrase: &str, except: &[String]) -> impl Iterator<Item = usize> {
        let text = self.text.as_str();
        let fine = move |at: usize| {
            except.iter().any(|longer| {
                longer.match_indices(phrase).any(|(offset, _)| {
                    at.checked_sub(offset)
                        .and_then(|from| text.get(from..))
                        .is_some_and(|rest| rest.starts_with(longer.as_str()))
                })
            })
        };
        text.match_indices(phrase)
            .map(|(at, _)| at)
            .filter(move |&at| is_word(text, at, phrase.len()) && !fine(at))
            .map(|at| self.line(at))
    }

    /// Returns the lines with a name that contains the word `part`: `a_part`, `PartOf`.
    pub fn name(&self, part: &str) -> impl Iterator<Item = usize> {
        let mut found = Vec::new();
        let (mut start, mut before) = (0, ' ');
        for (at, c) in self.text.char_indices().chain([(self.text.len(), ' ')]) {
            let inside = c.is_alphanumeric();
            let begins = c.is_uppercase() && before.is_lowercase();
            if !inside || begins {
                if self.text[start..at].eq_ignore_ascii_case(part) {
                    found.push(self.line(start));
                }
                start = if inside { at } else { at + c.len_utf8() };
            }
            before = c;
        }
        found.into_iter()
    }
}

/// Returns whether it is a whole word and not code (in backquotes or braces).
fn is_word(text: &str, at: usize, length: usize) -> bool {
    let part = pieces::is_part_of_name;
    let before = text[..at].chars().next_back();
    let after = text[at + length..].chars().next();
    !before.is_some_and(|c| part(c) || c == '`' || c == '{') && !after.is_some_and(part)
}

/// Extracts all text, without quote and list markers at the start of lines.
pub fn of_markdown(text: &str) -> Extract {
    let mut prose = Extract::default();
    for (number, line) in text.lines().enumerate() {
        line.trim_start().chars().for_each(|c| prose.prose(c, number + 1));
        prose.gap(number + 1);
    }
    prose
}

/// Extracts comments and strings, and the rest.
pub fn of_rust(text: &str) -> (Extract, Extract) {
    let (mut prose, mut code) = (Extract::default(), Extract::default());
    for (line, piece) in pieces::of(text) {
        let last = match piece {
            Piece::Code(c) => {
                code.push(c, line);
                continue;
            }
            Piece::Character => line,
            Piece::Line(inside) => prose.all(inside.trim_start_matches(['/', '!']), line),
            Piece::Block(inside) => prose.all(&inside.replace("/*", " ").replace("*/", " "), line),
            Piece::Text(inside) => prose.escaped(inside, line),
            Piece::Raw(inside) => prose.all(inside, line),
        };
        if piece != Piece::Character {
            prose.gap(last);
        }
        code.gap(last);
    }
    (prose, code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prose(text: &str) -> String {
        of_rust(text).0.text.trim_end().to_string()
    }

    fn code(text: &str) -> String {
        of_rust(text).1.text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_texts_are_prose_and_nothing_else_is() {
        assert_eq!(prose("//! A B\n/// c\nlet d = 1; // e\n"), "a b c e");
        assert_eq!(prose("a /* b /* c */ d */ e"), "b c d");
        assert_eq!(prose(r#"f("one \"two\" // three", 'x', b"four")"#), "one two // three four");
        assert_eq!(prose("r#\"a \"b\" c\"# d"), "a \"b\" c");
        assert_eq!(code("a /* b */ c // d\n\"e\" f"), "a c f");
        let literals = "fn f<'a>(x: &'a str) { c == '\"' || c == '\\'' }";
        assert_eq!(code(literals), "fn f<'a>(x: &'a str) { c == || c == }");
        assert_eq!(prose("x == '\"' // y"), "y");
        assert_eq!(prose("&'a b // c"), "c");
        assert_eq!(prose("'\\u{7f}' // c"), "c");
    }

    #[test]
    fn phrases_are_whole_words_across_lines() {
        let found = |text: &str, phrase: &str, except: &[&str]| {
            let except: Vec<String> = except.iter().map(|it| it.to_string()).collect();
            of_markdown(text).phrase(phrase, &except).collect::<Vec<_>>()
        };
        assert_eq!(found("Who? A whole `who`, {who}; who's who.\nwho", "who", &[]), [1, 1, 1, 2]);
        assert_eq!(found("it is\n  told so", "is told", &[]), [1]);
        assert_eq!(found("behind the door, behind it", "behind", &["behind the door"]), [1]);
        assert_eq!(found("far behind", "behind", &["far behind it"]), [1]);
        assert_eq!(found("", "behind", &[]), [0; 0]);
    }

    #[test]
    fn parts_of_names_are_found() {
        let found = |text: &str| of_rust(text).1.name("rouse").count();
        assert_eq!(found("fn rouse() { rouse_all(Rouse, ReRouseAll, ROUSE); }"), 5);
        assert_eq!(found("carouse(\"rouse\"); // rouse\nrouses()"), 0);
        assert_eq!(of_rust("a\n\nb.rouse").1.name("rouse").collect::<Vec<_>>(), [3]);
    }
}

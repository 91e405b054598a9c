//! What of a file is prose, and what is code.
//!
//! Prose is lower case with single spaces, so that a phrase is found across the end of a line.

/// A part of a file; `lines` says on which line a byte of it was: (first byte, line), ascending.
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

    /// A gap between pieces; several are one.
    fn gap(&mut self, line: usize) {
        if !self.text.is_empty() && !self.text.ends_with(' ') {
            self.push(' ', line);
        }
    }

    /// Prose: lower case, white space is one gap.
    fn prose(&mut self, c: char, line: usize) {
        if c.is_whitespace() {
            return self.gap(line);
        }
        c.to_lowercase().for_each(|c| self.push(c, line));
    }

    fn line(&self, at: usize) -> usize {
        let next = self.lines.partition_point(|&(from, _)| from <= at);
        next.checked_sub(1).map_or(0, |index| self.lines[index].1)
    }

    /// Lines where `phrase` is, as whole words and not as code, but for what is in `except`.
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

    /// Lines where a name has `part` among its parts: `a_part`, `PartOf`.
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

/// Neither a part of a longer word, nor code: `who`, {who}.
fn is_word(text: &str, at: usize, length: usize) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let before = text[..at].chars().next_back();
    let after = text[at + length..].chars().next();
    !before.is_some_and(|c| part(c) || c == '`' || c == '{') && !after.is_some_and(part)
}

/// All of it, without the marks of quotes and lists at the start of lines.
pub fn of_markdown(text: &str) -> Extract {
    let mut prose = Extract::default();
    for (number, line) in text.lines().enumerate() {
        line.trim_start().chars().for_each(|c| prose.prose(c, number + 1));
        prose.gap(number + 1);
    }
    prose
}

/// Comments and texts; and the rest.
pub fn of_rust(text: &str) -> (Extract, Extract) {
    let mut reader = Reader {
        rest: text.char_indices().peekable(),
        text,
        line: 1,
        prose: Extract::default(),
        code: Extract::default(),
    };
    while reader.piece().is_some() {}
    (reader.prose, reader.code)
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::CharIndices<'a>>,
    text: &'a str,
    line: usize,
    prose: Extract,
    code: Extract,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let (_, c) = self.rest.next()?;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    /// The text that was not read yet.
    fn ahead(&mut self) -> &str {
        self.rest.peek().map_or("", |&(at, _)| &self.text[at..])
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.next();
        }
    }

    /// One comment, one text, or one character of code.
    fn piece(&mut self) -> Option<()> {
        let in_name = self.in_name();
        let ahead = self.ahead();
        if ahead.starts_with("//") {
            self.line_comment();
        } else if ahead.starts_with("/*") {
            self.block_comment();
        } else if let Some(hashes) = raw(ahead).filter(|_| !in_name) {
            self.raw_text(hashes);
        } else if ahead.starts_with('"') {
            self.quoted();
        } else if let Some(length) = character(ahead) {
            self.skip(length);
            self.code.gap(self.line);
        } else {
            let (line, c) = (self.line, self.next()?);
            self.code.push(c, line);
        }
        Some(())
    }

    /// Is the character before this one a part of a name?
    fn in_name(&self) -> bool {
        self.code.text.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_')
    }

    fn line_comment(&mut self) {
        while self.ahead().starts_with(['/', '!']) {
            self.next();
        }
        while let Some(line) = (!self.ahead().is_empty()).then_some(self.line) {
            match self.next() {
                Some('\n') | None => break,
                Some(c) => self.prose.prose(c, line),
            }
        }
        self.prose.gap(self.line - 1);
        self.code.gap(self.line - 1);
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            let line = self.line;
            if self.ahead().starts_with("/*") {
                (depth, _) = (depth + 1, self.skip(2));
            } else if self.ahead().starts_with("*/") {
                (depth, _) = (depth - 1, self.skip(2));
            } else if let Some(c) = self.next() {
                self.prose.prose(c, line);
            } else {
                break;
            }
            if depth == 0 {
                break;
            }
        }
        self.prose.gap(self.line);
    }

    fn quoted(&mut self) {
        self.next();
        loop {
            let line = self.line;
            match self.next() {
                Some('"') | None => break,
                // An escape is a character that no phrase has.
                Some('\\') => {
                    self.next();
                    self.prose.gap(line);
                }
                Some(c) => self.prose.prose(c, line),
            }
        }
        self.prose.gap(self.line);
        self.code.gap(self.line);
    }

    fn raw_text(&mut self, hashes: usize) {
        let open = self.ahead().find('"').unwrap_or(0) + 1;
        self.skip(open);
        let end = format!("\"{}", "#".repeat(hashes));
        while !self.ahead().is_empty() && !self.ahead().starts_with(&end) {
            let line = self.line;
            if let Some(c) = self.next() {
                self.prose.prose(c, line);
            }
        }
        self.skip(end.len());
        self.prose.gap(self.line);
        self.code.gap(self.line);
    }
}

/// The number of hashes, where a raw text begins.
fn raw(ahead: &str) -> Option<usize> {
    let rest = ahead.strip_prefix('b').or(ahead.strip_prefix('c')).unwrap_or(ahead);
    let rest = rest.strip_prefix('r')?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// Characters of a character literal, where one begins; a lifetime is none.
fn character(ahead: &str) -> Option<usize> {
    let inside = ahead.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        return inside.char_indices().skip(2).find(|&(_, c)| c == '\'').map(|(at, _)| at + 2);
    }
    inside.chars().nth(1).is_some_and(|c| c == '\'').then_some(3)
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

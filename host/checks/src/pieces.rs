//! A lexer for Rust source: comments, string literals, character literals, and single code
//! characters.
//!
//! It accepts any text and never panics: an unclosed piece reaches to the end.

/// A piece, without its delimiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// From `//` to the end of the line.
    Line(&'a str),
    /// Between `/*` and `*/`; nested comments keep their delimiters.
    Block(&'a str),
    /// `"..."`, `b"..."` or `c"..."`, with its escapes.
    Text(&'a str),
    /// `r"..."` and the like, with any number of hashes.
    Raw(&'a str),
    /// A character literal.
    Character,
    Code(char),
}

/// Returns the pieces of `text`, each with the line on which it begins.
pub fn of(text: &str) -> Pieces<'_> {
    Pieces { rest: text, line: 1, before: ' ' }
}

pub struct Pieces<'a> {
    rest: &'a str,
    line: usize,
    /// The character before the rest.
    before: char,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = (usize, Piece<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest;
        let (piece, length) = match rest.chars().next()? {
            '/' if rest.starts_with("//") => {
                let length = rest.find('\n').unwrap_or(rest.len());
                (Piece::Line(&rest[2..length]), length)
            }
            '/' if rest.starts_with("/*") => block(rest),
            '\'' => character(rest).map_or((Piece::Code('\''), 1), |end| (Piece::Character, end)),
            first => match text(rest).filter(|_| !is_part_of_name(self.before) || first == '"') {
                Some(found) => found,
                None => (Piece::Code(first), first.len_utf8()),
            },
        };
        let line = self.line;
        let (done, rest) = rest.split_at(length);
        self.line += done.matches('\n').count();
        self.before = done.chars().next_back().unwrap_or(' ');
        self.rest = rest;
        Some((line, piece))
    }
}

/// Whether a name may contain it.
pub fn is_part_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the text between a delimiter of `open` bytes and `close`, and the length of the whole.
fn until<'a>(rest: &'a str, open: usize, close: &str) -> (&'a str, usize) {
    match rest[open..].find(close) {
        Some(at) => (&rest[open..open + at], open + at + close.len()),
        None => (&rest[open..], rest.len()),
    }
}

fn block(rest: &str) -> (Piece<'_>, usize) {
    let (mut depth, mut at) = (0, 0);
    while let Some(found) = rest[at..].find(['/', '*']) {
        at += found;
        match rest.as_bytes().get(at..at + 2) {
            Some(b"/*") => depth += 1,
            Some(b"*/") if depth == 1 => return (Piece::Block(&rest[2..at]), at + 2),
            Some(b"*/") => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    (Piece::Block(&rest[2..]), rest.len())
}

/// Parses a string literal, raw or not.
fn text(rest: &str) -> Option<(Piece<'_>, usize)> {
    let marked = rest.strip_prefix(['b', 'c']).unwrap_or(rest);
    let prefix = rest.len() - marked.len();
    if let Some(hashed) = marked.strip_prefix('r') {
        let hashes = hashed.len() - hashed.trim_start_matches('#').len();
        let open = prefix + 1 + hashes + 1;
        return hashed[hashes..].starts_with('"').then(|| {
            let (inside, length) = until(rest, open, &format!("\"{}", "#".repeat(hashes)));
            (Piece::Raw(inside), length)
        });
    }
    let inside = marked.strip_prefix('"')?;
    let mut escaped = false;
    let end = inside.find(|c| {
        let is_end = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        is_end
    });
    let length = prefix + 1 + end.map_or(inside.len(), |end| end + 1);
    Some((Piece::Text(&inside[..end.unwrap_or(inside.len())]), length))
}

/// Returns the length of a character literal; `None` for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        let end = inside.char_indices().skip(2).find(|&(_, c)| c == '\'');
        return Some(end.map_or(rest.len(), |(at, _)| at + 2));
    }
    let mut chars = inside.chars();
    let first = chars.next()?;
    (chars.next() == Some('\'')).then(|| 2 + first.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::Piece::{Block, Character, Code, Line, Raw, Text};
    use super::*;

    fn pieces(text: &str) -> Vec<Piece<'_>> {
        of(text).map(|(_, piece)| piece).collect()
    }

    #[test]
    fn each_kind_is_found() {
        assert_eq!(pieces("//! a\nb"), [Line("! a"), Code('\n'), Code('b')]);
        assert_eq!(pieces("/* a /* b */ c */d"), [Block(" a /* b */ c "), Code('d')]);
        assert_eq!(pieces(r#""a\"\\"b"#), [Text(r#"a\"\\"#), Code('b')]);
        assert_eq!(pieces("b\"a\"br#\"b\"#"), [Text("a"), Raw("b")]);
        assert_eq!(pieces("r##\"a\"#\"##"), [Raw("a\"#")]);
        let characters = [Character, Character, Character, Code('\''), Code('a')];
        assert_eq!(pieces(r"'é''\'''\u{7f}''a"), characters);
    }

    #[test]
    fn a_name_begins_no_text() {
        let code = |text: &str| text.chars().map(Code).collect::<Vec<_>>();
        assert_eq!(pieces("xr\"a\""), [code("xr"), vec![Text("a")]].concat());
        assert_eq!(pieces("r#a"), code("r#a"));
    }

    #[test]
    fn lines_are_those_of_beginnings() {
        let text = "a\n\"b\nc\"d\n// e";
        let found: Vec<usize> = of(text).map(|(line, _)| line).collect();
        assert_eq!(found, [1, 1, 2, 3, 3, 4]);
    }

    #[test]
    fn any_text_has_pieces() {
        let text = "a'é\"b\\\"c\" r#\"d\"# /* e /* f */ */ '\\'' b'g' // h\n\\";
        for (start, _) in text.char_indices() {
            for (end, _) in text.char_indices().filter(|&(end, _)| end >= start) {
                of(&text[start..end]).for_each(drop);
            }
        }
    }
}

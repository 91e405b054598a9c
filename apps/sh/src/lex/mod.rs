//! The lexer: words with their quotes and expansions, operators, and here-documents, which begin on
//! the next line.
//!
//! Parser and lexer call each other, because `$( )` contains commands; the parser passes itself to
//! the lexer, as [`Nested`]. Both count their nesting ([`DEPTH`]), so that no text overflows the
//! stack.

mod dollar;

use crate::ast::{List, Part, Word};
use crate::error::ParseError;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Maximum nesting of commands, quotes and expansions.
pub const DEPTH: u32 = 48;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A word.
    Word(Word),
    /// A number directly before `<` or `>`.
    Number(u32),
    /// An operator.
    Op(&'static str),
    /// The end of a line.
    Newline,
    /// The end of the text.
    End,
}

/// Longest first, so that the first match is the right one.
const OPERATORS: &[&str] = &[
    "<<-", ";;", ";&", "&&", "||", "<<", ">>", "<&", ">&", "<>", ">|", "&", "|", ";", "<", ">",
    "(", ")",
];

/// A here-document whose text follows the line.
pub(crate) struct Pending {
    pub end: String,
    pub strip: bool,
    pub quoted: bool,
    pub text: Rc<OnceCell<Word>>,
}

/// The input text, and the position in it.
pub(crate) struct Lexer {
    chars: Vec<char>,
    at: usize,
    pub line: u32,
    pub depth: u32,
    pub pending: Vec<Pending>,
    pub aliases: Aliases,
    nested: Nested,
}

/// The parser's functions for commands within words.
#[derive(Clone, Copy)]
pub(crate) struct Nested {
    /// Parses a whole text.
    pub all: fn(Lexer) -> Lexed<List>,
    /// Parses commands through the `)` that ends them.
    pub inner: fn(&mut Lexer) -> Lexed<List>,
}

/// What ends a piece of text; it determines the meaning of quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// `"`
    Quote,
    /// `}` of an expansion outside double quotes.
    Brace,
    /// `}` of an expansion inside double quotes.
    QuotedBrace,
    /// `))`
    Arithmetic,
    /// The end of the text.
    Document,
}

/// Aliases: names and their replacements.
pub(crate) type Aliases = Rc<BTreeMap<String, String>>;

type Lexed<T> = Result<T, ParseError>;

impl Lexer {
    pub fn new(text: &str, aliases: Aliases, nested: Nested) -> Lexer {
        let chars = text.chars().filter(|c| *c != '\0').collect();
        Lexer { chars, at: 0, line: 1, depth: 0, pending: Vec::new(), aliases, nested }
    }

    pub fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at.saturating_add(ahead)).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        self.line += u32::from(c == '\n');
        Some(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let there = self.peek() == Some(c);
        if there {
            self.next();
        }
        there
    }

    /// Returns the position.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Replaces the text from `from` to the position by `text`, which is read next.
    pub fn replace(&mut self, from: usize, text: &str) -> usize {
        let from = from.min(self.at);
        let with: Vec<char> = text.chars().filter(|c| *c != '\0').collect();
        let length = with.len();
        self.chars.splice(from..self.at, with);
        self.at = from;
        from + length
    }

    pub fn wrong<T>(&self, what: impl Into<String>) -> Lexed<T> {
        Err(ParseError { line: self.line, what: what.into(), incomplete: false })
    }

    fn unfinished<T>(&self, what: &str) -> Lexed<T> {
        let what = format!("the text ends before {what}");
        Err(ParseError { line: self.line, what, incomplete: true })
    }

    /// Runs `inner` one nesting level deeper.
    pub fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Lexed<T>) -> Lexed<T> {
        if self.depth >= DEPTH {
            return self.wrong("too many levels within each other");
        }
        self.depth += 1;
        let result = inner(self);
        self.depth = self.depth.saturating_sub(1);
        result
    }

    /// Skips blanks, comments and joined lines.
    fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => {
                    self.next();
                }
                Some('\\') if self.peek_at(1) == Some('\n') => {
                    self.next();
                    self.next();
                }
                Some('#') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.next();
                    }
                }
                _ => return,
            }
        }
    }

    /// Returns the next token. A newline also reads the line's here-documents.
    pub fn token(&mut self) -> Lexed<Token> {
        self.blanks();
        match self.peek() {
            None => return Ok(Token::End),
            Some('\n') => {
                self.next();
                self.documents()?;
                return Ok(Token::Newline);
            }
            _ => {}
        }
        if let Some(op) = self.operator() {
            return Ok(Token::Op(op));
        }
        let word = self.word()?;
        if let ([Part::Literal(text)], Some('<' | '>')) = (word.as_slice(), self.peek())
            && text.len() <= 4
            && let Ok(number) = text.parse()
            && text.bytes().all(|b| b.is_ascii_digit())
        {
            return Ok(Token::Number(number));
        }
        Ok(Token::Word(word))
    }

    fn operator(&mut self) -> Option<&'static str> {
        let fits = |op: &&&str| op.chars().enumerate().all(|(i, c)| self.peek_at(i) == Some(c));
        let op = OPERATORS.iter().find(fits)?;
        self.at += op.len();
        Some(op)
    }

    /// Reads the rest of a word.
    fn word(&mut self) -> Lexed<Word> {
        let mut parts = Vec::new();
        let mut text = String::new();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\\' if self.peek_at(1) == Some('\n') => {
                    self.next();
                    self.next();
                }
                '\\' | '\'' | '"' | '$' | '`' => {
                    let part = self.special(c, None)?;
                    add(&mut parts, &mut text, part);
                }
                _ => {
                    text.push(c);
                    self.next();
                }
            }
        }
        flush(&mut parts, &mut text);
        Ok(parts)
    }

    /// Reads a part that begins with the special character `c`.
    fn special(&mut self, c: char, inside: Option<Until>) -> Lexed<Part> {
        self.next();
        match c {
            '\\' => Ok(match self.next() {
                Some(c) => Part::Quoted(c.to_string()),
                None => Part::Quoted("\\".to_string()),
            }),
            '\'' => self.single(),
            '"' => {
                let parts = self.deeper(|l| l.until(Until::Quote))?;
                Ok(Part::Double(parts))
            }
            '`' => self.backquoted(inside),
            _ => self.dollar(inside.is_some_and(|u| u != Until::Brace)),
        }
    }

    fn single(&mut self) -> Lexed<Part> {
        let mut text = String::new();
        loop {
            match self.next() {
                Some('\'') => return Ok(Part::Quoted(text)),
                Some(c) => text.push(c),
                None => return self.unfinished("a closing '"),
            }
        }
    }

    /// Reads parts through the end of the text.
    fn until(&mut self, end: Until) -> Lexed<Vec<Part>> {
        let mut parts = Vec::new();
        let (mut text, mut open) = (String::new(), 0u32);
        loop {
            let Some(c) = self.peek() else {
                flush(&mut parts, &mut text);
                return match end {
                    Until::Document => Ok(parts),
                    Until::Quote => self.unfinished("a closing \""),
                    Until::Arithmetic => self.unfinished("))"),
                    Until::Brace | Until::QuotedBrace => self.unfinished("}"),
                };
            };
            match (c, end) {
                ('"', Until::Quote) | ('}', Until::Brace | Until::QuotedBrace) => break,
                (')', Until::Arithmetic) if open == 0 => {
                    if self.peek_at(1) == Some(')') {
                        self.next();
                        break;
                    }
                    return self.wrong("`)` without `(` in an expression");
                }
                ('(', Until::Arithmetic) => open += 1,
                (')', Until::Arithmetic) => open -= 1,
                ('\\', Until::Brace) if self.peek_at(1) == Some('\n') => {
                    self.next();
                    self.next();
                    continue;
                }
                ('\\', Until::Brace) | ('\'' | '"', Until::Brace) | ('"', Until::QuotedBrace) => {
                    let part = self.special(c, Some(end))?;
                    add(&mut parts, &mut text, part);
                    continue;
                }
                ('\\', _) => {
                    self.escaped(end, &mut parts, &mut text);
                    continue;
                }
                ('$' | '`', _) => {
                    let part = self.special(c, Some(end))?;
                    add(&mut parts, &mut text, part);
                    continue;
                }
                _ => {}
            }
            text.push(c);
            self.next();
        }
        self.next();
        flush(&mut parts, &mut text);
        Ok(parts)
    }

    /// Handles a backslash where it only escapes some characters.
    fn escaped(&mut self, end: Until, parts: &mut Vec<Part>, text: &mut String) {
        self.next();
        match self.peek() {
            Some('\n') => {
                self.next();
            }
            Some(c)
                if matches!(c, '$' | '`' | '\\')
                    || (c == '"' && end != Until::Document)
                    || (c == '}' && end == Until::QuotedBrace) =>
            {
                self.next();
                add(parts, text, Part::Quoted(c.to_string()));
            }
            _ => text.push('\\'),
        }
    }

    /// Reads the text after `` ` ``, then parses it separately.
    fn backquoted(&mut self, inside: Option<Until>) -> Lexed<Part> {
        let mut text = String::new();
        loop {
            match self.next() {
                Some('`') => break,
                Some('\\') => match self.peek() {
                    Some(c) if matches!(c, '$' | '`' | '\\') => {
                        text.push(c);
                        self.next();
                    }
                    Some('"') if inside == Some(Until::Quote) => {
                        text.push('"');
                        self.next();
                    }
                    _ => text.push('\\'),
                },
                Some(c) => text.push(c),
                None => return self.unfinished("a closing `"),
            }
        }
        let (line, aliases) = (self.line, self.aliases.clone());
        let list = self.deeper(|outer| {
            let mut inner = Lexer::new(&text, aliases, outer.nested);
            inner.depth = outer.depth;
            let list = (outer.nested.all)(inner);
            list.map_err(|e| ParseError { line, incomplete: false, ..e })
        })?;
        Ok(Part::Command(Rc::new(list)))
    }

    /// Reads the here-documents that the line announced.
    fn documents(&mut self) -> Lexed<()> {
        for pending in std::mem::take(&mut self.pending) {
            let raw = self.document(&pending)?;
            let word = if pending.quoted {
                vec![Part::Quoted(raw)]
            } else {
                let aliases = self.aliases.clone();
                let line = self.line;
                self.deeper(|outer| {
                    let mut inner = Lexer::new(&raw, aliases, outer.nested);
                    inner.depth = outer.depth;
                    let parts = inner.until(Until::Document);
                    parts.map_err(|e| ParseError { line, incomplete: false, ..e })
                })?
            };
            // Cannot fail: each document is set once.
            let _ = pending.text.set(vec![Part::Double(word)]);
        }
        Ok(())
    }

    fn document(&mut self, pending: &Pending) -> Lexed<String> {
        let mut text = String::new();
        loop {
            if self.peek().is_none() {
                return self.unfinished(&pending.end);
            }
            let mut line = String::new();
            while let Some(c) = self.next().filter(|c| *c != '\n') {
                line.push(c);
            }
            let shown = if pending.strip { line.trim_start_matches('\t') } else { line.as_str() };
            if shown == pending.end {
                return Ok(text);
            }
            text.push_str(shown);
            // A joined line keeps its tabs; reading its parts joins it.
            text.push('\n');
        }
    }
}

/// Appends a part after the text before it. Adjacent texts of one kind are merged.
fn add(parts: &mut Vec<Part>, text: &mut String, part: Part) {
    if let Part::Literal(more) = part {
        text.push_str(&more);
        return;
    }
    flush(parts, text);
    match (parts.last_mut(), part) {
        (Some(Part::Quoted(before)), Part::Quoted(more)) => before.push_str(&more),
        (_, part) => parts.push(part),
    }
}

fn flush(parts: &mut Vec<Part>, text: &mut String) {
    if !text.is_empty() {
        parts.push(Part::Literal(std::mem::take(text)));
    }
}

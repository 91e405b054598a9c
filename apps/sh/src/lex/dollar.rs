//! Expansions that begin with `$`: parameters, commands, arithmetic, quotes with escapes.

use super::{Lexed, Lexer, Until};
use crate::ast::{Param, ParamOp, Part, is_name};
use std::rc::Rc;

/// Maximum depth at which `$((` may be parsed twice: each level doubles the work.
const SECOND_LOOK: u32 = 6;

impl Lexer {
    /// Parses what follows `$`.
    pub(super) fn dollar(&mut self, quoted: bool) -> Lexed<Part> {
        match self.peek() {
            Some('{') => {
                self.next();
                self.deeper(|l| l.braced(quoted))
            }
            Some('(') => {
                self.next();
                self.deeper(Self::parenthesis)
            }
            Some('\'') if !quoted => {
                self.next();
                self.ansi()
            }
            Some(c) if c.is_ascii_digit() || is_special(c) => {
                self.next();
                Ok(plain(c.to_string()))
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => Ok(plain(self.name())),
            // A literal `$`. As plain text it could combine with what comes next.
            _ => Ok(Part::Quoted("$".to_string())),
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
            self.next();
        }
        name
    }

    /// Parses what follows `$(`: arithmetic if it is valid, else commands.
    fn parenthesis(&mut self) -> Lexed<Part> {
        let (at, line, pending) = (self.at, self.line, self.pending.len());
        if self.eat('(') {
            match self.until(Until::Arithmetic) {
                Ok(parts) => return Ok(Part::Arithmetic(parts)),
                Err(error) if error.incomplete || self.depth > SECOND_LOOK => return Err(error),
                // `$((a); b)`: commands that begin with a subshell.
                Err(_) => {
                    (self.at, self.line) = (at, line);
                    self.pending.truncate(pending);
                }
            }
        }
        let list = (self.nested.inner)(self)?;
        Ok(Part::Command(Rc::new(list)))
    }

    /// Parses what follows `$'`.
    fn ansi(&mut self) -> Lexed<Part> {
        let mut raw = String::new();
        loop {
            match self.next() {
                Some('\'') => {
                    let bytes = crate::escape::unescape(&raw, crate::escape::Kind::Dollar).bytes;
                    return Ok(Part::Quoted(String::from_utf8_lossy(&bytes).into_owned()));
                }
                Some('\\') => {
                    raw.push('\\');
                    raw.extend(self.next());
                }
                Some(c) => raw.push(c),
                None => return self.unfinished("a closing '"),
            }
        }
    }

    /// Parses what follows `${`.
    fn braced(&mut self, quoted: bool) -> Lexed<Part> {
        if self.peek() == Some('#') && self.peek_at(1) != Some('}') {
            let ahead = self.peek_at(1);
            let counts = ahead.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
                || (ahead.is_some_and(is_special) && self.peek_at(2) == Some('}'));
            if counts {
                self.next();
                let name = self.parameter()?;
                if !self.eat('}') {
                    return self.bad_parameter();
                }
                return Ok(Part::Param(Box::new(Param { name, op: ParamOp::Length })));
            }
        }
        let name = self.parameter()?;
        let op = self.operation(if quoted { Until::QuotedBrace } else { Until::Brace })?;
        Ok(Part::Param(Box::new(Param { name, op })))
    }

    fn bad_parameter<T>(&self) -> Lexed<T> {
        match self.peek() {
            None => self.unfinished("}"),
            Some(_) => self.wrong("bad substitution"),
        }
    }

    fn parameter(&mut self) -> Lexed<String> {
        match self.peek() {
            Some(c) if c.is_ascii_digit() => {
                let name = self.name();
                let good = name.bytes().all(|b| b.is_ascii_digit()) && name.len() <= 6;
                if good { Ok(name) } else { self.wrong("bad substitution") }
            }
            Some(c) if is_special(c) => {
                self.next();
                Ok(c.to_string())
            }
            _ => {
                let name = self.name();
                if is_name(&name) { Ok(name) } else { self.bad_parameter() }
            }
        }
    }

    /// Parses what follows the name, through `}`.
    fn operation(&mut self, end: Until) -> Lexed<ParamOp> {
        if self.eat('}') {
            return Ok(ParamOp::Plain);
        }
        let colon = self.eat(':');
        let Some(c) = self.next() else { return self.unfinished("}") };
        let twice = matches!(c, '#' | '%') && !colon && self.eat(c);
        // Patterns have quotes of their own, even inside double quotes.
        let end = if matches!(c, '#' | '%') { Until::Brace } else { end };
        if colon && !matches!(c, '-' | '=' | '?' | '+') {
            return self.wrong("bad substitution");
        }
        match c {
            '-' => Ok(ParamOp::Default { colon, word: self.until(end)? }),
            '=' => Ok(ParamOp::Assign { colon, word: self.until(end)? }),
            '?' => Ok(ParamOp::Error { colon, word: self.until(end)? }),
            '+' => Ok(ParamOp::Instead { colon, word: self.until(end)? }),
            '#' => Ok(ParamOp::Prefix { longest: twice, pattern: self.until(end)? }),
            '%' => Ok(ParamOp::Suffix { longest: twice, pattern: self.until(end)? }),
            _ => self.wrong("bad substitution"),
        }
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '@' | '*' | '#' | '?' | '-' | '$' | '!')
}

fn plain(name: String) -> Part {
    Part::Param(Box::new(Param { name, op: ParamOp::Plain }))
}

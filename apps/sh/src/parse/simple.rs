//! Simple commands, functions, redirections.

use super::{Parsed, Parser, RESERVED};
use crate::ast::{Command, Part, Redirect, Redirected, Simple, Target, Word, is_name, literal};
use crate::lex::{Pending, Token};
use std::cell::OnceCell;
use std::rc::Rc;

impl Parser {
    /// Parses assignments, words and redirections, or a function definition.
    pub(super) fn simple(&mut self) -> Parsed<Redirected> {
        let (line, mut simple, mut redirects) = (self.line(), Simple::default(), Vec::new());
        loop {
            if let Some(redirect) = self.redirect()? {
                redirects.push(redirect);
                continue;
            }
            let Token::Word(word) = self.peek()? else { break };
            let word = word.clone();
            self.ahead = None;
            match assignment(&word) {
                Some(assign) if simple.words.is_empty() => simple.assigns.push(assign),
                _ => simple.words.push(word),
            }
            let first = simple.words.len() == 1 && simple.assigns.is_empty();
            if first && redirects.is_empty() && self.is_op("(")? {
                return self.function(&simple, line);
            }
        }
        if simple == Simple::default() && redirects.is_empty() {
            return self.unexpected();
        }
        Ok(Redirected { command: Command::Simple(simple), redirects, line })
    }

    fn function(&mut self, simple: &Simple, line: u32) -> Parsed<Redirected> {
        let name = simple.words.first().and_then(|word| literal(word)).unwrap_or_default();
        let good = !name.is_empty() && !name.contains(['/', '=']);
        if !good || RESERVED.contains(&name) {
            return self.unexpected();
        }
        let name = name.to_string();
        self.expect_op("(")?;
        self.expect_op(")")?;
        self.newlines()?;
        let body = self.lexer_deeper(|p| p.command())?;
        if matches!(body.command, Command::Simple(_)) {
            return self.lexer.wrong("a function's body is { } or another compound command");
        }
        let command = Command::Function { name, body: Rc::new(body) };
        Ok(Redirected { command, redirects: Vec::new(), line })
    }

    pub(super) fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        let number = match self.peek()? {
            Token::Number(number) => Some(*number),
            Token::Op("<" | ">" | ">>" | "<<" | "<<-" | "<&" | ">&" | "<>" | ">|") => None,
            _ => return Ok(None),
        };
        if number.is_some() {
            self.ahead = None;
        }
        let Token::Op(op) = self.take()? else { return self.unexpected() };
        let Token::Word(word) = self.peek()?.clone() else { return self.unexpected() };
        // A here-document must be announced before the end of the line is read.
        self.ahead = None;
        let target = match op {
            "<" => Target::Read(word),
            ">" => Target::Write { word, clobber: false },
            ">|" => Target::Write { word, clobber: true },
            ">>" => Target::Append(word),
            "<>" => Target::ReadWrite(word),
            "<&" => Target::Copy { word, write: false },
            ">&" => Target::Copy { word, write: true },
            _ => self.here(&word, op == "<<-"),
        };
        Ok(Some(Redirect { number, target }))
    }

    fn here(&mut self, word: &Word, strip: bool) -> Target {
        let quoted = word.iter().any(|p| !matches!(p, Part::Literal(_)));
        let text = Rc::new(OnceCell::new());
        let end = crate::print::unquoted(word);
        self.lexer.pending.push(Pending { end, strip, quoted, text: text.clone() });
        Target::Here { text, quoted }
    }
}

/// Parses `NAME=VALUE`.
pub(crate) fn assignment(word: &Word) -> Option<(String, Word)> {
    let Some(Part::Literal(text)) = word.first() else { return None };
    let (name, value) = text.split_once('=')?;
    if !is_name(name) {
        return None;
    }
    let mut rest = Word::new();
    if !value.is_empty() {
        rest.push(Part::Literal(value.to_string()));
    }
    rest.extend(word.iter().skip(1).cloned());
    Some((name.to_string(), rest))
}

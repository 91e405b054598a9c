//! The parser: from tokens to the tree, one complete command at a time.
//!
//! Every text yields a tree or a [`ParseError`]; nothing panics, and no recursion exceeds
//! [`crate::lex::DEPTH`].

mod simple;

use crate::ast::{AndOr, Arm, Command, Join, List, Pipeline, Redirected, Simple, is_name, literal};
use crate::error::ParseError;
use crate::lex::{Aliases, Lexer, Nested, Token};

pub(crate) use simple::assignment;

type Parsed<T> = Result<T, ParseError>;

/// Reserved words, recognised where a command begins.
const RESERVED: &[&str] = &[
    "!", "{", "}", "if", "then", "elif", "else", "fi", "for", "in", "do", "done", "while", "until",
    "case", "esac",
];
/// Maximum alias replacements in one command.
const ALIASES: u32 = 64;

/// A parser of one script.
pub(crate) struct Parser {
    lexer: Lexer,
    /// The next token, its start, and its line.
    ahead: Option<(Token, usize, u32)>,
    aliased: u32,
    /// Aliases are not replaced before these positions: the text there is the replacement of that
    /// alias.
    replaced: Vec<(usize, String)>,
}

/// The functions that the lexer calls for commands within words.
const NESTED: Nested = Nested { all, inner };

/// Parses a whole text.
fn all(lexer: Lexer) -> Parsed<List> {
    let mut parser = Parser::on(lexer);
    let mut list = List::new();
    while let Some(mut more) = parser.command_line()? {
        list.append(&mut more);
    }
    Ok(list)
}

/// Parses commands through the `)` that ends them.
fn inner(lexer: &mut Lexer) -> Parsed<List> {
    let aliases = lexer.aliases.clone();
    let own = std::mem::replace(lexer, Lexer::new("", aliases, NESTED));
    let mut parser = Parser::on(own);
    let result = parser.list(&[]).and_then(|list| {
        parser.expect_op(")")?;
        Ok(list)
    });
    *lexer = parser.lexer;
    result
}

impl Parser {
    /// Creates a parser of `text`.
    pub fn new(text: &str, aliases: Aliases) -> Parser {
        Parser::on(Lexer::new(text, aliases, NESTED))
    }

    fn on(lexer: Lexer) -> Parser {
        Parser { lexer, ahead: None, aliased: 0, replaced: Vec::new() }
    }

    /// Sets the aliases for what is read next.
    pub fn set_aliases(&mut self, aliases: Aliases) {
        self.lexer.aliases = aliases;
    }

    /// Parses the next line of commands, with all lines that belong to it; `None` at the end.
    pub fn command_line(&mut self) -> Parsed<Option<List>> {
        self.aliased = 0;
        while *self.peek()? == Token::Newline {
            self.take()?;
        }
        if *self.peek()? == Token::End {
            return Ok(None);
        }
        let mut list = List::new();
        loop {
            list.push(self.and_or()?);
            match self.peek()? {
                Token::Newline => {
                    // The next line must be read only after this one has run.
                    self.ahead = None;
                    return Ok(Some(list));
                }
                Token::End => return self.finished().map(|()| Some(list)),
                Token::Op(";" | "&") => {
                    self.separator(&mut list)?;
                    match self.peek()? {
                        Token::End => return self.finished().map(|()| Some(list)),
                        Token::Newline => {
                            self.ahead = None;
                            return Ok(Some(list));
                        }
                        _ => {}
                    }
                }
                _ => return self.unexpected(),
            }
        }
    }

    /// Checks that no here-document is missing at the end of the text.
    fn finished(&self) -> Parsed<()> {
        match self.lexer.pending.first() {
            None => Ok(()),
            Some(p) => Err(ParseError {
                line: self.lexer.line,
                what: format!("the text ends before {}", p.end),
                incomplete: true,
            }),
        }
    }

    fn peek(&mut self) -> Parsed<&Token> {
        if self.ahead.is_none() {
            let (at, line) = (self.lexer.position(), self.lexer.line);
            let token = self.lexer.token()?;
            self.ahead = Some((token, at, line));
        }
        Ok(self.ahead.as_ref().map_or(&Token::End, |(token, _, _)| token))
    }

    fn take(&mut self) -> Parsed<Token> {
        self.peek()?;
        Ok(self.ahead.take().map_or(Token::End, |(token, _, _)| token))
    }

    fn line(&self) -> u32 {
        self.ahead.as_ref().map_or(self.lexer.line, |(_, _, line)| *line)
    }

    fn unexpected<T>(&mut self) -> Parsed<T> {
        let line = self.line();
        let what = match self.peek()? {
            Token::End => {
                let what = "the text ends in the middle of a command".to_string();
                return Err(ParseError { line, what, incomplete: true });
            }
            Token::Newline => "unexpected end of line".to_string(),
            Token::Op(op) => format!("unexpected `{op}`"),
            Token::Number(n) => format!("unexpected `{n}`"),
            Token::Word(word) => format!("unexpected `{}`", crate::print::word(word)),
        };
        Err(ParseError { line, what, incomplete: false })
    }

    fn is_op(&mut self, op: &str) -> Parsed<bool> {
        Ok(matches!(self.peek()?, Token::Op(found) if *found == op))
    }

    fn eat_op(&mut self, op: &str) -> Parsed<bool> {
        let there = self.is_op(op)?;
        if there {
            self.ahead = None;
        }
        Ok(there)
    }

    fn expect_op(&mut self, op: &str) -> Parsed<()> {
        if self.eat_op(op)? { Ok(()) } else { self.unexpected() }
    }

    /// Returns the reserved word that comes next.
    fn reserved(&mut self) -> Parsed<Option<&'static str>> {
        let Token::Word(word) = self.peek()? else { return Ok(None) };
        let Some(text) = literal(word) else { return Ok(None) };
        Ok(RESERVED.iter().find(|r| **r == text).copied())
    }

    fn eat_reserved(&mut self, word: &str) -> Parsed<bool> {
        let there = self.reserved()? == Some(word);
        if there {
            self.ahead = None;
        }
        Ok(there)
    }

    fn expect_reserved(&mut self, word: &str) -> Parsed<()> {
        if self.eat_reserved(word)? { Ok(()) } else { self.unexpected() }
    }

    fn newlines(&mut self) -> Parsed<()> {
        while *self.peek()? == Token::Newline {
            self.ahead = None;
        }
        Ok(())
    }

    /// Parses `;` or `&` after the last command of `list`.
    fn separator(&mut self, list: &mut List) -> Parsed<()> {
        let background = matches!(self.take()?, Token::Op("&"));
        if let Some(last) = list.last_mut() {
            last.background = background;
        }
        Ok(())
    }

    /// Parses commands up to one of the reserved words, `)` or `;;`, which are not consumed.
    fn list(&mut self, ends: &[&str]) -> Parsed<List> {
        let mut list = List::new();
        loop {
            self.newlines()?;
            if self.at_end(ends)? {
                return Ok(list);
            }
            list.push(self.and_or()?);
            let separated = match self.peek()? {
                Token::Newline => continue,
                Token::Op(";" | "&") => true,
                _ => false,
            };
            if separated {
                self.separator(&mut list)?;
            } else if self.at_end(ends)? {
                return Ok(list);
            } else {
                return self.unexpected();
            }
        }
    }

    fn at_end(&mut self, ends: &[&str]) -> Parsed<bool> {
        if matches!(self.peek()?, Token::Op(")" | ";;" | ";&")) {
            return Ok(true);
        }
        Ok(self.reserved()?.is_some_and(|word| ends.contains(&word)))
    }

    /// Does the same, and requires at least one command.
    fn body(&mut self, ends: &[&str]) -> Parsed<List> {
        let list = self.lexer_deeper(|p| p.list(ends))?;
        if list.is_empty() { self.unexpected() } else { Ok(list) }
    }

    fn lexer_deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.lexer.depth >= crate::lex::DEPTH {
            return self.lexer.wrong("too many levels within each other");
        }
        self.lexer.depth += 1;
        let result = inner(self);
        self.lexer.depth = self.lexer.depth.saturating_sub(1);
        result
    }

    fn and_or(&mut self) -> Parsed<AndOr> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            let join = match self.peek()? {
                Token::Op("&&") => Join::And,
                Token::Op("||") => Join::Or,
                _ => return Ok(AndOr { first, rest, background: false }),
            };
            self.ahead = None;
            self.newlines()?;
            rest.push((join, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Parsed<Pipeline> {
        let (mut negated, mut timed) = (false, false);
        loop {
            if self.eat_reserved("!")? {
                negated = !negated;
            } else if matches!(self.peek()?, Token::Word(w) if literal(w) == Some("time")) {
                self.ahead = None;
                timed = true;
            } else {
                break;
            }
        }
        let nothing = matches!(self.peek()?, Token::Newline | Token::End | Token::Op(";" | ")"));
        if timed && nothing {
            let line = self.line();
            let command = Command::Simple(Simple::default());
            let commands = vec![Redirected { command, redirects: Vec::new(), line }];
            return Ok(Pipeline { negated, timed, commands });
        }
        let mut commands = vec![self.command()?];
        while self.eat_op("|")? {
            self.newlines()?;
            commands.push(self.command()?);
        }
        Ok(Pipeline { negated, timed, commands })
    }

    fn command(&mut self) -> Parsed<Redirected> {
        self.alias()?;
        let line = self.line();
        let command = match self.reserved()? {
            Some("{") => self.group()?,
            Some("if") => self.branches()?,
            Some(word @ ("while" | "until")) => self.repeat(word == "until")?,
            Some("for") => self.each()?,
            Some("case") => self.case()?,
            Some(_) => return self.unexpected(),
            None if self.is_op("(")? => self.subshell()?,
            None => return self.simple(),
        };
        let mut redirects = Vec::new();
        while let Some(redirect) = self.redirect()? {
            redirects.push(redirect);
        }
        Ok(Redirected { command, redirects, line })
    }

    /// Replaces an alias where a command begins. An alias within its own replacement stays.
    fn alias(&mut self) -> Parsed<()> {
        while self.aliased < ALIASES && !self.lexer.aliases.is_empty() {
            self.peek()?;
            let Some((Token::Word(word), at, _)) = &self.ahead else { return Ok(()) };
            let (Some(name), at) = (literal(word), *at) else { return Ok(()) };
            self.replaced.retain(|(end, _)| at < *end);
            let within = self.replaced.iter().any(|(_, inner)| inner == name);
            let Some(text) = self.lexer.aliases.get(name).filter(|_| !within) else {
                return Ok(());
            };
            let (name, text) = (name.to_string(), format!(" {text} "));
            self.ahead = None;
            self.aliased += 1;
            let end = self.lexer.replace(at, &text);
            let grown = end.saturating_sub(at);
            self.replaced.iter_mut().for_each(|(e, _)| *e = e.saturating_add(grown));
            self.replaced.push((end, name));
        }
        Ok(())
    }

    fn group(&mut self) -> Parsed<Command> {
        self.expect_reserved("{")?;
        let list = self.body(&["}"])?;
        self.expect_reserved("}")?;
        Ok(Command::Group(list))
    }

    fn subshell(&mut self) -> Parsed<Command> {
        self.expect_op("(")?;
        let list = self.body(&[])?;
        self.expect_op(")")?;
        Ok(Command::Subshell(list))
    }

    fn branches(&mut self) -> Parsed<Command> {
        self.expect_reserved("if")?;
        let (mut branches, mut otherwise) = (Vec::new(), None);
        loop {
            let condition = self.body(&["then"])?;
            self.expect_reserved("then")?;
            let body = self.body(&["elif", "else", "fi"])?;
            branches.push((condition, body));
            if self.eat_reserved("elif")? {
                continue;
            }
            if self.eat_reserved("else")? {
                otherwise = Some(self.body(&["fi"])?);
            }
            self.expect_reserved("fi")?;
            return Ok(Command::If { branches, otherwise });
        }
    }

    fn repeat(&mut self, until: bool) -> Parsed<Command> {
        self.ahead = None;
        let condition = self.body(&["do"])?;
        let body = self.do_group()?;
        Ok(Command::Loop { until, condition, body })
    }

    fn do_group(&mut self) -> Parsed<List> {
        self.expect_reserved("do")?;
        let body = self.body(&["done"])?;
        self.expect_reserved("done")?;
        Ok(body)
    }

    fn each(&mut self) -> Parsed<Command> {
        self.expect_reserved("for")?;
        let Token::Word(word) = self.peek()?.clone() else { return self.unexpected() };
        let Some(name) = literal(&word).filter(|n| is_name(n)).map(str::to_string) else {
            return self.unexpected();
        };
        self.ahead = None;
        self.newlines()?;
        let mut words = None;
        if self.eat_reserved("in")? {
            let mut found = Vec::new();
            while let Token::Word(word) = self.peek()? {
                found.push(word.clone());
                self.ahead = None;
            }
            words = Some(found);
            if !self.eat_op(";")? && *self.peek()? != Token::Newline {
                return self.unexpected();
            }
        } else {
            self.eat_op(";")?;
        }
        self.newlines()?;
        let body = self.do_group()?;
        Ok(Command::For { name, words, body })
    }

    fn case(&mut self) -> Parsed<Command> {
        self.expect_reserved("case")?;
        let Token::Word(word) = self.take()? else { return self.unexpected() };
        self.newlines()?;
        self.expect_reserved("in")?;
        let mut arms = Vec::new();
        loop {
            self.newlines()?;
            if self.eat_reserved("esac")? {
                return Ok(Command::Case { word, arms });
            }
            self.eat_op("(")?;
            let mut patterns = Vec::new();
            loop {
                let Token::Word(pattern) = self.peek()? else { return self.unexpected() };
                patterns.push(pattern.clone());
                self.ahead = None;
                if !self.eat_op("|")? {
                    break;
                }
            }
            self.expect_op(")")?;
            let body = self.lexer_deeper(|p| p.list(&["esac"]))?;
            let falls = self.eat_op(";&")?;
            let ended = falls || self.eat_op(";;")?;
            arms.push(Arm { patterns, body, falls });
            if !ended {
                self.expect_reserved("esac")?;
                return Ok(Command::Case { word, arms });
            }
        }
    }
}

//! Expansion of words: parameters, command substitution, arithmetic; then field splitting, then
//! path names.

mod fields;

use crate::arith;
use crate::ast::{Param, ParamOp, Part, Word};
use crate::pattern::Pattern;
use crate::shell::{Shell, Stop};
use crate::system::System;
use fields::{Item, Mark, fields, plain, read_fields, text};

/// Value of a parameter.
enum Value {
    Unset,
    One(String),
    /// `$@` and `$*`.
    Many(Vec<String>),
}

/// Context of a word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Inside double quotes.
    quoted: bool,
    /// No field splitting: `$@` is one text.
    whole: bool,
}

type Expanded<T> = Result<T, Stop>;

impl<S: System> Shell<S> {
    /// Expands the words of a command, each to any number of fields.
    pub(crate) fn expand(&mut self, words: &[Word]) -> Expanded<Vec<String>> {
        let mut fields = Vec::new();
        for word in words {
            self.expand_word(word, &mut fields)?;
        }
        Ok(fields)
    }

    fn expand_word(&mut self, word: &Word, into: &mut Vec<String>) -> Expanded<()> {
        // Fast path for the most frequent case.
        if let [Part::Literal(text)] = word.as_slice()
            && !text.contains(['*', '?', '[', '~', '\\'])
        {
            into.push(text.clone());
            return Ok(());
        }
        let items = self.items(word, false)?;
        let ifs = self.separators();
        for field in fields(&items, &ifs) {
            if self.state.options.has('f') {
                into.push(text(&field));
            } else {
                self.names(&field, into);
            }
        }
        Ok(())
    }

    /// Expands a word to one text: in an assignment, a redirection, a `case`.
    pub(crate) fn expand_one(&mut self, word: &Word) -> Expanded<String> {
        let mut items = Vec::new();
        let place = Place { quoted: false, whole: true };
        self.tilde_and_parts(word, place, false, &mut items)?;
        Ok(text(&plain(&items)))
    }

    /// Does the same for the value of an assignment, where `~` is expanded after each `:` too.
    pub(crate) fn expand_value(&mut self, word: &Word) -> Expanded<String> {
        let mut items = Vec::new();
        let place = Place { quoted: false, whole: true };
        self.tilde_and_parts(word, place, true, &mut items)?;
        Ok(text(&plain(&items)))
    }

    /// Expands a word to a pattern.
    pub(crate) fn expand_pattern(&mut self, word: &Word) -> Expanded<Pattern> {
        let mut items = Vec::new();
        let place = Place { quoted: false, whole: true };
        self.tilde_and_parts(word, place, false, &mut items)?;
        Ok(Pattern::new(&plain(&items)))
    }

    /// Expands parameters in a text that is not a word of a script, such as a prompt.
    pub(crate) fn expand_text(&mut self, text: &str) -> Option<String> {
        let quoted = format!(": \"{}\"", text.replace('"', "\\\""));
        let mut parser = crate::parse::Parser::new(&quoted, Default::default());
        let list = parser.command_line().ok()??;
        let crate::ast::Command::Simple(simple) = &list.first()?.only()?.command else {
            return None;
        };
        self.expand_one(simple.words.get(1)?).ok()
    }

    fn items(&mut self, word: &Word, whole: bool) -> Expanded<Vec<Item>> {
        let mut items = Vec::new();
        self.tilde_and_parts(word, Place { quoted: false, whole }, false, &mut items)?;
        Ok(items)
    }

    /// Expands a leading `~` to the home directory.
    fn tilde_and_parts(
        &mut self,
        word: &Word,
        place: Place,
        colons: bool,
        out: &mut Vec<Item>,
    ) -> Expanded<()> {
        for (index, part) in word.iter().enumerate() {
            let Part::Literal(text) = part else {
                self.part(part, place, Mark::Plain, out)?;
                continue;
            };
            let more = index + 1 < word.len();
            let mut start = index == 0;
            let pieces: Vec<&str> =
                if colons { text.split(':').collect() } else { vec![text.as_str()] };
            let last = pieces.len().saturating_sub(1);
            for (at, piece) in pieces.iter().enumerate() {
                if at > 0 {
                    out.push(Item::Char(':', Mark::Plain));
                    start = true;
                }
                let rest = piece.strip_prefix('~').filter(|rest| {
                    start && (rest.starts_with('/') || rest.is_empty() && (at < last || !more))
                });
                let home = self.state.variables.get("HOME").map(str::to_string);
                match (rest, home) {
                    (Some(rest), Some(home)) => {
                        push(out, &home, Mark::Quoted);
                        push(out, rest, Mark::Plain);
                    }
                    _ => push(out, piece, Mark::Plain),
                }
            }
        }
        Ok(())
    }

    fn part(
        &mut self,
        part: &Part,
        place: Place,
        plain: Mark,
        out: &mut Vec<Item>,
    ) -> Expanded<()> {
        let (literal, found) =
            if place.quoted { (Mark::Quoted, Mark::Quoted) } else { (plain, Mark::Split) };
        match part {
            Part::Literal(text) => push(out, text, literal),
            Part::Quoted(text) => {
                out.push(Item::Empty);
                push(out, text, Mark::Quoted);
            }
            Part::Double(parts) => {
                let before = out.len();
                let place = Place { quoted: true, ..place };
                for part in parts {
                    self.part(part, place, Mark::Quoted, out)?;
                }
                // `"$@"` without parameters expands to nothing.
                let nothing = out.len() == before && !parts.is_empty() && parts.iter().all(is_all);
                if !nothing {
                    out.insert(before, Item::Empty);
                }
            }
            Part::Param(param) => self.param(param, place, out)?,
            Part::Command(list) => {
                let bytes = self.capture(list)?;
                let output = String::from_utf8_lossy(&bytes).replace('\0', "");
                push(out, output.trim_end_matches('\n'), found);
            }
            Part::Arithmetic(parts) => {
                let mut inner = Vec::new();
                for part in parts {
                    let place = Place { quoted: true, whole: true };
                    self.part(part, place, Mark::Quoted, &mut inner)?;
                }
                let text = text(&self::plain(&inner));
                let value = self.arithmetic(&text)?;
                push(out, &value.to_string(), found);
            }
        }
        Ok(())
    }

    pub(crate) fn arithmetic(&mut self, text: &str) -> Expanded<i64> {
        if self.state.options.has('u') && crate::ast::is_name(text.trim()) {
            self.value(text.trim(), true)?;
        }
        arith::evaluate(text, &mut self.state.variables).or_else(|why| self.wrong(&why))
    }

    /// Reports an expansion error, which ends the command.
    fn wrong<T>(&mut self, why: &str) -> Expanded<T> {
        self.say(why);
        self.state.status = 2;
        Err(Stop::Abort(2))
    }

    fn param(&mut self, param: &Param, place: Place, out: &mut Vec<Item>) -> Expanded<()> {
        let strict = !matches!(
            param.op,
            ParamOp::Default { .. }
                | ParamOp::Assign { .. }
                | ParamOp::Error { .. }
                | ParamOp::Instead { .. }
        );
        let value = self.value(&param.name, strict)?;
        match &param.op {
            ParamOp::Plain => self.show(&param.name, value, place, out),
            ParamOp::Length => {
                let length = match &value {
                    Value::Unset => 0,
                    Value::One(text) => text.chars().count(),
                    Value::Many(all) => all.len(),
                };
                self.show("", Value::One(length.to_string()), place, out);
            }
            ParamOp::Default { colon, word } => match missing(&value, *colon) {
                true => return self.instead(word, place, out),
                false => self.show(&param.name, value, place, out),
            },
            ParamOp::Instead { colon, word } => {
                if !missing(&value, *colon) {
                    return self.instead(word, place, out);
                }
            }
            ParamOp::Assign { colon, word } => {
                let mut value = value;
                if missing(&value, *colon) {
                    let text = self.expand_one(word)?;
                    self.assign(&param.name, &text)?;
                    value = Value::One(text);
                }
                self.show(&param.name, value, place, out);
            }
            ParamOp::Error { colon, word } => {
                if missing(&value, *colon) {
                    let mut why = self.expand_one(word)?;
                    if why.is_empty() {
                        why = "parameter not set".to_string();
                    }
                    return self.wrong(&format!("{}: {why}", param.name));
                }
                self.show(&param.name, value, place, out);
            }
            ParamOp::Prefix { longest, pattern } => {
                let pattern = self.expand_pattern(pattern)?;
                let cut = |text: &str| cut_prefix(text, &pattern, *longest);
                self.show(&param.name, mapped(value, cut), place, out);
            }
            ParamOp::Suffix { longest, pattern } => {
                let pattern = self.expand_pattern(pattern)?;
                let cut = |text: &str| cut_suffix(text, &pattern, *longest);
                self.show(&param.name, mapped(value, cut), place, out);
            }
        }
        Ok(())
    }

    /// Expands the word that replaces a parameter; outside of quotes it is subject to field
    /// splitting.
    fn instead(&mut self, word: &Word, place: Place, out: &mut Vec<Item>) -> Expanded<()> {
        for part in word {
            self.part(part, place, Mark::Split, out)?;
        }
        Ok(())
    }

    /// Assigns to a variable; respects `set -a` and read-only variables.
    pub(crate) fn assign(&mut self, name: &str, value: &str) -> Expanded<()> {
        if !crate::ast::is_name(name) {
            return self.wrong(&format!("{name}: cannot be assigned to"));
        }
        if let Err(why) = self.state.variables.set(name, value) {
            return self.wrong(&why);
        }
        if self.state.options.has('a') {
            self.state.variables.export(name);
        }
        if name == "OPTIND" {
            self.state.option_at = 0;
        }
        Ok(())
    }

    fn value(&mut self, name: &str, strict: bool) -> Expanded<Value> {
        let one = |text: String| Ok(Value::One(text));
        match name {
            "@" | "*" => return Ok(Value::Many(self.state.arguments.clone())),
            "#" => return one(self.state.arguments.len().to_string()),
            "?" => return one(self.state.status.to_string()),
            "$" => return one(self.state.pid.to_string()),
            "-" => return one(self.state.options.letters()),
            "0" => return one(self.state.name.clone()),
            "LINENO" => return one(self.state.line.to_string()),
            "RANDOM" => {
                let number = self.system.random() & 0x7fff;
                return one(number.to_string());
            }
            _ => {}
        }
        let value = match (name, name.parse::<usize>()) {
            ("!", _) => self.state.background.map(|pid| pid.to_string()),
            (_, Ok(at)) => self.state.arguments.get(at.wrapping_sub(1)).cloned(),
            _ => self.state.variables.get(name).map(str::to_string),
        };
        match value {
            Some(text) => Ok(Value::One(text)),
            None if strict && self.state.options.has('u') => {
                self.wrong(&format!("{name}: parameter not set"))
            }
            None => Ok(Value::Unset),
        }
    }

    /// Appends a parameter's value.
    fn show(&mut self, name: &str, value: Value, place: Place, out: &mut Vec<Item>) {
        let mark = if place.quoted { Mark::Quoted } else { Mark::Split };
        let all = match value {
            Value::Unset => return,
            Value::One(text) => return push(out, &text, mark),
            Value::Many(all) => all,
        };
        if place.whole || (place.quoted && name == "*") {
            let ifs = self.state.variables.get("IFS");
            let space = if name == "@" { Some(' ') } else { ifs.unwrap_or(" ").chars().next() };
            for (index, text) in all.iter().enumerate() {
                if index > 0 {
                    out.extend(space.map(|c| Item::Char(c, mark)));
                }
                push(out, text, mark);
            }
            return;
        }
        for (index, text) in all.iter().enumerate() {
            if index > 0 {
                out.push(Item::Break);
            }
            if place.quoted {
                out.push(Item::Empty);
            }
            push(out, text, mark);
        }
    }

    fn separators(&self) -> String {
        self.state.variables.get("IFS").unwrap_or(" \t\n").to_string()
    }

    /// Splits a text by `IFS` into at most `most` fields; the last one holds the rest.
    pub(crate) fn cut(&self, text: &[(char, bool)], most: usize) -> Vec<String> {
        read_fields(text, &self.separators(), most)
    }
}

fn is_all(part: &Part) -> bool {
    matches!(part, Part::Param(param) if param.name == "@")
}

fn push(out: &mut Vec<Item>, text: &str, mark: Mark) {
    out.extend(text.chars().map(|c| Item::Char(c, mark)));
}

fn missing(value: &Value, colon: bool) -> bool {
    match value {
        Value::Unset => true,
        Value::One(text) => colon && text.is_empty(),
        Value::Many(all) => all.is_empty() || (colon && all.iter().all(String::is_empty)),
    }
}

fn mapped(value: Value, change: impl Fn(&str) -> String) -> Value {
    match value {
        Value::Unset => Value::Unset,
        Value::One(text) => Value::One(change(&text)),
        Value::Many(all) => Value::Many(all.iter().map(|text| change(text)).collect()),
    }
}

fn cut_prefix(text: &str, pattern: &Pattern, longest: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let cut = pattern.prefix(&chars, longest).unwrap_or(0);
    chars.iter().skip(cut).collect()
}

fn cut_suffix(text: &str, pattern: &Pattern, longest: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let cut = pattern.suffix(&chars, longest).unwrap_or(0);
    chars.iter().take(chars.len().saturating_sub(cut)).collect()
}

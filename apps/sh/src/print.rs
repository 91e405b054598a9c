//! Converts the tree back to equivalent text: functions and commands for another shell, and titles
//! for `jobs`.

use crate::ast::{
    AndOr, Command, Join, List, Param, ParamOp, Part, Pipeline, Redirect, Redirected, Simple,
    Target, Word,
};

/// The context of a part, which decides how it is quoted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Outside of quotes, between blanks.
    Bare,
    /// In the `{ }` of an expansion outside of double quotes.
    Brace,
    /// In double quotes, or an expression.
    Quote,
    /// In the `{ }` of an expansion inside of double quotes.
    QuotedBrace,
    /// In a here-document.
    Document,
}

#[derive(Default)]
struct Printer {
    text: String,
    /// Here-documents of this line: end mark and text.
    pending: Vec<(String, String)>,
}

/// Prints a list, one command per line.
pub(crate) fn list(list: &List) -> String {
    let mut printer = Printer::default();
    printer.list(list);
    printer.text
}

/// Prints a command with its redirections; ends with a newline.
pub(crate) fn command(command: &Redirected) -> String {
    let mut printer = Printer::default();
    printer.redirected(command);
    printer.newline();
    printer.text
}

/// Prints a pipeline on one line, for people.
pub(crate) fn title(pipeline: &AndOr) -> String {
    let mut printer = Printer::default();
    printer.and_or(pipeline);
    let words: Vec<&str> = printer.text.split_whitespace().collect();
    words.join(" ")
}

/// Prints a word as it could appear in a script.
pub(crate) fn word(word: &Word) -> String {
    let mut printer = Printer::default();
    printer.parts(word, Place::Bare);
    printer.text
}

/// Returns a word's text without quotes.
pub(crate) fn unquoted(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Literal(more) | Part::Quoted(more) => text.push_str(more),
            Part::Double(inner) => text.push_str(&unquoted(inner)),
            other => text.push_str(&word(&vec![other.clone()])),
        }
    }
    text
}

/// Returns the text in single quotes.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

impl Printer {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Ends the line and prints its here-documents.
    fn newline(&mut self) {
        self.push("\n");
        for (end, text) in std::mem::take(&mut self.pending) {
            self.push(&text);
            self.push(&end);
            self.push("\n");
        }
    }

    fn list(&mut self, list: &List) {
        for item in list {
            self.and_or(item);
            if item.background {
                self.push(" &");
            }
            self.newline();
        }
    }

    /// Prints a list between two keywords, each on its own line.
    fn between(&mut self, open: &str, list: &List) {
        self.push(open);
        self.newline();
        self.list(list);
    }

    fn and_or(&mut self, item: &AndOr) {
        self.pipeline(&item.first);
        for (join, pipeline) in &item.rest {
            self.push(if *join == Join::And { " && " } else { " || " });
            self.pipeline(pipeline);
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        if pipeline.timed {
            self.push("time ");
        }
        if pipeline.negated {
            self.push("! ");
        }
        for (index, command) in pipeline.commands.iter().enumerate() {
            if index > 0 {
                self.push(" | ");
            }
            self.redirected(command);
        }
    }

    fn redirected(&mut self, command: &Redirected) {
        if let Command::Simple(simple) = &command.command {
            return self.simple(simple, &command.redirects);
        }
        self.compound(&command.command);
        for redirect in &command.redirects {
            self.push(" ");
            self.redirect(redirect);
        }
    }

    /// Prints redirections first if the first word would otherwise change its meaning; it then
    /// comes after them.
    fn simple(&mut self, simple: &Simple, redirects: &[Redirect]) {
        let start = self.text.len();
        let blank = |printer: &mut Printer| {
            if printer.text.len() > start {
                printer.push(" ");
            }
        };
        for redirect in redirects {
            blank(self);
            self.redirect(redirect);
        }
        for (name, value) in &simple.assigns {
            blank(self);
            self.push(name);
            self.push("=");
            self.parts(value, Place::Bare);
        }
        for word in &simple.words {
            blank(self);
            self.parts(word, Place::Bare);
        }
    }

    fn compound(&mut self, command: &Command) {
        match command {
            Command::Simple(simple) => self.simple(simple, &[]),
            Command::Group(list) => {
                self.between("{", list);
                self.push("}");
            }
            Command::Subshell(list) => {
                self.between("(", list);
                self.push(")");
            }
            Command::If { branches, otherwise } => self.branches(branches, otherwise.as_ref()),
            Command::Loop { until, condition, body } => {
                self.between(if *until { "until" } else { "while" }, condition);
                self.between("do", body);
                self.push("done");
            }
            Command::For { name, words, body } => {
                self.push("for ");
                self.push(name);
                if let Some(words) = words {
                    self.push(" in");
                    for word in words {
                        self.push(" ");
                        self.parts(word, Place::Bare);
                    }
                }
                self.newline();
                self.between("do", body);
                self.push("done");
            }
            Command::Case { word, arms } => {
                self.push("case ");
                self.parts(word, Place::Bare);
                self.push(" in");
                self.newline();
                for arm in arms {
                    self.arm(&arm.patterns, &arm.body, arm.falls);
                }
                self.push("esac");
            }
            Command::Function { name, body } => {
                self.push(name);
                self.push("() ");
                self.redirected(body);
            }
        }
    }

    fn branches(&mut self, branches: &[(List, List)], otherwise: Option<&List>) {
        for (index, (condition, body)) in branches.iter().enumerate() {
            self.between(if index == 0 { "if" } else { "elif" }, condition);
            self.between("then", body);
        }
        if let Some(body) = otherwise {
            self.between("else", body);
        }
        self.push("fi");
    }

    fn arm(&mut self, patterns: &[Word], body: &List, falls: bool) {
        self.push("(");
        for (index, pattern) in patterns.iter().enumerate() {
            if index > 0 {
                self.push(" | ");
            }
            self.parts(pattern, Place::Bare);
        }
        self.push(")");
        self.newline();
        self.list(body);
        self.push(if falls { ";&" } else { ";;" });
        self.newline();
    }

    fn redirect(&mut self, redirect: &Redirect) {
        if let Some(number) = redirect.number {
            self.push(&number.to_string());
        }
        let (op, word) = match &redirect.target {
            Target::Read(word) => ("< ", word),
            Target::Write { word, clobber: false } => ("> ", word),
            Target::Write { word, clobber: true } => (">| ", word),
            Target::Append(word) => (">> ", word),
            Target::ReadWrite(word) => ("<> ", word),
            Target::Copy { word, write: false } => ("<& ", word),
            Target::Copy { word, write: true } => (">& ", word),
            Target::Here { text, quoted } => {
                return self.here(text.get().map_or(&[], Vec::as_slice), *quoted);
            }
        };
        self.push(op);
        self.parts(word, Place::Bare);
    }

    fn here(&mut self, parts: &[Part], quoted: bool) {
        let body = if quoted {
            unquoted(parts)
        } else {
            let mut inner = Printer::default();
            for part in parts {
                match part {
                    Part::Double(parts) => inner.parts(parts, Place::Document),
                    other => inner.part(other, Place::Document),
                }
            }
            inner.text
        };
        let mut end = "EOF".to_string();
        while body.lines().any(|line| line == end) {
            end.push('_');
        }
        self.push("<< ");
        self.push(&if quoted { quote(&end) } else { end.clone() });
        self.pending.push((end, body));
    }

    fn parts(&mut self, parts: &[Part], place: Place) {
        parts.iter().for_each(|part| self.part(part, place));
    }

    fn part(&mut self, part: &Part, place: Place) {
        match part {
            Part::Literal(text) => self.push(text),
            Part::Quoted(text) if matches!(place, Place::Bare | Place::Brace) => {
                self.push(&quote(text));
            }
            Part::Quoted(text) => {
                for c in text.chars() {
                    if matches!(c, '$' | '`' | '\\')
                        || (c == '"' && place != Place::Document)
                        || (c == '}' && place == Place::QuotedBrace)
                    {
                        self.text.push('\\');
                    }
                    self.text.push(c);
                }
            }
            Part::Double(inner) => {
                self.push("\"");
                self.parts(inner, Place::Quote);
                self.push("\"");
            }
            Part::Param(param) => self.param(param, place),
            Part::Command(list) => {
                self.push("$(");
                self.newline();
                self.list(list);
                self.push(")");
            }
            Part::Arithmetic(inner) => {
                self.push("$((");
                self.parts(inner, Place::Quote);
                self.push("))");
            }
        }
    }

    fn param(&mut self, param: &Param, place: Place) {
        let bare = matches!(place, Place::Bare | Place::Brace);
        let inner = if bare { Place::Brace } else { Place::QuotedBrace };
        self.push("${");
        if param.op == ParamOp::Length {
            self.push("#");
        }
        self.push(&param.name);
        let colon = |colon: &bool| if *colon { ":" } else { "" };
        match &param.op {
            ParamOp::Plain | ParamOp::Length => {}
            ParamOp::Default { colon: c, word } => self.operation(colon(c), "-", word, inner),
            ParamOp::Assign { colon: c, word } => self.operation(colon(c), "=", word, inner),
            ParamOp::Error { colon: c, word } => self.operation(colon(c), "?", word, inner),
            ParamOp::Instead { colon: c, word } => self.operation(colon(c), "+", word, inner),
            ParamOp::Prefix { longest, pattern } => {
                self.operation("#", if *longest { "#" } else { "" }, pattern, Place::Brace);
            }
            ParamOp::Suffix { longest, pattern } => {
                self.operation("%", if *longest { "%" } else { "" }, pattern, Place::Brace);
            }
        }
        self.push("}");
    }

    fn operation(&mut self, first: &str, second: &str, word: &Word, place: Place) {
        self.push(first);
        self.push(second);
        self.parts(word, place);
    }
}

#[cfg(test)]
mod tests;

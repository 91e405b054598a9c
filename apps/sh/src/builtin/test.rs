//! `test` and `[`.

use crate::path;
use crate::shell::{Run, Shell, Slot};
use crate::system::{Stat, System};
use penumbra::Kind;

/// Maximum nesting of parentheses and `!`.
const DEPTH: u32 = 32;

const BINARY: &[&str] =
    &["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];

/// The result, or an error message.
type Answer = Result<bool, String>;

struct Reader<'a> {
    words: &'a [String],
    at: usize,
    depth: u32,
}

impl<S: System> Shell<S> {
    pub(super) fn test(&mut self, name: &str, arguments: &[String]) -> Run {
        let words = match (name, arguments.split_last()) {
            ("[", Some((last, words))) if last == "]" => words,
            ("[", _) => return self.misused("[", "] is missing"),
            _ => arguments,
        };
        match self.question(words) {
            Ok(answer) => Ok(u32::from(!answer)),
            Err(why) => self.misused(name, &why),
        }
    }

    /// Up to four words are interpreted by their number, as POSIX specifies; more are parsed as an
    /// expression.
    fn question(&mut self, words: &[String]) -> Answer {
        let texts: Vec<&str> = words.iter().map(String::as_str).collect();
        match texts.as_slice() {
            [] => Ok(false),
            [text] => Ok(!text.is_empty()),
            ["!", text] => Ok(text.is_empty()),
            [op, text] if is_unary(op) => self.unary(op, text),
            [left, op, right] if BINARY.contains(op) => self.binary(left, op, right),
            [left, "-a", right] => Ok(!left.is_empty() && !right.is_empty()),
            [left, "-o", right] => Ok(!left.is_empty() || !right.is_empty()),
            ["!", ..] if texts.len() <= 4 => {
                self.question(words.get(1..).unwrap_or_default()).map(|answer| !answer)
            }
            ["(", text, ")"] => Ok(!text.is_empty()),
            ["(", _, _, ")"] => self.question(words.get(1..3).unwrap_or_default()),
            [op, _] => Err(format!("{op}: unknown operator")),
            _ => {
                let mut reader = Reader { words, at: 0, depth: 0 };
                let answer = self.either(&mut reader)?;
                match reader.peek() {
                    None => Ok(answer),
                    Some(word) => Err(format!("{word}: unexpected")),
                }
            }
        }
    }

    fn either(&mut self, reader: &mut Reader<'_>) -> Answer {
        let mut answer = self.both(reader)?;
        while reader.eat("-o") {
            answer |= self.both(reader)?;
        }
        Ok(answer)
    }

    fn both(&mut self, reader: &mut Reader<'_>) -> Answer {
        let mut answer = self.single(reader)?;
        while reader.eat("-a") {
            answer &= self.single(reader)?;
        }
        Ok(answer)
    }

    fn single(&mut self, reader: &mut Reader<'_>) -> Answer {
        reader.depth += 1;
        if reader.depth > DEPTH {
            return Err("too many levels".to_string());
        }
        let answer = self.primary(reader);
        reader.depth = reader.depth.saturating_sub(1);
        answer
    }

    fn primary(&mut self, reader: &mut Reader<'_>) -> Answer {
        if let (Some(left), Some(op), Some(right)) = (reader.get(0), reader.get(1), reader.get(2))
            && BINARY.contains(&op)
        {
            reader.at += 3;
            return self.binary(left, op, right);
        }
        if reader.eat("!") {
            return self.single(reader).map(|answer| !answer);
        }
        if reader.eat("(") {
            let answer = self.either(reader)?;
            return if reader.eat(")") { Ok(answer) } else { Err(") is missing".to_string()) };
        }
        if let (Some(op), Some(text)) = (reader.get(0), reader.get(1))
            && is_unary(op)
        {
            reader.at += 2;
            return self.unary(op, text);
        }
        match reader.get(0) {
            Some(text) => {
                reader.at += 1;
                Ok(!text.is_empty())
            }
            None => Err("a word is missing".to_string()),
        }
    }

    fn stat(&mut self, path: &str, follow: bool) -> Option<Stat> {
        if path.is_empty() {
            return None;
        }
        let path = path::absolute(&self.state.folder, path);
        self.system.stat(&path, follow).ok()
    }

    fn unary(&mut self, op: &str, text: &str) -> Answer {
        let kind = |stat: Option<Stat>, kind: Kind| Ok(stat.is_some_and(|s| s.kind == kind));
        match op {
            "-n" => Ok(!text.is_empty()),
            "-z" => Ok(text.is_empty()),
            "-e" | "-r" | "-w" => Ok(self.stat(text, true).is_some()),
            "-x" => {
                let path = path::absolute(&self.state.folder, text);
                let folder = self.stat(text, true).is_some_and(|s| s.kind == Kind::Directory);
                Ok(folder || self.system.has_program(&path))
            }
            "-f" => kind(self.stat(text, true), Kind::File),
            "-d" => kind(self.stat(text, true), Kind::Directory),
            "-b" => kind(self.stat(text, true), Kind::Block),
            "-c" => kind(self.stat(text, true), Kind::Character),
            "-p" | "-S" => kind(self.stat(text, true), Kind::Stream),
            "-h" | "-L" => kind(self.stat(text, false), Kind::Link),
            "-s" => Ok(self.stat(text, true).is_some_and(|s| s.size > 0)),
            "-t" => {
                let number: u32 = text.parse().map_err(|_| format!("{text}: not a number"))?;
                match self.slots.get(&number).cloned() {
                    Some(Slot::File(file)) => Ok(self.system.is_terminal(&file)),
                    _ => Ok(false),
                }
            }
            _ => Ok(false),
        }
    }

    fn binary(&mut self, left: &str, op: &str, right: &str) -> Answer {
        match op {
            "=" | "==" => return Ok(left == right),
            "!=" => return Ok(left != right),
            "<" => return Ok(left < right),
            ">" => return Ok(left > right),
            "-nt" | "-ot" | "-ef" => {
                let (left, right) = (self.stat(left, true), self.stat(right, true));
                return Ok(match (op, left, right) {
                    ("-ef", Some(left), Some(right)) => left.node == right.node,
                    ("-nt", Some(left), Some(right)) => left.modified > right.modified,
                    ("-ot", Some(left), Some(right)) => left.modified < right.modified,
                    ("-nt", Some(_), None) | ("-ot", None, Some(_)) => true,
                    _ => false,
                });
            }
            _ => {}
        }
        let number = |text: &str| {
            let parsed = text.trim().parse::<i64>();
            parsed.map_err(|_| format!("{text}: not a number"))
        };
        let (left, right) = (number(left)?, number(right)?);
        Ok(match op {
            "-eq" => left == right,
            "-ne" => left != right,
            "-lt" => left < right,
            "-le" => left <= right,
            "-gt" => left > right,
            _ => left >= right,
        })
    }
}

impl<'a> Reader<'a> {
    fn get(&self, ahead: usize) -> Option<&'a str> {
        self.words.get(self.at + ahead).map(String::as_str)
    }

    fn peek(&self) -> Option<&'a str> {
        self.get(0)
    }

    fn eat(&mut self, word: &str) -> bool {
        let there = self.peek() == Some(word);
        self.at += usize::from(there);
        there
    }
}

fn is_unary(op: &str) -> bool {
    matches!(
        op,
        "-n" | "-z"
            | "-e"
            | "-f"
            | "-d"
            | "-r"
            | "-w"
            | "-x"
            | "-s"
            | "-h"
            | "-L"
            | "-p"
            | "-S"
            | "-b"
            | "-c"
            | "-t"
    )
}

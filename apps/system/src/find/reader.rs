//! Parser of arguments and expressions.

use super::expression::{Count, Links, Node, Plan};
use crate::about::about;
use crate::glob::Glob;
use penumbra::Kind;

/// Maximum nesting of parentheses.
const NESTED: u32 = 64;

/// Returns whether `word` starts an expression.
pub fn begins(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') || matches!(word, "(" | ")" | "!")
}

impl Plan {
    pub fn of(arguments: &[String]) -> Result<Plan, String> {
        let mut plan = Plan {
            links: Links::None,
            paths: Vec::new(),
            least: 0,
            most: u32::MAX,
            last: false,
            stay: false,
            expression: Node::Always(true),
            programs: Vec::new(),
        };
        let mut rest = arguments;
        while let Some((word, behind)) = rest.split_first() {
            plan.links = match word.as_str() {
                "-P" => Links::None,
                "-H" => Links::Named,
                "-L" => Links::All,
                _ => break,
            };
            rest = behind;
        }
        rest = rest.strip_prefix(&["--".to_string()]).unwrap_or(rest);
        let paths = rest.iter().take_while(|word| !begins(word)).count();
        let (paths, rest) = rest.split_at_checked(paths).unwrap_or((rest, &[]));
        plan.paths = paths.to_vec();
        if paths.is_empty() {
            plan.paths.push(".".to_string());
        }
        Reader::new(plan, rest).all()
    }
}

/// A parser of an expression.
pub struct Reader<'a> {
    plan: Plan,
    rest: std::slice::Iter<'a, String>,
    /// The expression has an action.
    acts: bool,
    prunes: bool,
    deletes: bool,
}

impl<'a> Reader<'a> {
    pub fn new(plan: Plan, words: &'a [String]) -> Reader<'a> {
        Reader { plan, rest: words.iter(), acts: false, prunes: false, deletes: false }
    }

    /// Parses the whole expression.
    pub fn all(mut self) -> Result<Plan, String> {
        if self.next().is_some() {
            self.plan.expression = self.either(0, "")?;
        }
        if let Some(word) = self.next() {
            return Err(format!("{word} without its ("));
        }
        if !self.acts {
            let tests = std::mem::replace(&mut self.plan.expression, Node::Empty);
            self.plan.expression = Node::And(vec![tests, Node::Print(b'\n')]);
        }
        if self.deletes && self.prunes && !self.plan.last {
            let why = "-delete goes depth first, where -prune does nothing; \
                       with -depth it is meant so";
            return Err(why.to_string());
        }
        self.plan.last |= self.deletes;
        Ok(self.plan)
    }

    fn next(&self) -> Option<&'a str> {
        self.rest.as_slice().first().map(String::as_str)
    }

    /// Parses `A -o B -o C`, after the word `behind`.
    fn either(&mut self, depth: u32, behind: &str) -> Result<Node, String> {
        let mut nodes = vec![self.both(depth, behind)?];
        while let Some(word @ ("-o" | "-or")) = self.next() {
            self.rest.next();
            nodes.push(self.both(depth, word)?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Or(nodes) })
    }

    /// Parses `A -a B C`.
    fn both(&mut self, depth: u32, behind: &str) -> Result<Node, String> {
        let mut nodes = vec![self.one(depth, behind)?];
        loop {
            match self.next() {
                None | Some("-o" | "-or" | ")") => break,
                Some(word @ ("-a" | "-and")) => {
                    self.rest.next();
                    nodes.push(self.one(depth, word)?);
                }
                Some(_) => nodes.push(self.one(depth, "")?),
            }
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::And(nodes) })
    }

    /// Parses a primary, a `!` with its operand, or a parenthesis.
    fn one(&mut self, depth: u32, behind: &str) -> Result<Node, String> {
        let (mut not, mut behind) = (false, behind);
        let node = loop {
            match self.rest.next().map(String::as_str) {
                Some(word @ ("!" | "-not")) => (not, behind) = (!not, word),
                Some("(") if depth >= NESTED => return Err("too many ( in each other".into()),
                Some("(") => {
                    let node = self.either(depth + 1, "(")?;
                    if self.rest.next().is_none() {
                        return Err("( without its )".to_string());
                    }
                    break node;
                }
                Some(word @ ("-o" | "-or" | "-a" | "-and" | ")")) if behind.is_empty() => {
                    return Err(format!("{word}: nothing before it"));
                }
                Some(word @ ("-o" | "-or" | "-a" | "-and" | ")")) => {
                    return Err(format!("{word} after {behind}: nothing in between"));
                }
                Some(word) => break self.primary(word)?,
                None => return Err(format!("{behind}: nothing after it")),
            }
        };
        Ok(if not { Node::Not(Box::new(node)) } else { node })
    }

    fn primary(&mut self, word: &str) -> Result<Node, String> {
        Ok(match word {
            "-true" => Node::Always(true),
            "-false" => Node::Always(false),
            "-name" | "-iname" => Node::Name(self.glob(word)?),
            "-path" | "-ipath" | "-wholename" | "-iwholename" => Node::Path(self.glob(word)?),
            "-type" => Node::Type(kinds(self.value(word)?)?),
            "-size" => size(self.value(word)?)?,
            "-empty" => Node::Empty,
            "-newer" => {
                let path = self.value(word)?;
                let found = about(path, self.plan.links != Links::None);
                Node::Newer(found.map_err(|why| format!("-newer {path}: {why}"))?.modified)
            }
            "-mtime" => Node::Days(count(word, self.value(word)?)?),
            "-mmin" => Node::Minutes(count(word, self.value(word)?)?),
            "-perm" | "-user" | "-group" | "-uid" | "-gid" | "-nouser" | "-nogroup" => {
                return Err(format!("{word}: files have no permissions and no owners here"));
            }
            _ => return self.setting(word),
        })
    }

    /// Parses a global option or an action.
    fn setting(&mut self, word: &str) -> Result<Node, String> {
        match word {
            "-maxdepth" => self.plan.most = self.depth(word)?,
            "-mindepth" => self.plan.least = self.depth(word)?,
            "-depth" => self.plan.last = true,
            "-xdev" | "-mount" => self.plan.stay = true,
            "-prune" => {
                self.prunes = true;
                return Ok(Node::Prune);
            }
            _ => return self.action(word),
        }
        Ok(Node::Always(true))
    }

    fn action(&mut self, word: &str) -> Result<Node, String> {
        self.acts = true;
        match word {
            "-print" => Ok(Node::Print(b'\n')),
            "-print0" => Ok(Node::Print(0)),
            "-delete" => {
                self.deletes = true;
                Ok(Node::Delete)
            }
            "-quit" => Ok(Node::Quit),
            "-exec" => self.exec(),
            _ if begins(word) => Err(format!("{word}: no such primary")),
            _ => Err(format!("{word}: paths belong before the expression")),
        }
    }

    fn value(&mut self, word: &str) -> Result<&'a str, String> {
        self.rest.next().map(String::as_str).ok_or(format!("{word} requires a value"))
    }

    fn glob(&mut self, word: &str) -> Result<Glob, String> {
        Ok(Glob::new(self.value(word)?, word.starts_with("-i")))
    }

    fn depth(&mut self, word: &str) -> Result<u32, String> {
        let value = self.value(word)?;
        value.parse().map_err(|_| format!("{word} {value}: not a number"))
    }

    /// Parses the words after `-exec`.
    fn exec(&mut self) -> Result<Node, String> {
        let mut program: Vec<String> = Vec::new();
        loop {
            let word = self.rest.next().ok_or("-exec: no ; and no {} + at its end")?;
            let is_many = word == "+" && program.last().is_some_and(|last| last == "{}");
            if word != ";" && !is_many {
                program.push(word.clone());
                continue;
            }
            program.truncate(program.len() - usize::from(is_many));
            if program.is_empty() {
                return Err("-exec: which program?".to_string());
            }
            if !is_many {
                return Ok(Node::Run(program));
            }
            if program.iter().any(|word| word.contains("{}")) {
                return Err("-exec: one {} only before a +".to_string());
            }
            self.plan.programs.push(program);
            return Ok(Node::Gather(self.plan.programs.len() - 1));
        }
    }
}

fn count(word: &str, text: &str) -> Result<Count, String> {
    let (make, digits): (fn(u64) -> Count, &str) = match text.split_at_checked(1) {
        Some(("+", digits)) => (Count::More, digits),
        Some(("-", digits)) => (Count::Less, digits),
        _ => (Count::Is, text),
    };
    let number = digits.parse().ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()));
    number.map(make).ok_or(format!("{word} {text}: not a number"))
}

fn size(text: &str) -> Result<Node, String> {
    let unit = match text.chars().last() {
        Some('c') => 1,
        Some('w') => 2,
        Some('k') => 1 << 10,
        Some('M') => 1 << 20,
        Some('G') => 1 << 30,
        _ => 512,
    };
    let digits = text.strip_suffix(['c', 'w', 'b', 'k', 'M', 'G']).unwrap_or(text);
    Ok(Node::Size(count("-size", digits)?, unit))
}

/// Parses letters separated by commas.
fn kinds(text: &str) -> Result<Vec<Kind>, String> {
    let kind = |letter| match letter {
        "f" => Ok(Kind::File),
        "d" => Ok(Kind::Directory),
        "l" => Ok(Kind::Link),
        "c" => Ok(Kind::Character),
        "b" => Ok(Kind::Block),
        "p" => Ok(Kind::Stream),
        _ => Err(format!("-type {text}: one of f d l c b p, or some with commas")),
    };
    text.split(',').map(kind).collect()
}

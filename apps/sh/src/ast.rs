//! The syntax tree: the parser creates it, the printer prints it, the executor walks it.

use std::cell::OnceCell;
use std::rc::Rc;

/// A word: its parts, concatenated. Without parts it is empty.
pub type Word = Vec<Part>;

/// Commands executed one after another.
pub type List = Vec<AndOr>;

/// A part of a word.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Unquoted text.
    Literal(String),
    /// Literal text: in single quotes, or after a backslash.
    Quoted(String),
    /// In double quotes.
    Double(Vec<Part>),
    /// A parameter expansion.
    Param(Box<Param>),
    /// A command substitution.
    Command(Rc<List>),
    /// An arithmetic expansion.
    Arithmetic(Vec<Part>),
}

/// A parameter expansion: `$name`, `${name...}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// A variable's name, a positional number, or one of `@*#?-$!`.
    pub name: String,
    /// The operation applied to it.
    pub op: ParamOp,
}

/// An operation on a parameter. With `colon`, an empty parameter counts as unset.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamOp {
    /// The value itself.
    Plain,
    /// `${#x}`: the length of the value.
    Length,
    /// `${x-word}`
    Default { colon: bool, word: Word },
    /// `${x=word}`
    Assign { colon: bool, word: Word },
    /// `${x?word}`
    Error { colon: bool, word: Word },
    /// `${x+word}`
    Instead { colon: bool, word: Word },
    /// `${x#pattern}`, `${x##pattern}`
    Prefix { longest: bool, pattern: Word },
    /// `${x%pattern}`, `${x%%pattern}`
    Suffix { longest: bool, pattern: Word },
}

/// Pipelines connected by `&&` and `||`.
#[derive(Clone, Debug, PartialEq)]
pub struct AndOr {
    /// The first pipeline.
    pub first: Pipeline,
    /// The others, each with the operator before it.
    pub rest: Vec<(Join, Pipeline)>,
    /// Whether it ends with `&`: the shell does not wait for it.
    pub background: bool,
}

/// An operator between two pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// `&&`
    And,
    /// `||`
    Or,
}

/// Commands connected by pipes.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// `!`
    pub negated: bool,
    /// `time`
    pub timed: bool,
    /// At least one.
    pub commands: Vec<Redirected>,
}

/// A command with its redirections.
#[derive(Clone, Debug, PartialEq)]
pub struct Redirected {
    /// What.
    pub command: Command,
    /// In order of effect.
    pub redirects: Vec<Redirect>,
    /// Line number in the script.
    pub line: u32,
}

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Assignments, a name and arguments.
    Simple(Simple),
    /// `{ }`
    Group(List),
    /// `( )`
    Subshell(List),
    /// `if`
    If { branches: Vec<(List, List)>, otherwise: Option<List> },
    /// `while`, `until`
    Loop { until: bool, condition: List, body: List },
    /// `for`; without words, over the positional parameters.
    For { name: String, words: Option<Vec<Word>>, body: List },
    /// `case`
    Case { word: Word, arms: Vec<Arm> },
    /// `name()`
    Function { name: String, body: Rc<Redirected> },
}

/// A simple command: assignments, a name and arguments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simple {
    /// Variables and values.
    pub assigns: Vec<(String, Word)>,
    /// The name and the arguments.
    pub words: Vec<Word>,
}

/// An arm of a `case`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Alternative patterns.
    pub patterns: Vec<Word>,
    /// The commands of the arm.
    pub body: List,
    /// `;&`: continue with the next arm's commands.
    pub falls: bool,
}

/// A redirection.
#[derive(Clone, Debug, PartialEq)]
pub struct Redirect {
    /// The descriptor; `None`: the default of the operator.
    pub number: Option<u32>,
    /// The target.
    pub target: Target,
}

/// The target of a redirection.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// `<`
    Read(Word),
    /// `>`, `>|`
    Write { word: Word, clobber: bool },
    /// `>>`
    Append(Word),
    /// `<>`
    ReadWrite(Word),
    /// `<&`, `>&`: another descriptor, or `-` to close it.
    Copy { word: Word, write: bool },
    /// `<<`. The text is set when the line has ended. `quoted`: nothing in it is expanded.
    Here { text: Rc<OnceCell<Word>>, quoted: bool },
}

impl Redirect {
    /// Returns the descriptor that it redirects.
    pub fn descriptor(&self) -> u32 {
        self.number.unwrap_or(match &self.target {
            Target::Read(_) | Target::ReadWrite(_) | Target::Here { .. } => 0,
            Target::Copy { write, .. } => u32::from(*write),
            Target::Write { .. } | Target::Append(_) => 1,
        })
    }
}

impl AndOr {
    /// Returns the command if the list is a single one, in the foreground.
    pub fn only(&self) -> Option<&Redirected> {
        let alone = self.rest.is_empty() && !self.first.negated && !self.first.timed;
        match self.first.commands.as_slice() {
            [command] if alone => Some(command),
            _ => None,
        }
    }
}

/// Returns the text of a word that consists of unquoted text only.
pub fn literal(word: &[Part]) -> Option<&str> {
    match word {
        [Part::Literal(text)] => Some(text),
        _ => None,
    }
}

/// Returns whether `text` is a valid variable name.
pub fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

//! What a script means: the tree that the parser makes, the printer prints, the executor walks.

use std::cell::OnceCell;
use std::rc::Rc;

/// A word: parts side by side. Without any part it is empty.
pub type Word = Vec<Part>;

/// Commands one after another.
pub type List = Vec<AndOr>;

/// A piece of a word.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text as it stands.
    Literal(String),
    /// Text that means itself: in single quotes, or behind a backslash.
    Quoted(String),
    /// In double quotes.
    Double(Vec<Part>),
    /// A parameter.
    Param(Box<Param>),
    /// Output of commands.
    Command(Rc<List>),
    /// Value of an arithmetic expression.
    Arithmetic(Vec<Part>),
}

/// `$name`, `${name...}`
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// A variable's name, a number, or one of `@*#?-$!`.
    pub name: String,
    /// What is made of it.
    pub op: ParamOp,
}

/// What is made of a parameter. `colon`: an empty one counts as unset.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamOp {
    /// Its value.
    Plain,
    /// How long it is.
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

/// Pipelines that depend on each other's success.
#[derive(Clone, Debug, PartialEq)]
pub struct AndOr {
    /// The first.
    pub first: Pipeline,
    /// The others, each with what stands before it.
    pub rest: Vec<(Join, Pipeline)>,
    /// Nobody waits for it.
    pub background: bool,
}

/// What stands between two pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// `&&`
    And,
    /// `||`
    Or,
}

/// Commands that read from each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// `!`
    pub negated: bool,
    /// `time`
    pub timed: bool,
    /// At least one.
    pub commands: Vec<Redirected>,
}

/// A command and where it reads and writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Redirected {
    /// What.
    pub command: Command,
    /// In the order in which they take effect.
    pub redirects: Vec<Redirect>,
    /// Where it stands.
    pub line: u32,
}

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Assignments, a name, arguments.
    Simple(Simple),
    /// `{ }`
    Group(List),
    /// `( )`
    Subshell(List),
    /// `if`
    If { branches: Vec<(List, List)>, otherwise: Option<List> },
    /// `while`, `until`
    Loop { until: bool, condition: List, body: List },
    /// `for`; without words the positional parameters.
    For { name: String, words: Option<Vec<Word>>, body: List },
    /// `case`
    Case { word: Word, arms: Vec<Arm> },
    /// `name()`
    Function { name: String, body: Rc<Redirected> },
}

/// Assignments, a name, arguments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simple {
    /// Variables and values.
    pub assigns: Vec<(String, Word)>,
    /// The name and the arguments.
    pub words: Vec<Word>,
}

/// One arm of a `case`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Any of these.
    pub patterns: Vec<Word>,
    /// What is done.
    pub body: List,
    /// `;&`: the next arm's too.
    pub falls: bool,
}

/// Where a descriptor leads.
#[derive(Clone, Debug, PartialEq)]
pub struct Redirect {
    /// Which; without one the kind's own.
    pub number: Option<u32>,
    /// Where to.
    pub target: Target,
}

/// What a descriptor is to be.
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
    /// `<&`, `>&`: another descriptor, or `-`.
    Copy { word: Word, write: bool },
    /// `<<`; the text is known once the line has ended. `quoted`: nothing in it is expanded.
    Here { text: Rc<OnceCell<Word>>, quoted: bool },
}

impl Redirect {
    /// The descriptor that it changes.
    pub fn descriptor(&self) -> u32 {
        self.number.unwrap_or(match &self.target {
            Target::Read(_) | Target::ReadWrite(_) | Target::Here { .. } => 0,
            Target::Copy { write, .. } => u32::from(*write),
            Target::Write { .. } | Target::Append(_) => 1,
        })
    }
}

impl AndOr {
    /// Is it one pipeline of one command, in the foreground?
    pub fn only(&self) -> Option<&Redirected> {
        let alone = self.rest.is_empty() && !self.first.negated && !self.first.timed;
        match self.first.commands.as_slice() {
            [command] if alone => Some(command),
            _ => None,
        }
    }
}

/// The text of a word that is nothing but unquoted text.
pub fn literal(word: &[Part]) -> Option<&str> {
    match word {
        [Part::Literal(text)] => Some(text),
        _ => None,
    }
}

/// Is it a variable's name?
pub fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

//! The command line of `find`: options, starting points, and an expression.

use crate::glob::Glob;
use penumbra::Kind;

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    #[default]
    None,
    /// Those on the command line.
    Named,
    All,
}

/// A number to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    Less(u64),
    Is(u64),
    More(u64),
}

/// An expression.
#[derive(Clone, Debug)]
pub enum Node {
    Always(bool),
    Name(Glob),
    Path(Glob),
    Type(Vec<Kind>),
    /// Size in units of so many bytes, rounded up.
    Size(Count, u64),
    Empty,
    /// Modified after this time.
    Newer(u64),
    /// Modified so many days ago, rounded down.
    Days(Count),
    /// Modified so many minutes ago, rounded up.
    Minutes(Count),
    Prune,
    /// Prints the path and this byte.
    Print(u8),
    Delete,
    /// Runs a program for each file.
    Run(Vec<String>),
    /// Runs a program for many files: index in [`Plan::programs`].
    Gather(usize),
    Quit,
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
}

/// A parsed command line.
#[derive(Clone, Debug)]
pub struct Plan {
    pub links: Links,
    pub paths: Vec<String>,
    /// Minimum and maximum depth at which the expression is evaluated.
    pub least: u32,
    pub most: u32,
    /// Visit a directory after its contents.
    pub last: bool,
    /// Stay in one file system.
    pub stay: bool,
    pub expression: Node,
    /// Programs that get many paths.
    pub programs: Vec<Vec<String>>,
}

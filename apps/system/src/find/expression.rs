//! What `find` is asked: options, paths to begin at, and an expression.

use crate::glob::Glob;
use penumbra::Kind;

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    #[default]
    None,
    /// Those that are named.
    Named,
    All,
}

/// A number that something is compared with.
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
    /// So many units of so many bytes, the last one in part.
    Size(Count, u64),
    Empty,
    /// Written after this time.
    Newer(u64),
    /// Written so many days ago, the last one not counted.
    Days(Count),
    /// Written so many minutes ago, the last one in part.
    Minutes(Count),
    Prune,
    /// The path, and this byte.
    Print(u8),
    Delete,
    /// A program for each.
    Run(Vec<String>),
    /// A program for many: the number of [`Plan::programs`].
    Gather(usize),
    Quit,
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    pub links: Links,
    pub paths: Vec<String>,
    /// Where the expression holds: above how deep, and how deep at most.
    pub least: u32,
    pub most: u32,
    /// A directory comes behind what is in it.
    pub last: bool,
    /// Other file systems are not gone into.
    pub stay: bool,
    pub expression: Node,
    /// Programs that get many paths.
    pub programs: Vec<Vec<String>>,
}

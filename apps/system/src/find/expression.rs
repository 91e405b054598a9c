//! The command line of `find`: options, starting points, and an expression.

use super::reader::{Reader, begins};
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

//! What `find` is asked: options, paths to begin at, and an expression.

use super::reader::{Reader, begins};
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

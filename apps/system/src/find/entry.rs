//! A visited file, and the tests that need only its metadata.

use super::expression::{Count, Node};
use penumbra::Stat;
use std::path::PathBuf;

const MINUTE: u64 = 60 * 1_000_000_000;
const DAY: u64 = 24 * 60 * MINUTE;

/// A visited file.
pub struct Entry {
    pub path: PathBuf,
    pub depth: u32,
    pub about: Stat,
}

impl Entry {
    /// Returns the last component of its path.
    fn name<'p>(&self, path: &'p str) -> &'p str {
        let trimmed = path.trim_end_matches('/');
        match trimmed.rsplit('/').next() {
            Some("") | None => path.get(..1).unwrap_or_default(),
            Some(name) => name,
        }
    }

    /// Evaluates a test that needs only the metadata.
    pub fn fits(&self, test: &Node, now: u64) -> bool {
        let age = i128::from(now) - i128::from(self.about.modified);
        let units = |unit: u64, number: u64| i128::from(unit) * i128::from(number);
        match test {
            Node::Always(holds) => *holds,
            Node::Name(glob) => glob.fits(self.name(&self.path.to_string_lossy())),
            Node::Path(glob) => glob.fits(&self.path.to_string_lossy()),
            Node::Type(kinds) => kinds.contains(&self.about.kind),
            Node::Size(count, unit) => count.has(self.about.size.div_ceil(*unit)),
            Node::Newer(time) => self.about.modified > *time,
            Node::Days(count) => match *count {
                Count::Less(days) => age < units(DAY, days),
                Count::Is(days) => (0..i128::from(DAY)).contains(&(age - units(DAY, days))),
                Count::More(days) => age >= units(DAY, days) + i128::from(DAY),
            },
            Node::Minutes(count) => match *count {
                Count::Less(minutes) => age < units(MINUTE, minutes),
                Count::Is(minutes) => {
                    (0..i128::from(MINUTE)).contains(&(units(MINUTE, minutes) - 1 - age))
                }
                Count::More(minutes) => age > units(MINUTE, minutes),
            },
            _ => false,
        }
    }
}

impl Count {
    fn has(self, number: u64) -> bool {
        match self {
            Count::Less(than) => number < than,
            Count::Is(as_many) => number == as_many,
            Count::More(than) => number > than,
        }
    }
}

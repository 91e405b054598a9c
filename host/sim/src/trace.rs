//! What happened last in a run, for whoever has to understand why it failed.

use std::collections::VecDeque;

/// The last lines.
pub struct Trace {
    most: usize,
    on: bool,
    print: bool,
    lines: VecDeque<String>,
}

impl Trace {
    /// Keeps the last `most` lines if it is `on`; prints them too, all of them, if asked.
    pub fn new(most: usize, on: bool, print: bool) -> Trace {
        Trace { most, on, print, lines: VecDeque::new() }
    }

    /// Something happened, at this step; nobody makes the line unless it is kept.
    pub fn note(&mut self, step: u64, line: impl FnOnce() -> String) {
        if !self.on {
            return;
        }
        let line = line();
        if self.print {
            println!("{step:6} {line}");
        }
        self.lines.push_back(line);
        if self.lines.len() > self.most {
            self.lines.pop_front();
        }
    }

    /// The lines, and what there is to say at the end.
    pub fn ending(self, last: Vec<String>) -> Vec<String> {
        self.lines.into_iter().chain(last).collect()
    }
}

//! The last events of a run, to explain a failure.

use std::collections::VecDeque;

/// The last lines of the trace.
pub struct Trace {
    most: usize,
    on: bool,
    print: bool,
    lines: VecDeque<String>,
}

impl Trace {
    /// Creates a trace that keeps the last `most` lines if `on`, and prints all of them if `print`.
    pub fn new(most: usize, on: bool, print: bool) -> Trace {
        Trace { most, on, print, lines: VecDeque::new() }
    }

    /// Records an event at this step. The line is formatted only if it is kept.
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

    /// Returns the lines, followed by `last`.
    pub fn ending(self, last: Vec<String>) -> Vec<String> {
        self.lines.into_iter().chain(last).collect()
    }
}

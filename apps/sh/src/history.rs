//! The history of typed lines.

/// Maximum number of lines.
const LINES: usize = 500;

/// Lines, the newest last.
#[derive(Clone, Debug, Default)]
pub struct History {
    lines: Vec<String>,
}

impl History {
    /// Reads the text of a history file.
    pub fn new(text: &str) -> History {
        let mut history = History::default();
        for line in text.lines() {
            history.add(line);
        }
        history
    }

    /// Adds a line. Returns false for a blank line or a repetition of the last one, which are not
    /// added.
    pub fn add(&mut self, line: &str) -> bool {
        let line = line.trim_end();
        if line.trim().is_empty() || self.lines.last().is_some_and(|last| last == line) {
            return false;
        }
        if self.lines.len() >= LINES {
            self.lines.remove(0);
        }
        self.lines.push(line.to_string());
        true
    }

    /// Returns the lines, oldest first.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Removes all lines.
    pub fn clear(&mut self) {
        self.lines.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_once_and_not_for_ever() {
        let mut history = History::new("a\n\na\na  \nb\n");
        assert_eq!(history.lines(), ["a", "b"]);
        assert!(!history.add(" ") && !history.add("b") && history.add("a"));
        for number in 0..2 * LINES {
            history.add(&number.to_string());
        }
        assert_eq!(history.lines().len(), LINES);
    }
}

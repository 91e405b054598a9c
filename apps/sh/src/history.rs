//! Lines that were typed.

/// Most lines.
const LINES: usize = 500;

/// The lines, the newest last.
#[derive(Clone, Debug, Default)]
pub struct History {
    lines: Vec<String>,
}

impl History {
    /// From the text of a file.
    pub fn new(text: &str) -> History {
        let mut history = History::default();
        text.lines().for_each(|line| history.add(line));
        history
    }

    /// One more; blank ones and one like the last are left out.
    pub fn add(&mut self, line: &str) {
        let line = line.trim_end();
        if line.trim().is_empty() || self.lines.last().is_some_and(|last| last == line) {
            return;
        }
        if self.lines.len() >= LINES {
            self.lines.remove(0);
        }
        self.lines.push(line.to_string());
    }

    /// The lines, the oldest first.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Does each new line replace the oldest one?
    pub fn is_full(&self) -> bool {
        self.lines.len() >= LINES
    }

    /// None any more.
    pub fn clear(&mut self) {
        self.lines.clear();
    }
}

//! What the peer's clients have seen: a file with a line of JSON for each request, written when it
//! ends. Equal runs write equal files.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Error, Result, Write};
use std::path::Path;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// With the bytes that the script wants.
    Right,
    /// With others, or too few.
    Wrong,
    /// Without an answer in time, or the connection was refused or reset.
    Failed,
}

/// A request that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Name of the client.
    pub client: String,
    /// Number of the request, from 0.
    pub number: u64,
    /// When it ended, in ns since the board's start.
    pub at_ns: u64,
    /// How long it took.
    pub took_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Bytes received.
    pub bytes: usize,
    /// Stamp: from the arrival of its frame at the device to the time that the server has written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_ns: Option<u64>,
}

/// The file that answers are written to.
#[derive(Debug)]
pub struct Answers(Option<File>);

impl Answers {
    /// Creates or replaces the file.
    pub fn create(path: &Path) -> Result<Answers> {
        let file = File::create(path);
        file.map(Some)
            .map(Answers)
            .map_err(|why| Error::other(format!("{}: {why}", path.display())))
    }

    /// Adds an answer. After an error, such as a full disk, the file ends.
    pub fn add(&mut self, answer: &Answer) {
        let Some(file) = &mut self.0 else { return };
        let line = serde_json::to_string(answer).map_err(Error::other);
        if let Err(why) = line.and_then(|line| writeln!(file, "{line}")) {
            log::error!("Network: the peer's answers end: {why}.");
            self.0 = None;
        }
    }
}

/// Reads all answers of a run.
pub fn read(path: &Path) -> Result<Vec<Answer>> {
    let named = |why: String| Error::other(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|why| named(why.to_string()))?;
    let parsed = text.lines().map(serde_json::from_str).collect::<serde_json::Result<_>>();
    parsed.map_err(|why| named(why.to_string()))
}

//! The environment of the lab's checks and figures.

use super::disk;
use super::run::{Bench, Outcome, PATIENCE};
use builds::kernels::Built;
use std::path::PathBuf;
use tree::place::Place;
use workbench::model::Choice;

/// Ping-pong in all three ways.
pub const GAME: &str = "ping shadow 1; ping-pong doorbell 20; ping-pong words 100; \
                    ping-pong spinlock 50";

/// The environment of a check.
pub struct Kit<'a> {
    /// The tree with its boards.
    pub place: &'a Place,
    /// Kernels of both ISAs.
    pub kernels: &'a [Built],
    /// The check's folder.
    pub folder: PathBuf,
}

/// The check cannot run; it needs this.
#[derive(Debug, thiserror::Error)]
#[error("left out: {0}")]
pub struct LeftOut(pub &'static str);

impl Kit<'_> {
    /// Runs commands on a board until it powers off.
    pub fn run(&self, board: &str, run: &str, choice: Choice) -> anyhow::Result<Outcome> {
        self.run_as(board, run, Some(choice))
    }

    /// The same, optionally in plain emulation.
    pub fn run_as(
        &self,
        board: &str,
        run: &str,
        choice: Option<Choice>,
    ) -> anyhow::Result<Outcome> {
        self.run_with(board, "", run, choice)
    }

    /// The same, with additional text before the kernels' command line.
    pub fn run_with(
        &self,
        board: &str,
        first: &str,
        run: &str,
        choice: Option<Choice>,
    ) -> anyhow::Result<Outcome> {
        let board = &self.place.board_file(board);
        let arguments = format!("{first}run={run};poweroff");
        let folder = self.folder.clone();
        disk::remove(&folder)?;
        let (kernels, points, patience) = (self.kernels, Vec::new(), PATIENCE);
        Bench { folder, board, kernels, arguments, choice, points, patience }.run()
    }
}

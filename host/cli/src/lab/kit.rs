//! What checks and figures of the lab work with.

use super::model::Choice;
use super::run::{Bench, Outcome};
use crate::kernels::Built;
use crate::place::Place;
use std::path::PathBuf;

/// What a check works with.
pub struct Kit<'a> {
    /// Where boards are.
    pub place: &'a Place,
    /// Kernels of both ISAs.
    pub kernels: &'a [Built],
    /// Its folder.
    pub folder: PathBuf,
}

/// A check that says what it would need.
#[derive(Debug, thiserror::Error)]
#[error("left out: {0}")]
pub struct LeftOut(pub &'static str);

impl Kit<'_> {
    /// Runs commands on a board, to its power-off.
    pub fn run(&self, board: &str, run: &str, choice: Choice) -> anyhow::Result<Outcome> {
        self.run_as(board, run, Some(choice))
    }

    /// The same, or in plain emulation.
    pub fn run_as(
        &self,
        board: &str,
        run: &str,
        choice: Option<Choice>,
    ) -> anyhow::Result<Outcome> {
        self.run_with(board, "", run, choice)
    }

    /// The same, with something else in front on the kernels' command line.
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
        Bench { folder, board, kernels: self.kernels, arguments, choice }.run()
    }
}

//! The environment of the lab's checks and figures.

use super::disk::{self, ROOT};
use super::run::{Bench, Outcome, PATIENCE};
use builds::kernels::Built;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use tree::counted::Counted;
use tree::place::Place;
use workbench::model::Choice;
use workbench::network::Network;

/// Ping-pong in all three ways.
pub const GAME: &str = "ping shadow 1; ping-pong doorbell 20; ping-pong words 100; \
                    ping-pong lock 50";

/// The environment of a check.
pub struct Kit<'a> {
    /// The tree with its boards.
    pub place: &'a Place,
    /// Kernels of both ISAs.
    pub kernels: &'a [Built],
    /// The check's folder.
    pub folder: PathBuf,
    /// What the check has done so far.
    pub counted: RefCell<Counted>,
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
        disk::remove(&self.folder)?;
        self.bench(board, first, run, choice).run()
    }

    fn bench(&self, board: &str, first: &str, run: &str, choice: Option<Choice>) -> Bench<'_> {
        Bench {
            folder: self.folder.clone(),
            board: self.place.board_file(board),
            kernels: self.kernels,
            arguments: format!("{first}run={run};poweroff"),
            choice,
            points: Vec::new(),
            network: Network::None,
            patience: PATIENCE,
        }
    }

    /// The same as `run_with`, with programs on the disk and a scripted peer at the network. No
    /// step of it depends on the host.
    pub fn run_served(
        &self,
        board: &str,
        first: &str,
        run: &str,
        (programs, script): (&[&str], &Path),
        choice: Choice,
    ) -> anyhow::Result<Outcome> {
        disk::stage(self.place, board, &self.folder, programs)?;
        let mut bench = self.bench(board, &format!("{ROOT}{first}"), run, Some(choice));
        bench.network = Network::Script(script.canonicalize()?);
        bench.run()
    }
}

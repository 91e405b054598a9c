//! A lab scenario: a data file that defines the board, the commands, the repetitions and the
//! quanta. `lab/*.toml`.

use super::disk::{self, ROOT};
use abi::boot::MAX_ARGUMENTS;
use anyhow::Context;
use lab::model::Mode;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use tree::place::Place;
use workbench::network::Network;

/// A scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// A description of one line.
    pub description: String,
    /// The board. Its time is exact if each domain has one core.
    pub board: String,
    /// Commands of the monitor, separated by `;`. The board is powered off after them.
    #[serde(default)]
    pub run: String,
    /// Commands after those, in phases that are accounted for separately.
    #[serde(default)]
    pub phase: Vec<Phase>,
    /// Words on the kernels' command line, before the commands.
    #[serde(default)]
    pub words: String,
    /// The script of the peer at the network (docs/design/net.md), beside this file.
    #[serde(default)]
    pub peer: Option<PathBuf>,
    /// Programs on the disk (apps/corpus.toml).
    #[serde(default)]
    pub programs: Vec<String>,
    /// What is measured.
    #[serde(default)]
    pub mode: Mode,
    /// How far a domain may run past another, in ns; one series of repetitions for each value.
    #[serde(default = "usual_quanta")]
    pub quanta_ns: Vec<u64>,
    /// Number of repetitions; those of one quantum must agree if time is exact.
    #[serde(default = "once")]
    pub repetitions: u32,
}

/// A part of a scenario with its own account of time and energy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name, one word.
    pub name: String,
    /// Its commands.
    pub run: String,
}

fn usual_quanta() -> Vec<u64> {
    vec![1000]
}

fn once() -> u32 {
    1
}

/// Name of the mark at the end of the last phase.
pub const END: &str = "end";

/// A scenario with programs, done in several ways.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ways {
    /// A description of one line.
    pub description: String,
    /// The program that all ways run (apps/corpus.toml). One of its runs prints the measured phase.
    pub program: String,
    /// How many such phases a day has.
    pub hours: u32,
    /// The ways.
    pub way: Vec<Way>,
}

/// One of the ways.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// Its name, one word.
    pub name: String,
    /// The board.
    pub board: String,
    /// The kernels' command line.
    pub arguments: String,
    /// What is run at once.
    pub run: Vec<ProgramRun>,
}

/// A run of the program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramRun {
    /// The kernel.
    pub on: String,
    /// The program's arguments.
    pub words: String,
}

/// What a file contains.
pub enum Content {
    Commands(Scenario),
    Ways(Ways),
}

impl Content {
    pub fn description(&self) -> &str {
        match self {
            Content::Commands(scenario) => &scenario.description,
            Content::Ways(ways) => &ways.description,
        }
    }

    /// Reads a file of either kind; errors include the line.
    pub fn read(path: &Path) -> anyhow::Result<Content> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let named = || path.display().to_string();
        let table: toml::Table = toml::from_str(&text).with_context(named)?;
        match table.contains_key("way") {
            true => toml::from_str(&text).map(Content::Ways).with_context(named),
            false => Scenario::parse(&text, path).map(Content::Commands),
        }
    }
}

impl Scenario {
    /// Reads a file of commands; errors include the line.
    pub fn read(path: &Path) -> anyhow::Result<Scenario> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Scenario::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> anyhow::Result<Scenario> {
        let name = path.display();
        let mut scenario: Scenario = toml::from_str(text).with_context(|| name.to_string())?;
        let beside = |peer: PathBuf| path.with_file_name(peer);
        scenario.peer = scenario.peer.map(beside);
        let length = scenario.arguments().len();
        if length >= MAX_ARGUMENTS {
            anyhow::bail!("{name}: its commands have {length} characters of {MAX_ARGUMENTS}");
        }
        if scenario.run.is_empty() && scenario.phase.is_empty() {
            anyhow::bail!("{name}: it has neither `run` nor a [[phase]]");
        }
        let word = |name: &str| !name.is_empty() && !name.contains([' ', ';']) && name != END;
        if let Some(phase) = scenario.phase.iter().find(|phase| !word(&phase.name)) {
            anyhow::bail!("{name}: {:?} is no name of a phase: one word, not {END}", phase.name);
        }
        if scenario.quanta_ns.is_empty() || scenario.repetitions == 0 {
            anyhow::bail!("{name}: nothing to do: quanta_ns or repetitions is empty");
        }
        Ok(scenario)
    }

    /// Returns the kernels' command line.
    pub fn arguments(&self) -> String {
        let mut commands = Vec::from_iter((!self.run.is_empty()).then(|| self.run.clone()));
        for Phase { name, run } in &self.phase {
            commands.push(format!("phase {name};{run}"));
        }
        if !self.phase.is_empty() {
            commands.push(format!("phase {END}"));
        }
        let root = if self.programs.is_empty() { "" } else { ROOT };
        let space = if self.words.is_empty() { "" } else { " " };
        format!("{root}{}{space}run={};poweroff", self.words, commands.join(";"))
    }

    /// Returns the network, if the scenario has one.
    pub fn network(&self) -> anyhow::Result<Option<Network>> {
        let named =
            |path: &PathBuf| path.canonicalize().with_context(|| path.display().to_string());
        Ok(self.peer.as_ref().map(named).transpose()?.map(Network::Script))
    }

    /// Puts the programs on the disk of the board that starts next in `folder`.
    pub fn stage(&self, place: &Place, folder: &Path) -> anyhow::Result<()> {
        if self.programs.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.programs.iter().map(String::as_str).collect();
        disk::stage(place, &self.board, folder, &names)
    }
}

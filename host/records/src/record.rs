//! The records of measurements: the contents of a `.jsonl` file. docs/reference/report.md is the
//! manual, with examples.
//!
//! One JSON object per line. `kind` is its type. Records of one run name it; they may be in any
//! order and in several files. An object without `kind` is a benchmark as printed by `./pen bench
//! --json`. Unknown fields are errors, so that typing errors are noticed.

use serde::{Deserialize, Serialize};

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Record {
    /// Start of a run.
    Run(Run),
    /// A measured value.
    Value(Value),
    /// A domain's power from a time on, until its next such record.
    Power(Power),
    /// A domain's time in a state.
    Residency(Residency),
    /// A counter.
    Count(Count),
    /// What two programs have sent each other.
    Talk(Talk),
    /// A violated rule.
    Violation(Violation),
    /// End of a run.
    End(End),
}

/// What the lab measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Time.
    Time,
    /// Time and energy.
    Energy,
    /// Caches only.
    Sanitizer,
    /// Time, energy and caches.
    Full,
    /// Nothing: the board ran outside the lab.
    Board,
}

/// Source of the costs of instructions and devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Costs {
    /// The board file.
    Board,
    /// All operations but instructions are free.
    Zero,
}

/// The head of a run. Runs that differ only in `run` and `repetition` are repetitions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Unique name of the run.
    pub run: String,
    /// The scenario.
    pub scenario: String,
    /// The board.
    pub board: String,
    /// What the lab measured.
    pub mode: Mode,
    /// Hash of everything that affects the result: board, kernels, plugin. 16 hex digits; none for
    /// [`Mode::Board`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Source of the costs; none for [`Mode::Board`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// Whether every run gives the same result, bit by bit.
    pub exact: bool,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// Other options.
    #[serde(default)]
    pub config: String,
}

/// A measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Name of the run.
    pub run: String,
    /// Name of the value; does not change between versions.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Linux's value, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linux: Option<f64>,
    /// What was measured on Linux.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub linux_what: String,
}

/// A change of a domain's power.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Name of the run.
    pub run: String,
    /// Name of the domain.
    pub domain: String,
    /// From this soc time on.
    pub at_ns: u64,
    /// Power in mW.
    pub mw: f64,
}

/// State of a domain, ordered by power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Executing.
    Active,
    /// Waiting for an interrupt.
    Idle,
    /// Waiting with its clock gated.
    Gated,
    /// Stopped, with its state kept.
    Inactive,
    /// Without power.
    Off,
}

/// Time and energy of a domain in one state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Residency {
    /// Name of the run.
    pub run: String,
    /// Name of the domain.
    pub domain: String,
    /// The state.
    pub state: State,
    /// The frequency.
    pub mhz: u32,
    /// Total time.
    pub ns: u64,
    /// Total energy in microjoules.
    pub uj: f64,
}

/// A counter: messages, faults, misses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// Name of the run.
    pub run: String,
    /// Name of the domain.
    pub domain: String,
    /// Name of the counter.
    pub what: String,
    /// Its value.
    pub value: u64,
}

/// What two programs have sent each other over channels of one contract.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Talk {
    /// Name of the run.
    pub run: String,
    /// The contract's name; if that is unknown, the beginning of its hash.
    pub contract: String,
    /// The program with the clients' ends, and its kernel.
    pub client: String,
    pub client_kernel: String,
    /// The program with the servers' ends, and its kernel.
    pub server: String,
    pub server_kernel: String,
    /// How many channels there were.
    pub channels: u64,
    /// Messages that clients have sent, and bytes in them, blocks included.
    pub client_sent: u64,
    pub client_bytes: u64,
    /// The same of servers.
    pub server_sent: u64,
    pub server_bytes: u64,
}

impl Talk {
    /// Returns the contract, and the programs with their kernels.
    fn key(&self) -> [&str; 5] {
        let Talk { contract, client, client_kernel, server, server_kernel, .. } = self;
        [contract, client_kernel, client, server_kernel, server].map(String::as_str)
    }

    /// Adds it to that of the same contract and programs in a list, or to the list.
    pub fn add_to(self, all: &mut Vec<Talk>) {
        match all.iter_mut().find(|old| old.key() == self.key()) {
            Some(old) => old.add(&self),
            None => all.push(self),
        }
    }

    /// Adds the figures of `other`.
    fn add(&mut self, other: &Talk) {
        for (sum, more) in [
            (&mut self.channels, other.channels),
            (&mut self.client_sent, other.client_sent),
            (&mut self.client_bytes, other.client_bytes),
            (&mut self.server_sent, other.server_sent),
            (&mut self.server_bytes, other.server_bytes),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// A violated rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Violation {
    /// Name of the run.
    pub run: String,
    /// Name of the domain.
    pub domain: String,
    /// Description, as a sentence.
    pub text: String,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Name of the run.
    pub run: String,
    /// soc time of the end.
    pub at_ns: u64,
}

/// A benchmark: a line of `./pen bench --json`. It does not belong to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bench {
    /// Name of the benchmark; does not change between versions.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Name of the board.
    pub board: String,
    /// Other options.
    #[serde(default)]
    pub config: String,
    /// Linux's value, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linux: Option<f64>,
    /// What was measured on Linux.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub linux_what: String,
}

/// A parsed line.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// A record of a run.
    Record(Record),
    /// A benchmark.
    Bench(Bench),
}

/// Why a line is not a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It is not JSON.
    #[error("not JSON, at column {}", .0.column())]
    Json(serde_json::Error),
    /// It is JSON, but not a record.
    #[error("not a record: {0}")]
    Shape(serde_json::Error),
    /// It has neither kind nor name.
    #[error("not a record: it has neither \"kind\" nor \"name\"")]
    Nameless,
    /// The model is not a hash.
    #[error("model is {0:?}, it should be 16 hex digits")]
    Model(String),
    /// A run of the lab without its costs.
    #[error("costs are missing: \"board\" or \"zero\"")]
    Costs,
    /// A negative power or energy.
    #[error("{0} is {1}, it cannot be negative")]
    Negative(&'static str, f64),
}

impl Record {
    /// Returns the name of its run.
    pub fn run(&self) -> &str {
        match self {
            Record::Run(r) => &r.run,
            Record::Value(r) => &r.run,
            Record::Power(r) => &r.run,
            Record::Residency(r) => &r.run,
            Record::Count(r) => &r.run,
            Record::Talk(r) => &r.run,
            Record::Violation(r) => &r.run,
            Record::End(r) => &r.run,
        }
    }

    /// Checks what the types cannot express.
    fn check(&self) -> Result<(), RecordError> {
        match self {
            Record::Run(r) if r.mode == Mode::Board && r.model.is_empty() => Ok(()),
            Record::Run(r) if !is_hash(&r.model) => Err(RecordError::Model(r.model.clone())),
            Record::Run(r) if r.costs.is_none() => Err(RecordError::Costs),
            Record::Power(r) if r.mw < 0.0 => Err(RecordError::Negative("mw", r.mw)),
            Record::Residency(r) if r.uj < 0.0 => Err(RecordError::Negative("uj", r.uj)),
            _ => Ok(()),
        }
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Parses a line.
pub fn parse(text: &str) -> Result<Line, RecordError> {
    let object: serde_json::Value = serde_json::from_str(text).map_err(RecordError::Json)?;
    if object.get("kind").is_some() {
        let record: Record = serde_json::from_value(object).map_err(RecordError::Shape)?;
        record.check()?;
        return Ok(Line::Record(record));
    }
    if object.get("name").is_none() {
        return Err(RecordError::Nameless);
    }
    serde_json::from_value(object).map(Line::Bench).map_err(RecordError::Shape)
}

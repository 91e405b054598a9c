//! The records of measurements: what a line of a `.jsonl` file may hold. The manual with examples
//! is docs/reference/report.md.
//!
//! One JSON object a line. `kind` says which; records of one run name it, in any order and spread
//! over any number of files. An object without `kind` is a benchmark as `./pen bench --json` prints
//! it. Unknown fields are errors: a misspelt one must not pass unseen.

use serde::{Deserialize, Serialize};

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Record {
    /// A run begins.
    Run(Run),
    /// Something measured.
    Value(Value),
    /// A domain's power from a time on, until its next such record.
    Power(Power),
    /// How long a domain was in a state.
    Residency(Residency),
    /// How often something happened.
    Count(Count),
    /// A rule was broken.
    Violation(Violation),
    /// A run ends.
    End(End),
}

/// What the lab did beside running the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It kept time.
    Time,
    /// And accounted energy.
    Energy,
    /// It watched the caches instead.
    Sanitizer,
    /// Everything.
    Full,
}

/// Where the costs of instructions and devices come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Costs {
    /// The board file.
    Board,
    /// Everything beside instructions is free.
    Zero,
}

/// The head of a run. Runs that differ in `run` and `repetition` only are repetitions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Its name, no other run's.
    pub run: String,
    /// What was run.
    pub scenario: String,
    /// On which board.
    pub board: String,
    /// What the lab did.
    pub mode: Mode,
    /// Hash of everything that decides about the result: board, kernels, plugin. 16 hex digits.
    pub model: String,
    /// Which costs.
    pub costs: Costs,
    /// Will it come out the same every time, to the bit?
    pub exact: bool,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// What else was chosen.
    #[serde(default)]
    pub config: String,
}

/// Something measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Of which run.
    pub run: String,
    /// What; stable.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: String,
    /// Linux, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linux: Option<f64>,
    /// What Linux did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub linux_what: String,
}

/// A step of a domain's power.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Of which run.
    pub run: String,
    /// Which domain.
    pub domain: String,
    /// From this SoC time on.
    pub at_ns: u64,
    /// So much.
    pub mw: f64,
}

/// What a domain can be doing, from the most power to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Executing.
    Active,
    /// Waiting for an interrupt.
    Idle,
    /// Its clock stands still.
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
    /// Of which run.
    pub run: String,
    /// Which domain.
    pub domain: String,
    /// In which state.
    pub state: State,
    /// At this frequency.
    pub mhz: u32,
    /// How long in all.
    pub ns: u64,
    /// Energy in all, in microjoules.
    pub uj: f64,
}

/// How often something happened: messages, faults, misses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// Of which run.
    pub run: String,
    /// To which domain.
    pub domain: String,
    /// What.
    pub what: String,
    /// How often.
    pub value: u64,
}

/// A rule was broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Violation {
    /// Of which run.
    pub run: String,
    /// By which domain.
    pub domain: String,
    /// What happened, as a sentence.
    pub text: String,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Of which run.
    pub run: String,
    /// At this SoC time.
    pub at_ns: u64,
}

/// A benchmark: a line of `./pen bench --json`. It belongs to no run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bench {
    /// What; stable.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: String,
    /// On which board.
    pub board: String,
    /// What else was chosen.
    #[serde(default)]
    pub config: String,
    /// Linux, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linux: Option<f64>,
    /// What Linux did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub linux_what: String,
}

/// What a line may be.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// A record of a run.
    Record(Record),
    /// A benchmark.
    Bench(Bench),
}

/// Why a line is no record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No JSON.
    #[error("not JSON, at column {}", .0.column())]
    Json(serde_json::Error),
    /// JSON, but no record.
    #[error("not a record: {0}")]
    Shape(serde_json::Error),
    /// Neither kind nor name.
    #[error("not a record: it has neither \"kind\" nor \"name\"")]
    Nameless,
    /// A model that is no hash.
    #[error("model is {0:?}, it should be 16 hex digits")]
    Model(String),
    /// Power or energy below 0.
    #[error("{0} is {1}, it cannot be negative")]
    Negative(&'static str, f64),
}

impl Record {
    /// The run it belongs to.
    pub fn run(&self) -> &str {
        match self {
            Record::Run(r) => &r.run,
            Record::Value(r) => &r.run,
            Record::Power(r) => &r.run,
            Record::Residency(r) => &r.run,
            Record::Count(r) => &r.run,
            Record::Violation(r) => &r.run,
            Record::End(r) => &r.run,
        }
    }

    /// What types cannot say.
    fn check(&self) -> Result<(), RecordError> {
        match self {
            Record::Run(r) if !is_hash(&r.model) => Err(RecordError::Model(r.model.clone())),
            Record::Power(r) if r.mw < 0.0 => Err(RecordError::Negative("mw", r.mw)),
            Record::Residency(r) if r.uj < 0.0 => Err(RecordError::Negative("uj", r.uj)),
            _ => Ok(()),
        }
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Reads a line.
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

//! Parses the guest's console output, line by line, and extracts the results.

use super::BOARD;
use super::episode::Episode;
use lab::Ps;
use lab::model::Lab;
use records::record::{Bench, Costs, End, Mode, Record, Run, Value};
use thiserror::Error;

/// Why a run failed; the text is shown to the user.
#[derive(Debug, Error, PartialEq)]
pub enum RecordError {
    /// A benchmark failed, with this message.
    #[error("the guest reports a failure: {0}")]
    Failed(String),
    /// The kernel panicked.
    #[error("the guest's kernel panicked: {0}")]
    Panic(String),
    /// Figures are missing.
    #[error("the guest printed {said} records, but {came} arrived: the console lost lines")]
    Lost {
        /// The number that the guest reports.
        said: usize,
        /// The number received.
        came: usize,
    },
    /// The guest ended early.
    #[error("the guest ended before it had finished")]
    Unfinished,
}

/// A measured figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the benchmark.
    pub name: String,
    /// Value per operation.
    pub value: f64,
    /// "ns" or "ns/KiB".
    pub unit: String,
    /// Number of measured operations.
    pub operations: f64,
}

/// A parser of the console.
#[derive(Debug, Default)]
pub struct Reader {
    /// Benchmarks that the guest lists.
    pub cases: Vec<String>,
    came: usize,
    said: Option<usize>,
    trouble: Option<RecordError>,
    done: bool,
}

impl Reader {
    /// Parses a line. Returns the figure in it.
    pub fn line(&mut self, line: &str) -> Option<Figure> {
        let line = line.trim();
        if let Some(why) = line.strip_prefix("failed ") {
            self.trouble.get_or_insert(RecordError::Failed(why.to_string()));
        } else if let Some((_, why)) = line.split_once("Kernel panic - ") {
            self.trouble.get_or_insert(RecordError::Panic(why.to_string()));
        } else if let Some(count) = line.strip_prefix("records ") {
            self.said = count.parse().ok();
        } else if let Some(name) = line.strip_prefix("case ") {
            self.cases.push(name.to_string());
        } else if line == "lab: done" {
            self.done = true;
        } else if let Some(figure) = figure(line) {
            self.came += 1;
            return Some(figure);
        }
        None
    }

    /// Returns the result, once the console is closed.
    pub fn end(&mut self) -> Result<usize, RecordError> {
        let came = self.came;
        match (self.trouble.take(), self.said) {
            (Some(trouble), _) => Err(trouble),
            (None, Some(said)) if said != came => Err(RecordError::Lost { said, came }),
            (None, Some(_)) if self.done => Ok(came),
            (None, _) => Err(RecordError::Unfinished),
        }
    }
}

fn figure(line: &str) -> Option<Figure> {
    let mut words = line.strip_prefix("record ")?.split_whitespace();
    let (name, value, unit) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let operations = words.next()?.parse().ok().filter(|&count: &f64| count > 0.0)?;
    let figure = Figure { name: name.to_string(), value, unit: unit.to_string(), operations };
    words.next().is_none().then_some(figure)
}

/// Formats the figure as `pen bench --json` does. Under exact counts a nanosecond of the guest is
/// an instruction.
pub fn counted(figure: &Figure, config: &str) -> serde_json::Result<String> {
    let record = Bench {
        name: figure.name.clone(),
        value: figure.value,
        unit: figure.unit.replacen("ns", "instructions", 1),
        board: "linux-arm64".to_string(),
        config: config.to_string(),
        linux: None,
        linux_what: String::new(),
    };
    serde_json::to_string(&record)
}

/// Returns the head of a series in the lab.
pub fn head(title: &str, run: &str, lab: &Lab, no_costs: bool, config: &str) -> Record {
    Record::Run(Run {
        run: run.to_string(),
        scenario: title.to_string(),
        board: BOARD.to_string(),
        mode: Mode::Energy,
        model: lab.hash.clone(),
        costs: Some(if no_costs { Costs::Zero } else { Costs::Board }),
        exact: true,
        repetition: 1,
        config: config.to_string(),
    })
}

/// Returns the end of a series, with the total duration of its episodes.
pub fn end(run: &str, time: Ps) -> Record {
    Record::End(End { run: run.to_string(), at_ns: time / 1000 })
}

/// Returns a benchmark's time and energy: per operation, then of its whole episode and its parts.
pub fn episode(run: &str, figure: &Figure, episode: &Episode) -> Vec<Record> {
    let name = format!("linux.{}", figure.name);
    let value = |name: String, value: f64, unit: String| {
        let (run, linux, linux_what) = (run.to_string(), None, String::new());
        Record::Value(Value { run, name, value, unit, linux, linux_what })
    };
    let (time, energy) = per_operation(figure, episode);
    let mut records = vec![
        value(name.clone(), time, figure.unit.clone()),
        value(name.clone(), energy, figure.unit.replacen("ns", "uJ", 1)),
        value(format!("{name}.operations"), figure.operations, "operations".to_string()),
        value(format!("{name}.whole"), uj(episode.whole().energy_pj), "uJ".to_string()),
    ];
    records.extend(
        episode.parts().into_iter().map(|(part, used)| {
            value(format!("{name}.{part}"), uj(used.energy_pj), "uJ".to_string())
        }),
    );
    records
}

/// Formats a line for people.
pub fn summary(figure: &Figure, episode: &Episode) -> String {
    let (time, energy) = per_operation(figure, episode);
    let per = figure.unit.strip_prefix("ns").unwrap_or_default();
    let whole = uj(episode.whole().energy_pj) / 1e3;
    format!(
        "{:<28} {time:>14.1} ns{per:<4} {energy:>12.4} uJ{per:<4} episode {whole:>9.3} mJ",
        figure.name
    )
}

/// Returns nanoseconds and microjoules per operation.
pub fn per_operation(figure: &Figure, episode: &Episode) -> (f64, f64) {
    let work = episode.work;
    (work.time as f64 / 1e3 / figure.operations, uj(work.energy_pj) / figure.operations)
}

fn uj(pj: u128) -> f64 {
    pj as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::super::episode::Used;
    use super::*;

    fn read(text: &str) -> (Vec<Figure>, Result<usize, RecordError>) {
        let mut reader = Reader::default();
        let figures = text.lines().filter_map(|line| reader.line(line)).collect();
        (figures, reader.end())
    }

    #[test]
    fn a_good_run_is_read() {
        let text = "[    0.5] booting\r\ncase call.null\r\n\
                    record call.null 446.3 ns 20000\r\nskipped dma.4k\r\n\
                    record udp.1k.life_4k 15802.0 ns/KiB 2.5\r\nrecords 2\r\nlab: done\r\n";
        let (figures, end) = read(text);
        assert_eq!(end, Ok(2));
        assert_eq!((figures[0].name.as_str(), figures[0].operations), ("call.null", 20000.0));
        assert_eq!((figures[1].value, figures[1].unit.as_str()), (15802.0, "ns/KiB"));
    }

    #[test]
    fn bad_runs_say_what_was_bad() {
        let bad = |text| read(text).1.unwrap_err();
        let why = "call.null: what: why";
        let failed = bad("record a 1 ns 9\nfailed call.null: what: why\nlab: failed\n");
        assert_eq!(failed, RecordError::Failed(why.to_string()));
        let panic = bad("[ 1.0] Kernel panic - not syncing: no init\n");
        assert_eq!(panic, RecordError::Panic("not syncing: no init".to_string()));
        let lost = bad("record a 1 ns 9\nrecords 2\nlab: done\n");
        assert_eq!(lost, RecordError::Lost { said: 2, came: 1 });
        assert_eq!(bad("record a 1 ns 9\nrecords 1\n"), RecordError::Unfinished);
        assert_eq!(bad(""), RecordError::Unfinished);
        assert_eq!(
            bad("record a one ns 1\nrecord b 1 ns\nrecord c 1 ns 0\nrecords 1\nlab: done\n"),
            { RecordError::Lost { said: 1, came: 0 } }
        );
    }

    #[test]
    fn exact_counts_are_instructions() {
        let (name, unit) = ("a".to_string(), "ns/KiB".to_string());
        let figure = Figure { name, value: 2.5, unit, operations: 1.0 };
        let head = r#"{"name":"a","value":2.5,"unit":"instructions/KiB","#;
        let tail = r#""board":"linux-arm64","config":"icount"}"#;
        assert_eq!(counted(&figure, "icount").unwrap(), format!("{head}{tail}"));
    }

    #[test]
    fn an_episode_is_told_in_whole_and_in_parts() {
        let (name, unit) = ("udp.1k".to_string(), "ns/KiB".to_string());
        let figure = Figure { name, value: 0.0, unit, operations: 4.0 };
        let used = |time, energy_pj| Used { time, energy_pj };
        let apart = used(1_000_000_000_000, 100_000_000);
        let (wake, work) = (used(300_000_000, 23_940_000), used(8_000_000, 640_000));
        let idle = used(5_000_000_000_000, 126_000_000_000);
        let told = episode("run", &figure, &Episode { inactive: apart, wake, work, idle });
        let told: Vec<_> = told
            .iter()
            .map(|record| match record {
                Record::Value(v) => (v.name.as_str(), v.value, v.unit.as_str()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(told[0], ("linux.udp.1k", 2000.0, "ns/KiB"));
        assert_eq!(told[1], ("linux.udp.1k", 0.16, "uJ/KiB"));
        assert_eq!(told[2], ("linux.udp.1k.operations", 4.0, "operations"));
        assert_eq!(told[3], ("linux.udp.1k.whole", 126_224.58, "uJ"));
        assert_eq!(told[6], ("linux.udp.1k.work", 0.64, "uJ"));
        let sum: f64 = told[4..].iter().map(|(_, value, _)| value).sum();
        assert!((sum - told[3].1).abs() < 1e-6 && told.len() == 9, "{told:?}");
    }
}

//! What the guest says on its console, line by line, and what of it is a result.

use crate::report::record::Bench;
use thiserror::Error;

/// What came of a run; each is told to the person as it stands.
#[derive(Debug, Error, PartialEq)]
pub enum RecordError {
    /// A case failed, and said why.
    #[error("the guest says: failed {0}")]
    Failed(String),
    /// The kernel died.
    #[error("the guest's kernel panicked: {0}")]
    Panic(String),
    /// Some were lost.
    #[error("the guest measured {said} records, {came} came: the console lost lines")]
    Lost {
        /// What the guest says.
        said: usize,
        /// What came.
        came: usize,
    },
    /// It ended early.
    #[error("the guest ended before it had said that it was done")]
    Unfinished,
}

/// One measured figure, as the guest says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the case.
    pub name: String,
    /// Of one operation.
    pub value: f64,
    /// "ns" or "ns/KiB".
    pub unit: String,
}

/// Reads the console.
#[derive(Debug, Default)]
pub struct Reader {
    came: usize,
    said: Option<usize>,
    trouble: Option<RecordError>,
    done: bool,
}

impl Reader {
    /// Takes one line; answers the figure in it.
    pub fn line(&mut self, line: &str) -> Option<Figure> {
        let line = line.trim();
        if let Some(why) = line.strip_prefix("failed ") {
            self.trouble.get_or_insert(RecordError::Failed(why.to_string()));
        } else if let Some((_, why)) = line.split_once("Kernel panic - ") {
            self.trouble.get_or_insert(RecordError::Panic(why.to_string()));
        } else if let Some(count) = line.strip_prefix("records ") {
            self.said = count.parse().ok();
        } else if line == "lab: done" {
            self.done = true;
        } else if let Some(figure) = figure(line) {
            self.came += 1;
            return Some(figure);
        }
        None
    }

    /// How it went, once the console is closed.
    pub fn end(self) -> Result<usize, RecordError> {
        let came = self.came;
        match (self.trouble, self.said) {
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
    let figure = Figure { name: name.to_string(), value, unit: unit.to_string() };
    words.next().is_none().then_some(figure)
}

/// The figure as `pen bench --json` would say it. Under exact counts a nanosecond of the guest is
/// an instruction.
pub fn json(figure: &Figure, icount: bool, config: &str) -> serde_json::Result<String> {
    let unit = match icount {
        true => figure.unit.replacen("ns", "instructions", 1),
        false => figure.unit.clone(),
    };
    let record = Bench {
        name: figure.name.clone(),
        value: figure.value,
        unit,
        board: "linux-arm64".to_string(),
        config: config.to_string(),
        linux: None,
        linux_what: String::new(),
    };
    serde_json::to_string(&record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Figure>, Result<usize, RecordError>) {
        let mut reader = Reader::default();
        let figures = text.lines().filter_map(|line| reader.line(line)).collect();
        (figures, reader.end())
    }

    #[test]
    fn a_good_run_is_read() {
        let text = "[    0.5] booting\r\nrecord call.null 446.3 ns\r\nskipped dma.4k\r\n\
                    record udp.1k.life_4k 15802.0 ns/KiB\r\nrecords 2\r\nlab: done\r\n";
        let (figures, end) = read(text);
        assert_eq!(end, Ok(2));
        assert_eq!(figures[0].name, "call.null");
        assert_eq!((figures[1].value, figures[1].unit.as_str()), (15802.0, "ns/KiB"));
    }

    #[test]
    fn bad_runs_say_what_was_bad() {
        let bad = |text| read(text).1.unwrap_err();
        let why = "call.null: what: why";
        let failed = bad("record a 1 ns\nfailed call.null: what: why\nlab: failed\n");
        assert_eq!(failed, RecordError::Failed(why.to_string()));
        let panic = bad("[ 1.0] Kernel panic - not syncing: no init\n");
        assert_eq!(panic, RecordError::Panic("not syncing: no init".to_string()));
        let lost = bad("record a 1 ns\nrecords 2\nlab: done\n");
        assert_eq!(lost, RecordError::Lost { said: 2, came: 1 });
        assert_eq!(bad("record a 1 ns\nrecords 1\n"), RecordError::Unfinished);
        assert_eq!(bad(""), RecordError::Unfinished);
        assert_eq!(bad("record a one ns\nrecord b 1\nrecords 1\nlab: done\n"), {
            RecordError::Lost { said: 1, came: 0 }
        });
    }

    #[test]
    fn exact_counts_are_instructions() {
        let figure = Figure { name: "a".into(), value: 2.5, unit: "ns/KiB".into() };
        let head = r#"{"name":"a","value":2.5,"unit":"instructions/KiB","#;
        let tail = r#""board":"linux-arm64","config":"icount"}"#;
        assert_eq!(json(&figure, true, "icount").unwrap(), format!("{head}{tail}"));
        assert!(json(&figure, false, "").unwrap().contains(r#""unit":"ns/KiB""#));
    }
}

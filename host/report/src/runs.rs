//! Combines records to runs, and repetitions to setups.

use super::read::{Input, Problem};
use super::steps::Steps;
use records::record::{Bench, Count, Line, Record, Residency, Run as Head, Talk, Value, Violation};
use std::collections::BTreeMap;

/// Everything on the page.
#[derive(Debug, Default)]
pub struct Report {
    /// Files that were read.
    pub files: Vec<String>,
    /// Number of valid records.
    pub records: usize,
    /// Ordered by first occurrence.
    pub setups: Vec<Setup>,
    /// Benchmarks.
    pub benches: Vec<Bench>,
    /// Lines that were left out.
    pub problems: Vec<Problem>,
}

/// Runs that differ only in their repetition.
#[derive(Debug)]
pub struct Setup {
    /// Ordered by repetition; at least one.
    pub runs: Vec<Run>,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its head.
    pub head: Head,
    /// Measured values.
    pub values: Vec<Value>,
    /// Power of each domain.
    pub power: Vec<(String, Steps)>,
    /// States of each domain.
    pub residency: Vec<Residency>,
    /// Counters.
    pub counts: Vec<Count>,
    /// What programs have sent each other.
    pub talks: Vec<Talk>,
    /// Violated rules.
    pub violations: Vec<Violation>,
    /// When it ended, if there is a record.
    pub end: Option<u64>,
}

/// A value over the repetitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The first repetition's record.
    pub value: Value,
    /// The values of all repetitions, ascending.
    pub sorted: Vec<f64>,
    /// Whether there are several repetitions, all with the same value, bit by bit.
    pub identical: bool,
}

impl Row {
    /// Returns the median; for an even number the mean of the middle two.
    pub fn median(&self) -> f64 {
        let (half, odd) = (self.sorted.len() / 2, self.sorted.len() % 2 == 1);
        if odd { self.sorted[half] } else { (self.sorted[half - 1] + self.sorted[half]) / 2.0 }
    }
}

impl Run {
    fn new(head: Head) -> Run {
        Run {
            head,
            values: vec![],
            power: vec![],
            residency: vec![],
            counts: vec![],
            talks: vec![],
            violations: vec![],
            end: None,
        }
    }

    /// Returns its domains, ordered by first occurrence.
    pub fn domains(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        let power = self.power.iter().map(|(domain, _)| domain);
        let residency = self.residency.iter().map(|r| &r.domain);
        let counts = self.counts.iter().map(|c| &c.domain);
        let talks = self.talks.iter().flat_map(|t| [&t.client_kernel, &t.server_kernel]);
        for domain in power.chain(residency).chain(counts).chain(talks) {
            if !all.contains(&domain.as_str()) {
                all.push(domain);
            }
        }
        all
    }

    /// Returns when it ended; without such a record, the time of the last event.
    pub fn length(&self) -> u64 {
        let steps = self.power.iter().map(|(_, steps)| steps.last());
        let mut resided: BTreeMap<&str, u64> = BTreeMap::new();
        for r in &self.residency {
            *resided.entry(&r.domain).or_default() += r.ns;
        }
        self.end.unwrap_or_else(|| steps.chain(resided.into_values()).max().unwrap_or(0))
    }

    /// Returns the energy from power records, in microjoules; `None` without any.
    pub fn drawn_uj(&self) -> Option<f64> {
        let length = self.length();
        let areas = self.power.iter().map(|(_, steps)| steps.area(0, length));
        (!self.power.is_empty()).then(|| areas.sum::<f64>() / 1e6)
    }

    /// Returns the energy from residencies, in microjoules; `None` without any.
    pub fn accounted_uj(&self) -> Option<f64> {
        (!self.residency.is_empty()).then(|| self.residency.iter().map(|r| r.uj).sum())
    }

    /// Returns whether `other` is the same except for name and repetition. (No record contains NaN,
    /// and -0.0 counts as 0.0.)
    fn repeats(&self, other: &Run) -> bool {
        let plain = |run: &Run| {
            let mut run = run.clone();
            run.head.repetition = 0;
            run.head.run.clear();
            run.values.iter_mut().for_each(|r| r.run.clear());
            run.residency.iter_mut().for_each(|r| r.run.clear());
            run.counts.iter_mut().for_each(|r| r.run.clear());
            run.talks.iter_mut().for_each(|r| r.run.clear());
            run.violations.iter_mut().for_each(|r| r.run.clear());
            run.values.sort_by(|a, b| a.name.cmp(&b.name));
            run.power.sort_by(|a, b| a.0.cmp(&b.0));
            let key = |r: &Residency| (r.domain.clone(), r.state, r.mhz);
            run.residency.sort_by_key(key);
            run.counts.sort_by_key(|r| (r.domain.clone(), r.what.clone()));
            run.talks.sort();
            run.violations.sort();
            run
        };
        plain(self) == plain(other)
    }
}

impl Setup {
    /// Returns the common head of its runs.
    pub fn head(&self) -> &Head {
        &self.runs[0].head
    }

    /// Returns whether all repetitions agree in everything; `None` for a single run.
    pub fn identical(&self) -> Option<bool> {
        let (first, rest) = self.runs.split_first()?;
        (!rest.is_empty()).then(|| rest.iter().all(|run| first.repeats(run)))
    }

    /// Returns the violations of all runs.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.runs.iter().flat_map(|run| &run.violations)
    }

    /// Returns the measured values, ordered by first occurrence.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for value in self.runs.iter().flat_map(|run| &run.values) {
            let same =
                |row: &&mut Row| row.value.name == value.name && row.value.unit == value.unit;
            match rows.iter_mut().find(same) {
                Some(row) => row.sorted.push(value.value),
                None => rows.push(Row {
                    value: value.clone(),
                    sorted: vec![value.value],
                    identical: false,
                }),
            }
        }
        for row in &mut rows {
            row.sorted.sort_by(f64::total_cmp);
            let all = self.runs.len() > 1 && row.sorted.len().is_multiple_of(self.runs.len());
            let (first, last) = (row.sorted[0], row.sorted[row.sorted.len() - 1]);
            row.identical = all && first.to_bits() == last.to_bits();
        }
        rows
    }
}

/// Combines records. A record of a run without a head is a problem, and so is a second, different
/// head.
pub fn assemble(input: Input) -> Report {
    let mut builder = Builder::default();
    let (heads, rest): (Vec<_>, Vec<_>) =
        input.lines.into_iter().partition(|(_, l)| matches!(l, Line::Record(Record::Run(_))));
    let mut report = Report { files: input.files, problems: input.problems, ..Report::default() };
    for (origin, line) in heads.into_iter().chain(rest) {
        match builder.take(line) {
            Ok(()) => report.records += 1,
            Err(reason) => report.problems.push(Problem { place: origin, reason }),
        }
    }
    let position = |p: &Problem| {
        let file = report.files.iter().position(|f| *f == p.place.file);
        (file, p.place.line)
    };
    report.problems.sort_by_cached_key(position);
    report.benches = builder.benches;
    report.setups = group(builder.runs);
    report
}

#[derive(Default)]
struct Builder {
    runs: Vec<Building>,
    by_name: BTreeMap<String, usize>,
    benches: Vec<Bench>,
}

struct Building {
    run: Run,
    power: Vec<(String, Vec<(u64, f64)>)>,
}

impl Builder {
    fn take(&mut self, line: Line) -> Result<(), String> {
        let record = match line {
            Line::Bench(bench) => {
                self.benches.push(bench);
                return Ok(());
            }
            Line::Record(Record::Run(head)) => return self.begin(head),
            Line::Record(record) => record,
        };
        let name = record.run();
        let Some(at) = self.by_name.get(name) else {
            return Err(format!("no record of kind \"run\" describes run {name:?}"));
        };
        self.runs[*at].add(record)
    }

    fn begin(&mut self, head: Head) -> Result<(), String> {
        match self.by_name.get(&head.run) {
            Some(at) if self.runs[*at].run.head == head => Ok(()),
            Some(_) => Err(format!("run {:?} was described before, in another way", head.run)),
            None => {
                self.by_name.insert(head.run.clone(), self.runs.len());
                self.runs.push(Building { run: Run::new(head), power: vec![] });
                Ok(())
            }
        }
    }
}

impl Building {
    fn add(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Run(_) => {}
            Record::Value(r) => self.run.values.push(r),
            Record::Power(r) => {
                let found = self.power.iter_mut().find(|(domain, _)| *domain == r.domain);
                match found {
                    Some((_, steps)) => steps.push((r.at_ns, r.mw)),
                    None => self.power.push((r.domain, vec![(r.at_ns, r.mw)])),
                }
            }
            Record::Residency(r) => self.reside(r),
            Record::Count(r) => self.count(r),
            Record::Talk(r) => r.add_to(&mut self.run.talks),
            Record::Violation(r) => self.run.violations.push(r),
            Record::End(r) => {
                if self.run.end.is_some_and(|end| end != r.at_ns) {
                    return Err(format!("run {:?} has ended before, at another time", r.run));
                }
                self.run.end = Some(r.at_ns);
            }
        }
        Ok(())
    }

    /// Adds the residency to an existing one of the same state.
    fn reside(&mut self, new: Residency) {
        let key = |r: &Residency| (r.domain.clone(), r.state, r.mhz);
        match self.run.residency.iter_mut().find(|r| key(r) == key(&new)) {
            Some(old) => (old.ns, old.uj) = (old.ns.saturating_add(new.ns), old.uj + new.uj),
            None => self.run.residency.push(new),
        }
    }

    /// Adds the count to an existing one of the same name.
    fn count(&mut self, new: Count) {
        let same = |c: &&mut Count| c.domain == new.domain && c.what == new.what;
        match self.run.counts.iter_mut().find(same) {
            Some(old) => old.value = old.value.saturating_add(new.value),
            None => self.run.counts.push(new),
        }
    }
}

fn group(runs: Vec<Building>) -> Vec<Setup> {
    let key = |run: &Run| Head { run: String::new(), repetition: 0, ..run.head.clone() };
    let mut setups: Vec<Setup> = Vec::new();
    for building in runs {
        let power = building.power.into_iter().map(|(domain, steps)| (domain, Steps::new(steps)));
        let run = Run { power: power.collect(), ..building.run };
        match setups.iter_mut().find(|setup| key(&setup.runs[0]) == key(&run)) {
            Some(setup) => setup.runs.push(run),
            None => setups.push(Setup { runs: vec![run] }),
        }
    }
    for setup in &mut setups {
        setup.runs.sort_by_key(|run| run.head.repetition);
    }
    setups
}

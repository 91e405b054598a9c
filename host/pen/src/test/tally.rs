//! What came of the tests, and where the time went.

use super::counts::Counts;
use super::night::Night;
use std::time::Duration;
use tree::counted::Counted;

/// So many of the slowest are named.
const SLOWEST: usize = 10;

/// Results so far.
#[derive(Default)]
pub struct Tally {
    passed: usize,
    failed: usize,
    /// How many had passed when the stage began.
    passed_before: usize,
    /// What failed and why: said again at the end, where a long log is read first.
    failures: Vec<String>,
    stages: Vec<(String, Duration)>,
    times: Vec<(String, Duration)>,
    /// Of a nightly run.
    night: Option<(Night, Counts)>,
}

impl Tally {
    pub fn of(night: Option<(Night, Counts)>) -> Tally {
        Tally { night, ..Tally::default() }
    }

    /// Returns whether a test, or a program of tests, has passed in the run that this one resumes.
    pub fn is_done(&self, name: &str) -> bool {
        self.night.as_ref().is_some_and(|(night, _)| night.has(name))
    }

    /// Records for a later run that a test, or a program of tests, has passed.
    pub fn done(&mut self, name: &str) -> std::io::Result<()> {
        self.night.as_mut().map_or(Ok(()), |(night, _)| night.add(name))
    }

    /// Adds what a test or a program has done to the counts of the night.
    pub fn counted(&mut self, name: &str, took: Duration, done: &Counted) -> anyhow::Result<()> {
        self.night.as_mut().map_or(Ok(()), |(_, counts)| counts.add(name, took, done))
    }

    /// Begins a stage.
    pub fn begin_stage(&mut self, name: &str) {
        self.passed_before = self.passed;
        if let Some((_, counts)) = &mut self.night {
            counts.begin_stage(name);
        }
    }

    /// One has passed.
    pub fn passed(&mut self, name: &str, took: Duration) {
        self.passed += 1;
        self.took(name, took);
    }

    /// One has failed.
    pub fn failed(&mut self, name: &str, took: Duration, why: &str) {
        self.failed += 1;
        self.took(name, took);
        self.failures.push(format!("{name}: {why}"));
    }

    fn took(&mut self, name: &str, took: Duration) {
        self.times.push((name.to_string(), took));
    }

    /// Ends the stage, which took so long.
    pub fn end_stage(&mut self, name: &str, took: Duration) -> anyhow::Result<()> {
        self.stages.push((name.to_string(), took));
        let tests = (self.passed - self.passed_before) as u64;
        self.night.as_mut().map_or(Ok(()), |(_, counts)| counts.end_stage(tests))
    }

    /// How many have passed and failed.
    pub fn counts(&self) -> (usize, usize) {
        (self.passed, self.failed)
    }

    /// What failed, and why.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Returns the table of what this night and all nights have done, after a nightly run.
    pub fn night(&self) -> Option<String> {
        self.night.as_ref().map(|(_, counts)| counts.report())
    }

    /// Where the time went: the stages in their order, and the slowest tests.
    pub fn report(&self) -> String {
        let mut slowest: Vec<_> = self.times.iter().collect();
        slowest.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        slowest.truncate(SLOWEST);
        let line = |(name, took): &(String, Duration)| {
            format!("  {name:<60} {:>7.1} s\n", took.as_secs_f64())
        };
        let stages: String = self.stages.iter().map(line).collect();
        let slowest: String = slowest.into_iter().map(line).collect();
        format!("where the time went:\n{stages}the slowest tests:\n{slowest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_named_first() {
        let mut tally = Tally::default();
        for number in 0..20 {
            tally.passed(&format!("test-{number:02}"), Duration::from_secs(number));
        }
        tally.failed("test-20", Duration::from_secs(99), "it is wrong");
        tally.end_stage("scenarios", Duration::from_secs(7)).unwrap();
        let report = tally.report();
        assert!(report.contains("scenarios") && report.contains("7.0 s"));
        let place = |name: &str| report.find(name);
        assert!(place("test-20") < place("test-19") && place("test-19") < place("test-12"));
        assert_eq!((place("test-09"), tally.counts()), (None, (20, 1)));
        assert_eq!(tally.failures(), ["test-20: it is wrong"]);
    }
}

//! What nightly runs have counted: by the present night, and by all nights of a folder.
//!
//! ```text
//!   target/tests/counts    stage  NAME  ms of the night
//!   (columns: tabs)        step   NAME  UNIT  ms  count of the night  count of all nights
//! ```
//! A stage has the steps that follow it. Stages run one after the other, so the sum of their times
//! is that of the night; steps may run at the same time. A night is a run without `--resume` and
//! those that resume it.
//!
//! Contract: the file is replaced by a rename, after each step, so an interruption loses what the
//! steps under way have done. Lines that are damaged are left out, with a warning; the file is then
//! kept beside.

use anyhow::Context;
use records::number;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tree::counted::Counted;

/// What a night may take.
const NIGHT: Duration = Duration::from_secs(6 * 3600);
/// First line of the file.
const HEAD: &str = "# What nightly runs have counted: docs/reference/testing.md, \"Nightly\".\n";
/// Unit of what a stage counts.
const TESTS: &str = "tests";

/// The counts, and their file.
pub struct Counts {
    path: PathBuf,
    stages: Vec<Stage>,
    /// The stage under way, and the time up to which it has been added.
    current: Option<(usize, Instant)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Stage {
    name: String,
    /// Milliseconds of this night.
    took: u64,
    steps: Vec<Step>,
}

/// What a step counts in one unit. The step that has the name of its stage counts its tests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    name: String,
    unit: String,
    took: u64,
    night: u64,
    total: u64,
}

impl Counts {
    /// Reads the file, if there is one, and begins a night, or continues the last one.
    pub fn begin(path: &Path, resume: bool) -> anyhow::Result<Counts> {
        let shown = || path.display().to_string();
        let stages = match std::fs::read(path) {
            Err(why) if why.kind() == ErrorKind::NotFound => Vec::new(),
            bytes => {
                let bytes = bytes.with_context(shown)?;
                let (stages, damaged) = parse(&String::from_utf8_lossy(&bytes));
                if damaged > 0 {
                    let kept = path.with_extension("damaged");
                    std::fs::write(&kept, &bytes).with_context(|| kept.display().to_string())?;
                    eprintln!(
                        "pen: {}: damaged lines are left out ({damaged}); the file is kept as {}",
                        shown(),
                        kept.display()
                    );
                }
                stages
            }
        };
        let mut counts = Counts { path: path.to_path_buf(), stages, current: None };
        if !resume {
            for stage in &mut counts.stages {
                stage.took = 0;
                stage.steps.iter_mut().for_each(|step| (step.took, step.night) = (0, 0));
            }
        }
        counts.write()?;
        Ok(counts)
    }

    /// Begins a stage: the steps that follow are its steps.
    pub fn begin_stage(&mut self, name: &str) {
        let known = self.stages.iter().position(|stage| stage.name == name);
        let index = known.unwrap_or_else(|| {
            self.stages.push(Stage { name: name.to_owned(), ..Stage::default() });
            self.stages.len() - 1
        });
        self.current = Some((index, Instant::now()));
    }

    /// Ends the stage, in which so many tests have passed.
    pub fn end_stage(&mut self, tests: u64) -> anyhow::Result<()> {
        let Some((index, _)) = self.current else { return Ok(()) };
        let name = self.stages[index].name.clone();
        let added = self.add(&name, Duration::ZERO, &Counted::of(tests, TESTS));
        self.current = None;
        added
    }

    /// Adds what a step of the stage has done, whether it passed or not.
    pub fn add(&mut self, name: &str, took: Duration, counted: &Counted) -> anyhow::Result<()> {
        let Some((index, since)) = &mut self.current else { return Ok(()) };
        let stage = &mut self.stages[*index];
        stage.took = stage.took.saturating_add(ms(since.elapsed()));
        *since = Instant::now();
        for (unit, count) in counted.iter() {
            let is_it = |step: &Step| step.name == name && step.unit == unit;
            let at = stage.steps.iter().position(is_it).unwrap_or_else(|| {
                let (name, unit) = (name.to_owned(), unit.to_owned());
                stage.steps.push(Step { name, unit, ..Step::default() });
                stage.steps.len() - 1
            });
            let step = &mut stage.steps[at];
            step.took = step.took.saturating_add(ms(took));
            step.night = step.night.saturating_add(count);
            step.total = step.total.saturating_add(count);
        }
        self.write()
    }

    fn write(&self) -> anyhow::Result<()> {
        let mut text = HEAD.to_owned();
        for stage in &self.stages {
            writeln!(text, "stage\t{}\t{}", stage.name, stage.took)?;
            for Step { name, unit, took, night, total } in &stage.steps {
                writeln!(text, "step\t{name}\t{unit}\t{took}\t{night}\t{total}")?;
            }
        }
        let new = self.path.with_extension("new");
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            // Before the rename: a crash of the host leaves one of the two.
            file.sync_all()
        });
        written
            .and_then(|()| std::fs::rename(&new, &self.path))
            .with_context(|| self.path.display().to_string())
    }

    /// Returns the table for a person.
    pub fn report(&self) -> String {
        let row = |name: &str, took: u64, counts: [&str; 2], unit: &str| {
            let seconds = took as f64 / 1000.0;
            let [night, total] = counts;
            format!("{name:<44} {seconds:>9.1} {night:>13} {total:>13} {unit}\n")
        };
        let head =
            format!("{:<44} {:>9} {:>13} {:>13}\n", "step", "seconds", "night", "all nights");
        let mut table = "what this night and all nights have done:\n".to_owned() + &head;
        for stage in &self.stages {
            let is_own = |step: &&Step| step.name == stage.name && step.unit == TESTS;
            let own = stage.steps.iter().find(is_own);
            let (night, total) = own.map_or((0, 0), |step| (step.night, step.total));
            let counts = [number::count(night), number::count(total)];
            table += &row(&stage.name, stage.took, counts.each_ref().map(String::as_str), TESTS);
            for step in stage.steps.iter().filter(|step| !is_own(step)) {
                let counts = [number::count(step.night), number::count(step.total)];
                let counts = counts.each_ref().map(String::as_str);
                table += &row(&format!("  {}", step.name), step.took, counts, &step.unit);
            }
        }
        let sum = self.stages.iter().fold(0u64, |sum, stage| sum.saturating_add(stage.took));
        let hours = |ms: u64| ms as f64 / 3_600_000.0;
        let verdict = if sum > ms(NIGHT) { "hours, more than" } else { "of" };
        table += &row("sum of the stages", sum, ["", ""], "");
        let line = table.trim_end().to_owned();
        format!("{line}: {:.1} {verdict} {:.0} hours\n", hours(sum), hours(ms(NIGHT)))
    }
}

fn ms(took: Duration) -> u64 {
    took.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Parses the file. Returns the number of damaged lines too.
fn parse(text: &str) -> (Vec<Stage>, usize) {
    // Steps belong to the stage before them, if that line is good.
    let (mut stages, mut belongs, mut damaged) = (Vec::<Stage>::new(), false, 0);
    // A line without an end may have lost digits.
    let (text, rest) = text.rsplit_once('\n').unwrap_or(("", text));
    damaged += usize::from(!rest.is_empty());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split('\t').collect();
        let is_good = match (parts.as_slice(), stages.last_mut().filter(|_| belongs)) {
            (&["stage", name, took], _) => {
                belongs = took.parse().is_ok_and(|took| {
                    let is_new = stages.iter().all(|stage| stage.name != name);
                    if is_new {
                        stages.push(Stage { name: name.to_owned(), took, steps: Vec::new() });
                    }
                    is_new
                });
                belongs
            }
            (&["step", name, unit, ref counts @ ..], Some(stage)) => {
                let is_new = stage.steps.iter().all(|it| (&*it.name, &*it.unit) != (name, unit));
                let counts =
                    counts.iter().map(|count| count.parse()).collect::<Result<Vec<_>, _>>();
                match counts.as_deref() {
                    Ok(&[took, night, total]) if night <= total && is_new => {
                        let (name, unit) = (name.to_owned(), unit.to_owned());
                        stage.steps.push(Step { name, unit, took, night, total });
                        true
                    }
                    _ => false,
                }
            }
            _ => false,
        };
        damaged += usize::from(!is_good);
    }
    (stages, damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_night(path: &Path, resume: bool) -> Counts {
        let mut counts = Counts::begin(path, resume).unwrap();
        counts.begin_stage("simulator");
        let took = Duration::from_millis(1500);
        counts.add("sim.nightly", took, &Counted::of(100_000, "seeds")).unwrap();
        counts.end_stage(1).unwrap();
        counts
    }

    /// Returns the counts of this night, and of all.
    fn of(counts: &Counts, name: &str, unit: &str) -> (u64, u64) {
        let mut steps = counts.stages.iter().flat_map(|stage| &stage.steps);
        let found = steps.find(|step| step.name == name && step.unit == unit);
        found.map_or((0, 0), |step| (step.night, step.total))
    }

    #[test]
    fn counts_of_nights_add_up_and_a_resumed_night_is_the_same_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counts");
        let counts = one_night(&path, false);
        assert_eq!(of(&counts, "sim.nightly", "seeds"), (100_000, 100_000));
        let mut counts = Counts::begin(&path, true).unwrap();
        counts.begin_stage("scenarios");
        let mut done = Counted::of(7, "cuts");
        done.add(3, "rounds");
        counts.add("disk.cuts-often", Duration::from_secs(9), &done).unwrap();
        // This process ends here.
        let counts = Counts::begin(&path, true).unwrap();
        assert_eq!(of(&counts, "sim.nightly", "seeds"), (100_000, 100_000));
        assert_eq!(of(&counts, "disk.cuts-often", "cuts"), (7, 7));
        let counts = one_night(&path, false);
        assert_eq!(of(&counts, "sim.nightly", "seeds"), (100_000, 200_000));
        assert_eq!(of(&counts, "simulator", TESTS), (1, 2));
        assert_eq!(of(&counts, "disk.cuts-often", "rounds"), (0, 3));
        assert!(!path.with_extension("damaged").exists() && !path.with_extension("new").exists());
    }

    #[test]
    fn the_table_has_each_step_and_the_sum_of_the_stages() {
        let folder = tempfile::tempdir().unwrap();
        let mut counts = one_night(&folder.path().join("counts"), false);
        counts.stages[0].took = 5_400_000;
        let stage = Stage { name: "scenarios".into(), took: 1_800_000, steps: vec![] };
        counts.stages.push(stage);
        let report = counts.report();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = report.lines().map(words).collect();
        assert_eq!(
            lines[1..],
            [
                "step seconds night all nights",
                "simulator 5400.0 1 1 tests",
                "sim.nightly 1.5 100 000 100 000 seeds",
                "scenarios 1800.0 0 0 tests",
                "sum of the stages 7200.0: 2.0 of 6 hours",
            ]
        );
        counts.stages[0].took = 6 * 3_600_000;
        assert!(
            counts.report().ends_with(": 6.5 hours, more than 6 hours\n"),
            "{}",
            counts.report()
        );
    }

    #[test]
    fn damage_costs_the_damaged_lines_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counts");
        drop(one_night(&path, false));
        let good = std::fs::read_to_string(&path).unwrap();
        let bad = [
            "step\tsim.nightly\tseeds\t1\t2",
            "step\tsim.nightly\tseeds\t1\t2\t-3",
            "step\tsim.nightly\tseeds\t1\t3\t2",
            "stage\tsimulator\t1",
            "stage\tscenarios",
            "\u{0}\u{0}",
        ];
        for line in bad {
            std::fs::write(&path, format!("{good}{line}\n")).unwrap();
            let counts = Counts::begin(&path, true).unwrap();
            assert_eq!(of(&counts, "sim.nightly", "seeds"), (100_000, 100_000), "{line}");
            assert_eq!(counts.stages.len(), 1, "{line}");
            let kept = std::fs::read_to_string(path.with_extension("damaged")).unwrap();
            assert!(kept.contains(line));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), good);
        }
        for text in ["\u{fffd}", &good[..good.len() - 1], "step\ta\tb\t1\t1\t1\n"] {
            let before = parse(text);
            assert!(before.1 > 0, "{text}");
        }
        // Any bytes, and an end anywhere.
        for end in 0..good.len() {
            std::fs::write(&path, [&good.as_bytes()[..end], &[0xff]].concat()).unwrap();
            Counts::begin(&path, true).unwrap();
        }
    }

    #[test]
    fn steps_of_a_damaged_stage_go_to_no_other_one_and_each_counts_once() {
        let text = "stage\tone\t5\nstep\ta\tseeds\t1\t2\t3\nstep\ta\tseeds\t1\t2\t3\n\
                    stage\ttwo\tx\nstep\tb\tseeds\t1\t2\t3\nstage\tthree\t5\n\
                    step\tb\tseeds\t1\t2\t3\n";
        let (stages, damaged) = parse(text);
        let all: Vec<_> = stages.iter().map(|stage| (&*stage.name, stage.steps.len())).collect();
        assert_eq!((all, damaged), (vec![("one", 1), ("three", 1)], 3));
    }

    #[test]
    fn without_a_stage_nothing_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut counts = Counts::begin(&folder.path().join("counts"), false).unwrap();
        counts.add("a", Duration::ZERO, &Counted::of(1, "rounds")).unwrap();
        counts.end_stage(1).unwrap();
        assert_eq!(counts.stages, []);
    }
}

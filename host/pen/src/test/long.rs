//! What only nightly runs do on the host: many seeds, large models, many power cuts.

use super::Bench;
use anyhow::Context;
use records::said::said;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};
use tree::counted::Counted;
use tree::progress::Step;

/// Workloads of the assembled kernels of which all points are run.
const WORKLOADS: &[&str] = &["files", "pipe", "processes", "channel", "balloon"];

/// Packages with models that have millions of states.
const MODELS: &[&str] = &["kernel-channel", "kernel-dsm", "kernel-light", "sim", "soc"];

impl Bench<'_> {
    pub(super) fn long(&mut self) -> anyhow::Result<()> {
        if self.wanted.has("sim.nightly") {
            self.stage("simulator, 100,000 seeds", |it| it.others("sim", 100_000))?;
        }
        if self.wanted.has("assembled.nightly") {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
            let run = |it: &mut Self| it.many("assembled", 10_000, now * 1000);
            self.stage("assembled kernels, 10,000 seeds", run)?;
            let pairs = ["--pairs", "2000", "--start", &(now * 1000).to_string()].map(String::from);
            let run = |it: &mut Self| it.optimised("assembled.pairs", "assembled", &pairs);
            self.stage("assembled kernels, 2,000 pairs of points", run)?;
            let run =
                |it: &mut Self| WORKLOADS.iter().try_for_each(|name| it.all_points(name, now));
            self.stage("assembled kernels, all points of workloads", run)?;
        }
        if self.wanted.has("abuse.nightly") {
            let all = ["nightly".to_owned()];
            let run = |it: &mut Self| it.optimised("abuse.nightly", "abuse", &all);
            self.stage("abuse of all targets", run)?;
        }
        if self.wanted.has("linear.nightly") {
            let histories = Counted::of(15_000, "histories");
            let run = |it: &mut Self| it.ignored("linear.nightly", &["linear"], histories);
            self.stage("histories with deaths, 15,000 seeds", run)?;
            let seeds = Counted::of(9_500, "seeds");
            let run = |it: &mut Self| it.ignored("net.nightly", &["net"], seeds);
            self.stage("TCP over a bad cable, 9,500 seeds", run)?;
        }
        if self.wanted.has("models.nightly") {
            let run = |it: &mut Self| it.ignored("models.nightly", MODELS, Counted::default());
            self.stage("large models", run)?;
        }
        if self.wanted.has("ext2.nightly") {
            self.stage("power cuts of ext2, 10,000 cuts", Self::ext2_cuts)?;
        }
        Ok(())
    }

    /// Runs the binary of a package over many seeds.
    fn many(&mut self, package: &str, seeds: u64, start: u64) -> anyhow::Result<()> {
        let (seeds, start) = (seeds.to_string(), start.to_string());
        let arguments = ["--seeds", &seeds, "--start", &start].map(String::from);
        self.optimised(&format!("{package}.nightly"), package, &arguments)
    }

    /// The same over seeds that no earlier run had. How many those had is in a file.
    fn others(&mut self, package: &str, seeds: u64) -> anyhow::Result<()> {
        let file = self.place.target.join(format!("{package}-seeds"));
        let before = number_in(&file);
        let failures = self.tally.counts().1;
        self.many(package, seeds, before)?;
        if self.tally.counts().1 == failures {
            std::fs::write(&file, format!("{}\n", before + seeds))?;
        }
        Ok(())
    }

    /// Runs a program of this workspace in an optimised build, as the test `name`. It says what it
    /// has done, in records.
    fn optimised(&mut self, name: &str, package: &str, arguments: &[String]) -> anyhow::Result<()> {
        let mut cargo = self.place.cargo();
        cargo.args(["run", "-q", "--release", "-p", package, "--"]).args(arguments);
        self.timed(name, cargo, |_| Counted::default())
    }

    /// Runs all points of a workload of the assembled kernels, and a quarter of those that it
    /// has with a fresh seed.
    fn all_points(&mut self, name: &str, seed: u64) -> anyhow::Result<()> {
        let (test, all) = (format!("assembled.{name}"), ["--all", name].map(String::from));
        self.optimised(&test, "assembled", &all)?;
        let (seed, offset) = (seed.to_string(), (seed % 4).to_string());
        let fresh = ["--seed", &seed, "--every", "4", "--offset", &offset].map(String::from);
        self.optimised(&format!("{test}.fresh"), "assembled", &[&all[..], &fresh].concat())
    }

    /// Runs the tests of packages that are ignored otherwise, as the test `name`. If they pass,
    /// they have done `all`.
    fn ignored(&mut self, name: &str, packages: &[&str], all: Counted) -> anyhow::Result<()> {
        let mut cargo = self.place.cargo();
        cargo.args(["test", "-q", "--release"]);
        for package in packages {
            cargo.args(["-p", package]);
        }
        cargo.args(["--", "--ignored"]);
        self.timed(name, cargo, |good| if good { all } else { Counted::default() })
    }

    /// Cuts the power of simulated disks. The number of cuts so far is in a file, so that an
    /// interrupted run continues, and the next one makes others.
    fn ext2_cuts(&mut self) -> anyhow::Result<()> {
        let mut cargo = self.place.cargo();
        cargo.args(["test", "-q", "--release", "-p", "fs", "--test", "fs", "--"]);
        cargo.args(["--ignored", "--nocapture", "ten_thousand_cuts"]);
        let file = self.place.target.join("ext2-cuts");
        cargo.env("PEN_EXT2_CUTS", &file);
        let before = number_in(&file);
        let cuts = |_| Counted::of(number_in(&file).saturating_sub(before), "cuts");
        self.timed("ext2.nightly", cargo, cuts)
    }

    /// Runs a command as the test `name`. It has done what its records say, and what `count`
    /// returns, given whether it passed.
    fn timed(
        &mut self,
        name: &str,
        mut cargo: Command,
        count: impl FnOnce(bool) -> Counted,
    ) -> anyhow::Result<()> {
        if self.tally.is_done(name) {
            return Ok(());
        }
        let start = Instant::now();
        let step = Step::begin(name);
        let (good, mut done) = listened(&mut cargo)?;
        step.done();
        done.add_all(&count(good));
        self.tally.counted(name, start.elapsed(), &done)?;
        match good {
            true => {
                self.tally.passed(name, start.elapsed());
                self.tally.done(name)?;
            }
            false => self.tally.failed(name, start.elapsed(), "see above"),
        }
        Ok(())
    }
}

/// Returns the number in a file; 0 if there is none.
fn number_in(file: &Path) -> u64 {
    std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Runs a command whose output is shown. Returns whether it succeeded, and what the records in its
/// output count.
fn listened(command: &mut Command) -> anyhow::Result<(bool, Counted)> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(child.stdout.take().context("no output of a test")?);
    let (mut counted, mut line) = (Counted::default(), Vec::new());
    while output.read_until(b'\n', &mut line)? > 0 {
        std::io::stdout().write_all(&line)?;
        if let Some((_, count, unit)) = said(&String::from_utf8_lossy(&line)) {
            // A float beyond the range becomes the nearest number.
            counted.add(count as u64, &unit);
        }
        line.clear();
    }
    Ok((child.wait()?.success(), counted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_counts_by_the_records_in_its_output() {
        let script = "echo begun; echo record a.b 12 seeds; echo record a.c 3 points; \
                      echo record a.d 1 seeds; printf 'record broken'; exit $CODE";
        for (code, good) in [("0", true), ("1", false)] {
            let mut command = Command::new("sh");
            command.env("CODE", code).args(["-c", script]);
            let mut wanted = Counted::of(13, "seeds");
            wanted.add(3, "points");
            assert_eq!(listened(&mut command).unwrap(), (good, wanted));
        }
    }
}

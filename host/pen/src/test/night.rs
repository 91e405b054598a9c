//! What a nightly run has done: the names of the tests that have passed, in a file, so that
//! `--resume` continues an interrupted run. It counts for one commit only.

use anyhow::{Context, bail};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The names, and the file to which more are added.
pub struct Night {
    passed: BTreeSet<String>,
    file: File,
}

impl Night {
    /// Begins a run of `commit`, or continues that of the file.
    pub fn begin(path: &Path, commit: &str, resume: bool) -> anyhow::Result<Night> {
        let shown = || path.display().to_string();
        let mut passed = BTreeSet::new();
        if resume {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("{}: no run to resume", shown()))?;
            // A line that is not whole was being written when the run ended.
            let mut lines = text.rsplit_once('\n').map_or("", |(whole, _)| whole).lines();
            let before = lines.next().unwrap_or_default();
            if before != commit {
                bail!("the run to resume is of {before}, not {commit}: leave out --resume");
            }
            passed.extend(lines.map(str::to_owned));
        }
        let mut file = File::create(path).with_context(shown)?;
        writeln!(file, "{commit}")?;
        passed.iter().try_for_each(|name| writeln!(file, "{name}"))?;
        Ok(Night { passed, file })
    }

    /// Returns whether a test has passed before.
    pub fn has(&self, name: &str) -> bool {
        self.passed.contains(name)
    }

    /// Returns how many have.
    pub fn count(&self) -> usize {
        self.passed.len()
    }

    /// Records that one has passed.
    pub fn add(&mut self, name: &str) -> std::io::Result<()> {
        writeln!(self.file, "{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_the_same_commit_continues_where_the_last_one_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("night");
        assert!(Night::begin(&path, "one", true).is_err(), "there is none");
        let mut night = Night::begin(&path, "one", false).unwrap();
        ["sim.nightly", "disk.cuts-often"].iter().for_each(|name| night.add(name).unwrap());
        // The last line was being written.
        night.file.write_all(b"lab.pai").unwrap();
        let mut night = Night::begin(&path, "one", true).unwrap();
        assert_eq!(night.count(), 2);
        assert!(night.has("sim.nightly") && !night.has("lab.pai") && !night.has("lab.pairs"));
        night.add("lab.pairs").unwrap();
        assert!(Night::begin(&path, "one", true).unwrap().has("lab.pairs"));
        assert!(Night::begin(&path, "two", true).is_err(), "another commit");
        assert_eq!(Night::begin(&path, "two", false).unwrap().count(), 0);
    }
}

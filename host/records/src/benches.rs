//! The benchmarks that `benches/*.toml` define: how each is measured, and the bars it must meet.

use anyhow::Context;
use serde::Deserialize;
use std::collections::BTreeMap;
use tree::place::Place;

/// A file of `benches/`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Heading of its table.
    pub title: String,
    /// What the table is about.
    pub about: String,
    /// Its benchmarks.
    pub record: Vec<Bench>,
}

/// The source of a value.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// The kernel prints the record.
    Kernel,
    /// Host seconds from the start of the soc to the first prompt.
    Prompt,
    /// The lab, in chip time or as a property of the lab itself.
    Lab,
    /// A program prints the record.
    Program,
    /// `benches/house.sh` measures it: what a person waits for.
    House,
    /// Source lines, counted.
    Lines,
}

/// A benchmark, as read from its file.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub struct Bench {
    /// Its name: that of its record, or the beginning of it.
    pub name: String,
    /// Its board.
    pub board: String,
    /// The unit of the value.
    pub unit: String,
    /// The source of the value.
    pub measure: Measure,
    /// The monitor command, or a program with its arguments, or the sources; empty if the kernel
    /// prints the record at boot.
    #[serde(default)]
    pub command: String,
    /// Runs under exact instruction counts.
    #[serde(default)]
    pub icount: bool,
    /// For a program: runs in the lab, in chip time.
    #[serde(default)]
    pub lab: bool,
    /// For a program: the kernel that runs it; main by default.
    #[serde(default)]
    pub on: String,
    /// For a program: services that are moved to a kernel for its run. What it prints has their
    /// names appended: `NAME_SERVICE_on_KERNEL`.
    #[serde(default)]
    pub moved: BTreeMap<String, String>,
    /// For a program: an ext2 on the disk is the root file system.
    #[serde(default)]
    pub disk: bool,
    /// Maximum acceptable value.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// Minimum acceptable value.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// A description, where the name could mislead.
    #[serde(default)]
    pub label: String,
    /// Linux's value on the same emulator.
    #[serde(default)]
    pub linux: Option<f64>,
    /// The operation measured there.
    #[serde(default)]
    pub linux_what: String,
}

/// Returns whether a record belongs to a benchmark. A kernel may append its own name:
/// `memory.after_boot_bytes.shadow`.
pub fn belongs(name: &str, bench: &str) -> bool {
    name.strip_prefix(bench).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The files of `benches/`, by name.
pub fn files(place: &Place) -> anyhow::Result<Vec<File>> {
    let folder = place.root.join("benches");
    let mut paths: Vec<_> = std::fs::read_dir(&folder)?.flatten().map(|e| e.path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "toml"));
    paths.sort();
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path)?;
        toml::from_str(&text).context(path.display().to_string())
    };
    paths.into_iter().map(read).collect()
}

/// Returns the bars of a benchmark: the sign, the bar, and whether `value` meets it.
pub fn bars(bench: &Bench, value: f64) -> impl Iterator<Item = (&'static str, f64, bool)> {
    let most = bench.at_most.map(|most| ("<=", most, value <= most));
    let least = bench.at_least.map(|least| (">=", least, value >= least));
    most.into_iter().chain(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_may_name_its_kernel() {
        assert!(belongs("memory.after_boot_bytes.main", "memory.after_boot_bytes"));
        assert!(belongs("boot.instructions", "boot.instructions"));
        assert!(!belongs("frame.alloc_4k", "frame.alloc_4"));
    }
}

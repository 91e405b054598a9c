//! `pen bench`: boots the boards that `benches/*.toml` name, runs the commands or programs,
//! collects the lines `record NAME VALUE UNIT`, and prints a table next to Linux's values, or JSON
//! lines.

pub mod figures;
mod programs;

use crate::commands;
use crate::kernels::Profile;
use crate::lab;
use crate::machine::Options;
use crate::place::Place;
use crate::report::record;
use crate::said::{Said, said};
use crate::scenario::{Parts, Rig};
use anyhow::{Context, bail};
use serde::Deserialize;
use std::process::ExitCode;
use std::time::Duration;

/// Longer than any benchmark takes.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Heading of its table, and what the table is about.
    title: String,
    about: String,
    record: Vec<Bench>,
}

/// The source of a value.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Measure {
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
}

/// A benchmark, as read from its file.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Bench {
    name: String,
    board: String,
    unit: String,
    measure: Measure,
    /// The monitor command, or a program with its arguments; empty if the kernel prints the record
    /// at boot.
    #[serde(default)]
    command: String,
    /// Runs under exact instruction counts.
    #[serde(default)]
    icount: bool,
    /// For a program: runs in the lab, in chip time.
    #[serde(default)]
    lab: bool,
    /// For a program: the kernel that runs it; main by default.
    #[serde(default)]
    on: String,
    /// Maximum acceptable value.
    #[serde(default)]
    at_most: Option<f64>,
    /// Minimum acceptable value.
    #[serde(default)]
    at_least: Option<f64>,
    /// A description, where the name could mislead.
    #[serde(default)]
    label: String,
    /// Linux's value on the same emulator, and the operation measured.
    #[serde(default)]
    linux: Option<f64>,
    #[serde(default)]
    linux_what: String,
}

/// `pen bench [PREFIX] [--json]`
pub fn bench(place: &Place, prefix: &str, json: bool) -> anyhow::Result<ExitCode> {
    let all = files(place)?.into_iter().flat_map(|file| file.record);
    let named: Vec<Bench> = all.filter(|b| b.name.starts_with(prefix)).collect();
    let (by_script, chosen): (Vec<Bench>, Vec<Bench>) =
        named.into_iter().partition(|b| b.measure == Measure::House);
    match (&by_script[..], &chosen[..]) {
        ([], []) => bail!("no benchmark's name begins with \"{prefix}\""),
        ([first, ..], []) => bail!("benches/house.sh measures {}", first.name),
        _ => {}
    }
    let mut missing = 0;
    if !json {
        println!("{:<32} {:>14} {:<14} {:<8} {:>12}", "record", "value", "unit", "board", "Linux");
    }
    for group in groups(&chosen) {
        let said = measure(place, &group)?;
        for bench in &group {
            let values: Vec<_> =
                said.iter().filter(|(name, ..)| belongs(name, &bench.name)).collect();
            if values.is_empty() {
                eprintln!("pen: {} was not reported by {}", bench.name, bench.board);
                missing += 1;
            }
            for (name, value, unit) in values {
                if !fits(unit, bench) {
                    bail!("{name} was measured in {unit:?}, but benches/ says {:?}", bench.unit);
                }
                show(bench, name, *value, json)?;
            }
        }
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns whether the units agree. Under exact counts a nanosecond of the guest is an instruction.
fn fits(said: &str, bench: &Bench) -> bool {
    said == bench.unit || (bench.icount && said == "ns" && bench.unit == "instructions")
}

/// Returns whether a record belongs to a benchmark. A kernel may append its own name:
/// `memory.after_boot_bytes.shadow`.
fn belongs(name: &str, bench: &str) -> bool {
    name.strip_prefix(bench).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The files of `benches/`, by name.
fn files(place: &Place) -> anyhow::Result<Vec<File>> {
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

/// Returns the kernel profile for a benchmark: records that every kernel prints come from the
/// default profile.
fn profile(bench: &Bench) -> Profile {
    match bench.measure == Measure::Prompt || bench.command.starts_with("record ") {
        true => Profile::Kernel,
        false => Profile::KernelTrials,
    }
}

/// Groups the benchmarks that share a boot: same board, same way of counting.
fn groups(all: &[Bench]) -> Vec<Vec<Bench>> {
    let mut groups: Vec<Vec<Bench>> = Vec::new();
    for bench in all {
        let own = |b: &Bench| [Measure::Lab, Measure::Program].iter().position(|m| *m == b.measure);
        let kind = |b: &Bench| (b.board.clone(), b.icount, b.lab, own(b), profile(b));
        let same = |g: &&mut Vec<Bench>| kind(&g[0]) == kind(bench);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(bench.clone()),
            None => groups.push(vec![bench.clone()]),
        }
    }
    groups
}

/// Boots the board and runs each command once. Returns every record on the console.
fn measure(place: &Place, group: &[Bench]) -> anyhow::Result<Vec<Said>> {
    let first = &group[0];
    if first.measure == Measure::Lab {
        let names: Vec<String> = group.iter().map(|bench| bench.name.clone()).collect();
        return lab::figures::measure(place, &names);
    }
    if first.measure == Measure::Program {
        return programs::measure(place, group);
    }
    let (board, kernels) = commands::prepare(place, &first.board, profile(first))?;
    let prompt = format!("{}> ", board.main().name);
    let parts = Parts {
        folder: place.target.join("benches").join(&first.board),
        soc: commands::soc_binary()?,
        board_file: place.board_file(&first.board),
        kernels,
        options: Options { icount: first.icount, ..Options::default() },
    };
    let mut rig = Rig::start(&parts)?;
    rig.expect(&prompt, PATIENCE)?;
    let seconds = rig.started.elapsed().as_secs_f64();
    let mut done: Vec<&str> = vec![""];
    for bench in group {
        if !done.contains(&bench.command.as_str()) {
            rig.ask(&board.main().name, &bench.command, PATIENCE)?;
            done.push(&bench.command);
        }
    }
    let mut records: Vec<Said> = rig.transcript().lines().filter_map(said).collect();
    for bench in group.iter().filter(|b| b.measure == Measure::Prompt) {
        records.push((bench.name.clone(), seconds, bench.unit.clone()));
    }
    Ok(records)
}

/// Returns the bars of a benchmark: the sign, the bar, and whether `value` meets it.
fn bars(bench: &Bench, value: f64) -> impl Iterator<Item = (&'static str, f64, bool)> {
    let most = bench.at_most.map(|most| ("<=", most, value <= most));
    let least = bench.at_least.map(|least| (">=", least, value >= least));
    most.into_iter().chain(least)
}

/// Describes how it was measured, and its limit.
fn config(bench: &Bench, value: f64) -> String {
    let parts = [
        bench.icount.then(|| "icount".to_string()),
        bench.lab.then(|| "chip time".to_string()),
        (!bench.label.is_empty()).then(|| bench.label.clone()),
    ];
    let bars = bars(bench, value).map(|(sign, bar, is_met)| {
        format!("bar: {sign} {bar}{}", if is_met { "" } else { ", MISSED" })
    });
    parts.into_iter().flatten().chain(bars).collect::<Vec<_>>().join("; ")
}

fn show(bench: &Bench, name: &str, value: f64, json: bool) -> anyhow::Result<()> {
    let config = config(bench, value);
    if json {
        let name = name.to_string();
        let (unit, board) = (bench.unit.clone(), bench.board.clone());
        let (linux, linux_what) = (bench.linux, bench.linux_what.clone());
        let record = record::Bench { name, value, unit, board, config, linux, linux_what };
        println!("{}", serde_json::to_string(&record)?);
        return Ok(());
    }
    let linux = bench.linux.map_or("-".to_string(), |v| v.to_string());
    print!("{name:<32} {value:>14} {:<14} {:<8} {linux:>12}", bench.unit, bench.board);
    match (bench.linux_what.as_str(), config.as_str()) {
        ("", "") => println!(),
        ("", config) => println!("  ({config})"),
        (what, "") => println!("  {what}"),
        (what, config) => println!("  {what}  ({config})"),
    }
    Ok(())
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

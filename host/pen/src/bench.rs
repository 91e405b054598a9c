//! `pen bench`: boots the boards that `benches/*.toml` name, runs the commands or programs,
//! collects the lines `record NAME VALUE UNIT`, and prints a table next to Linux's values, or JSON
//! lines.

mod lines;
pub mod profile;
mod programs;

use anyhow::bail;
use builds::kernels::Profile;
use records::benches::{Bench, Measure, bars, belongs, files};
use records::record;
use records::said::{Said, said};
use std::process::ExitCode;
use std::time::Duration;
use tree::place::Place;
use workbench::machine::Options;
use workbench::prepare;
use workbench::rig::{Parts, Rig};

/// Longer than any benchmark takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// `pen bench [PREFIX] [--json]`
pub fn bench(place: &Place, prefix: &str, json: bool) -> anyhow::Result<ExitCode> {
    let chosen = chosen(place, prefix)?;
    let mut missing = 0;
    if !json {
        println!("{:<32} {:>14} {:<14} {:<8} {:>12}", "record", "value", "unit", "board", "Linux");
    }
    for group in groups(&chosen) {
        // The others can still be measured, which takes long.
        let said = measure(place, &group).unwrap_or_else(|why| {
            eprintln!("pen: on {}: {why:#}", group[0].board);
            Vec::new()
        });
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

/// Returns the benchmarks whose names begin with `prefix`, except those of a script.
fn chosen(place: &Place, prefix: &str) -> anyhow::Result<Vec<Bench>> {
    let all = files(place)?.into_iter().flat_map(|file| file.record);
    let named: Vec<Bench> = all.filter(|b| b.name.starts_with(prefix)).collect();
    let (by_script, chosen): (Vec<Bench>, Vec<Bench>) =
        named.into_iter().partition(|b| b.measure == Measure::House);
    match (&by_script[..], &chosen[..]) {
        ([], []) => bail!("no benchmark's name begins with \"{prefix}\""),
        ([first, ..], []) => bail!("run benches/house.sh instead: it measures {}", first.name),
        _ => {}
    }
    Ok(chosen)
}

/// Returns whether the units agree. Under exact counts a nanosecond of the guest is an instruction.
fn fits(said: &str, bench: &Bench) -> bool {
    said == bench.unit || (bench.icount && said == "ns" && bench.unit == "instructions")
}

/// Returns the kernel profile for a benchmark: records that every kernel prints come from the
/// default profile.
fn profile(bench: &Bench) -> Profile {
    match bench.measure == Measure::Prompt || bench.command.starts_with("record ") {
        true => Profile::Kernel,
        false => Profile::KernelTrials,
    }
}

/// Groups the benchmarks that share a boot: same board, same way of counting, and of those of
/// programs, same program. So no program finds the files or the memory of another one's run.
fn groups(all: &[Bench]) -> Vec<Vec<Bench>> {
    let mut groups: Vec<Vec<Bench>> = Vec::new();
    for bench in all {
        let own = |b: &Bench| {
            [Measure::Lab, Measure::Program, Measure::Lines].iter().position(|m| *m == b.measure)
        };
        let program = |b: &Bench| match b.measure {
            Measure::Program => programs::program(b).to_string(),
            _ => String::new(),
        };
        let chip = |b: &Bench| (b.board.clone(), b.icount, b.lab, b.disk);
        let kind = |b: &Bench| (chip(b), own(b), profile(b), program(b));
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
        return labrun::figures::measure(place, &names);
    }
    if first.measure == Measure::Program {
        return programs::measure(place, group);
    }
    if first.measure == Measure::Lines {
        return lines::measure(place, group);
    }
    let (board, kernels) = prepare::board_and_kernels(place, &first.board, profile(first))?;
    let prompt = format!("{}> ", board.main().name);
    let parts = Parts {
        folder: place.target.join("benches").join(&first.board),
        soc: prepare::soc_binary()?,
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

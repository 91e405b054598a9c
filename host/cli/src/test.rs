//! `pen test`: tests on the host, then the simulator's many seeds (nightly), then scenarios on
//! boards; the time of each step is printed, and the folder of a failed scenario is kept.

use crate::commands;
use crate::interrupt;
use crate::kernels::{self, Profile};
use crate::lab::checks::{self, Check, Kit, LeftOut};
use crate::lab::findings;
use crate::lab::model::Choice;
use crate::machine::Options;
use crate::place::Place;
use crate::progress::Step;
use crate::scenario::{self, Parts, Rig, Scenario};
use ::lab::model::Mode;
use anyhow::{bail, ensure};
use board::Isa;
use std::collections::BTreeSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    /// What failed and why: said again at the end, where a long log is read first.
    failures: Vec<String>,
}

/// `pen test [FILTER] [--nightly]`
pub fn test(place: &Place, filter: Option<&str>, nightly: bool) -> anyhow::Result<ExitCode> {
    let mut tally = Tally::default();
    timed("host tests", || host(place, filter, &mut tally))?;
    if nightly && filter.is_none_or(|f| "sim.nightly".contains(f)) {
        timed("simulator, 100,000 seeds", || seeds(place, &mut tally))?;
    }
    if nightly && filter.is_none_or(|f| "abuse.nightly".contains(f)) {
        timed("abuse of imports, 100,000 seeds", || abuse(place, &mut tally))?;
    }
    // Boards outlive their starter, so from here on it takes them down first.
    interrupt::listen()?;
    let chosen: Vec<&Scenario> = scenario::ALL
        .iter()
        .filter(|s| nightly || !s.nightly)
        .filter(|s| filter.is_none_or(|f| s.name.contains(f)))
        .collect();
    if !chosen.is_empty() {
        timed("scenarios", || scenarios(place, &chosen, &mut tally))?;
    }
    let watched: Vec<&Scenario> = scenario::ALL
        .iter()
        .filter(|s| nightly || SANITIZED.contains(&s.name))
        .filter(|s| !UNWATCHED.iter().any(|area| s.name.starts_with(area)))
        .filter(|s| filter.is_none_or(|f| sanitized(s).contains(f)))
        .collect();
    if !watched.is_empty() {
        timed("scenarios under the sanitizer", || sanitizer(place, &watched, &mut tally))?;
    }
    let matches = |name: &str| filter.is_none_or(|f| name.contains(f));
    let asked = |c: &&Check| nightly || !c.nightly || filter == Some(c.name);
    let checks: Vec<&Check> =
        checks::ALL.iter().filter(|c| matches(c.name)).filter(asked).collect();
    if !checks.is_empty() {
        timed("the lab", || lab(place, &checks, &mut tally))?;
    }
    for failure in &tally.failures {
        println!("failed: {failure}");
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    let nothing = tally.passed + tally.failed == 0;
    if nothing {
        println!("no test matches; a filter is a part of a test's name");
    }
    Ok(if tally.failed == 0 && !nothing { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn timed(name: &str, step: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let start = Instant::now();
    step()?;
    println!("-- {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs a test command; its output is shown when it fails.
fn count(mut command: Command, what: &str, tally: &mut Tally) -> anyhow::Result<()> {
    let step = Step::begin(what);
    let output = command.stderr(Stdio::inherit()).output()?;
    step.done();
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut passed, mut failed) = (0, 0);
    for line in text.lines().filter(|l| l.starts_with("test result:")) {
        passed += number_before(line, " passed");
        failed += number_before(line, " failed");
    }
    if !output.status.success() {
        std::io::stdout().write_all(&output.stdout)?;
        failed = failed.max(1);
        let named = text.lines().filter_map(|l| l.strip_prefix("---- "));
        tally.failures.extend(named.map(|l| l.trim_end_matches(" ----").to_string()));
    }
    println!("{what}: {passed} passed, {failed} failed");
    tally.passed += passed;
    tally.failed += failed;
    Ok(())
}

fn number_before(line: &str, word: &str) -> usize {
    line.split(word)
        .next()
        .and_then(|head| head.rsplit(' ').next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

fn host(place: &Place, filter: Option<&str>, tally: &mut Tally) -> anyhow::Result<()> {
    let mut cargo = place.cargo();
    cargo.args(["test", "-q", "--no-fail-fast"]);
    cargo.args(filter);
    count(cargo, "unit and property tests", tally)
}

fn seeds(place: &Place, tally: &mut Tally) -> anyhow::Result<()> {
    many(place, "sim", tally)
}

fn abuse(place: &Place, tally: &mut Tally) -> anyhow::Result<()> {
    many(place, "abuse", tally)
}

/// Runs the binary of a package over many seeds.
fn many(place: &Place, package: &str, tally: &mut Tally) -> anyhow::Result<()> {
    let mut cargo = place.cargo();
    cargo.args(["run", "-q", "--release", "-p", package, "--", "--seeds", "100000"]);
    let good = cargo.status()?.success();
    tally.passed += usize::from(good);
    tally.failed += usize::from(!good);
    Ok(())
}

fn scenarios(place: &Place, chosen: &[&Scenario], tally: &mut Tally) -> anyhow::Result<()> {
    let mut isas = BTreeSet::new();
    for scenario in chosen {
        isas.extend(kernels::isas(&board::read(&place.board_file(scenario.board))?));
    }
    let isas: Vec<_> = isas.into_iter().collect();
    let built = kernels::build(place, &isas, Profile::KernelCheck)?;
    let soc = commands::soc_binary()?;
    for scenario in chosen {
        let parts = Parts {
            folder: place.target.join("tests").join(scenario.name),
            soc: soc.clone(),
            board_file: place.board_file(scenario.board),
            kernels: built.clone(),
            options: Default::default(),
        };
        judge(scenario.name, &parts.folder, tally, || one(scenario, &parts))?;
    }
    Ok(())
}

/// Scenarios that the sanitizer watches in every run of the tests: all that is shared between
/// domains, in four minutes. Nightly it watches all.
const SANITIZED: &[&str] = &[
    "boot.duo-1x1",
    "devices.solo-1",
    "domain.power",
    "domain.panic",
    "domain.main-killed",
    "rpc.nested",
    "services.shadowed",
    "services.overlap",
    "services.lost",
    "disk.ext2",
    "programs.shadowed",
    "net.shadowed",
    "devices.dma-shadowed",
];

/// What computes too much to be watched; what kernels do for it, others do watched. And what
/// restarts its board, which an exact run refuses.
const UNWATCHED: &[&str] = &["corpus.", "programs.hostile", "disk.reboot", "system.reboot"];

/// Name of a scenario's test under the sanitizer.
fn sanitized(scenario: &Scenario) -> String {
    format!("sanitizer.clean.{}", scenario.name)
}

/// The same boards with every access watched: nothing may be found. One record tells how much was.
fn sanitizer(place: &Place, chosen: &[&Scenario], tally: &mut Tally) -> anyhow::Result<()> {
    let built = kernels::build(place, &[Isa::Aarch64, Isa::Riscv64], Profile::KernelCheck)?;
    let (soc, plugin) = (commands::soc_binary()?, crate::lab::plugin()?);
    let choice = Choice { mode: Mode::Sanitizer, ..Choice::default() };
    let mut found = 0;
    for scenario in chosen {
        let name = sanitized(scenario);
        let parts = Parts {
            folder: place.target.join("tests").join(&name),
            soc: soc.clone(),
            board_file: place.board_file(scenario.board),
            kernels: built.clone(),
            options: Options { lab: Some((choice, plugin.clone())), ..Options::default() },
        };
        judge(&name, &parts.folder, tally, || {
            one(scenario, &parts)?;
            let all = findings::read(&parts.folder)?;
            found += all.len();
            let texts: Vec<&str> = all.iter().map(|finding| finding.text.as_str()).collect();
            ensure!(texts.is_empty(), "{}", texts.join("\n"));
            Ok(())
        })?;
    }
    println!("record sanitizer.false_reports {found} reports over {} scenarios", chosen.len());
    Ok(())
}

/// Runs one test and says how it went; the folder of a failed one is kept.
fn judge(
    name: &str,
    folder: &Path,
    tally: &mut Tally,
    test: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    ensure!(!interrupt::came(), "interrupted");
    let start = Instant::now();
    let result = test();
    let seconds = start.elapsed().as_secs_f64();
    match result {
        Ok(()) => {
            println!("{name:<40} ok      {seconds:>6.1} s");
            tally.passed += 1;
            std::fs::remove_dir_all(folder)?;
        }
        Err(why) if why.is::<LeftOut>() => println!("{name:<40} {why}"),
        Err(why) => {
            println!("{name:<40} FAILED  {seconds:>6.1} s");
            println!("{why:#}\nits folder: {}", folder.display());
            tally.failed += 1;
            tally.failures.push(format!("{name}: {why:#}"));
        }
    }
    Ok(())
}

/// The lab's own tests, with the kernels that it measures.
fn lab(place: &Place, chosen: &[&Check], tally: &mut Tally) -> anyhow::Result<()> {
    let isas = [Isa::Aarch64, Isa::Riscv64];
    let built = kernels::build(place, &isas, Profile::KernelTrials)?;
    for check in chosen {
        let folder = place.target.join("tests").join(check.name);
        // The judge removes it after a success, and not every check has files.
        std::fs::create_dir_all(&folder)?;
        let kit = Kit { place, kernels: &built, folder: folder.clone() };
        judge(check.name, &folder, tally, || (check.run)(&kit))?;
    }
    Ok(())
}

/// Runs a scenario; a panic in it is a failure like any other, and the board goes down either way.
fn one(scenario: &Scenario, parts: &Parts) -> anyhow::Result<()> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut rig = Rig::start(parts)?;
        let result = (scenario.run)(&mut rig);
        // The transcript helps to understand a failure; it is no failure of its own.
        let _ = std::fs::write(rig.instance.path("transcript"), rig.transcript());
        result
    }));
    match outcome {
        Ok(result) => Ok(result?),
        Err(_) => bail!("the scenario panicked; see above"),
    }
}

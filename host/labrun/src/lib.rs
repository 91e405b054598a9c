//! `pen lab`: boards in exact chip time. Runs scenarios, and writes records for `pen report`.
//!
//! ```text
//!   lab/*.toml --scenario--> run: power-on to power-off --> Outcome --records--> target/lab
//!                             |
//!                            kit --> checks (pen test): charges, killed, points, seeds, ...
//!                              \---> figures (pen bench): table4, table5, table6
//!   lab/linux ---linux------> Debian's kernel in the same lab
//! ```
//! Contract: the same run takes the same picoseconds, whatever else this host does, if the board
//! has one core in each domain. The model of a board, and how it is started, are in `workbench`.

mod charges;
pub mod checks;
pub mod disk;
mod estimates;
mod figure6;
pub mod figures;
mod killed;
pub mod kit;
pub mod linux;
mod network;
mod points;
mod profile;
pub mod programs;
mod records;
pub mod run;
mod scenario;
mod seeds;
mod shares;
mod statistical;
mod table4;
mod table5;
mod table6;
mod ways;

use anyhow::{Context, bail};
use builds::kernels::Profile;
use lab::model::Mode;
use lab::points::{CrashPoint, PointError};
use run::{Bench, Outcome};
use rustix::thread::{CpuSet, sched_setaffinity};
use scenario::{Content, Scenario};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tree::place::Place;
use tree::progress::Step;
use workbench::model::{self, Choice};
use workbench::network::{Network, parse};
use workbench::profile::{Counts, show};
use workbench::{findings, prepare};

/// Subcommands of the lab.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// Debian's stock arm64 kernel with our benchmarks, on one core.
    Linux {
        /// What to do with it.
        #[command(subcommand)]
        verb: linux::Verb,
    },
}

/// Arguments of `pen lab`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Line {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// A name from lab/, or a path to a .toml file; without it, list the scenarios.
    scenario: Option<String>,
    /// Number of repetitions, instead of the file's.
    #[arg(long, value_name = "COUNT")]
    repetitions: Option<u32>,
    /// Mode, instead of the file's: `time`, `energy`, `sanitizer` or `full`.
    #[arg(long, value_parser = model::mode)]
    mode: Option<Mode>,
    /// Set every cost but the instruction's to zero.
    #[arg(long)]
    no_costs: bool,
    /// Keep this many of the host's cores busy meanwhile; the result must not change.
    #[arg(long, default_value_t = 0, value_name = "CORES")]
    load: usize,
    /// Kill a domain before its K-th access to others, as a crash would.
    #[arg(long, value_name = "DOMAIN@K", value_parser = kill)]
    kill: Vec<CrashPoint>,
    /// Make a domain inactive before its K-th access to others; it is woken 20 ms later, if no
    /// other domain has done so.
    #[arg(long, value_name = "DOMAIN@K", value_parser = stop)]
    stop: Vec<CrashPoint>,
    /// What the network device is attached to: `script:FILE`, instead of the file's `peer`.
    #[arg(long, value_parser = parse, value_name = "NET")]
    net: Option<Network>,
    /// Print where each domain's cycles went, by function; time and energy stay the same. Of
    /// several runs, the last.
    #[arg(long)]
    profile: bool,
}

fn kill(text: &str) -> Result<CrashPoint, PointError> {
    CrashPoint::parse(text, true)
}

fn stop(text: &str) -> Result<CrashPoint, PointError> {
    CrashPoint::parse(text, false)
}

/// `pen lab`
pub fn lab(place: &Place, line: &Line) -> anyhow::Result<ExitCode> {
    if let Some(Verb::Linux { verb }) = &line.verb {
        return linux::linux(place, verb);
    }
    let folder = place.root.join("lab");
    let Some(name) = &line.scenario else { return list(&folder) };
    let named = folder.join(format!("{name}.toml"));
    let path = if named.exists() { named } else { PathBuf::from(name) };
    if !path.exists() {
        list(&folder)?;
        bail!("there is no scenario \"{name}\" in lab/, and no such file");
    }
    let title = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut scenario = match Content::read(&path)? {
        Content::Commands(scenario) => scenario,
        Content::Ways(_) if line.profile => {
            bail!("{}: --profile is for scenarios of commands, and this has ways", path.display())
        }
        Content::Ways(ways) => return ways::series(place, &title, &ways),
    };
    scenario.mode = line.mode.unwrap_or(scenario.mode);
    if line.profile && !scenario.mode.takes_turns() {
        bail!("--profile counts the chip's cycles, which --mode {} has not", scenario.mode.name());
    }
    scenario.repetitions = line.repetitions.unwrap_or(scenario.repetitions).max(1);
    let load = Load::begin(line.load);
    let result = series(place, &title, &scenario, line);
    drop(load);
    result
}

fn list(folder: &std::path::Path) -> anyhow::Result<ExitCode> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        println!("{name:<14} {}", Content::read(&file)?.description());
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs all quanta and repetitions; the records go to one file.
fn series(
    place: &Place,
    title: &str,
    scenario: &Scenario,
    line: &Line,
) -> anyhow::Result<ExitCode> {
    let (_, kernels) = prepare::board_and_kernels(place, &scenario.board, Profile::KernelTrials)?;
    let folder = place.target.join("lab");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{title}.jsonl"));
    let mut file = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
    let network = line.net.clone().or(scenario.network()?).unwrap_or_default();
    let contracts = deploy::contracts::names(&place.root);
    let (mut agreed, mut found) = (true, 0);
    for &quantum_ns in &scenario.quanta_ns {
        let (no_costs, mode, profile) = (line.no_costs, scenario.mode, line.profile);
        let choice = Choice { quantum_ns, no_costs, mode, profile };
        let mut outcomes: Vec<Outcome> = vec![];
        for repetition in 1..=scenario.repetitions {
            let of = scenario.repetitions;
            let step = Step::begin(&format!("{title}, quantum {quantum_ns} ns, {repetition}/{of}"));
            scenario.stage(place, &folder.join(title))?;
            let bench = Bench {
                folder: folder.join(title),
                board: place.board_file(&scenario.board),
                kernels: &kernels,
                arguments: scenario.arguments(),
                network: network.clone(),
                choice: Some(choice),
                patience: run::PATIENCE,
                points: line.kill.iter().chain(&line.stop).cloned().collect(),
            };
            let outcome = bench.run()?;
            step.done();
            let (board, contracts) = (scenario.board.as_str(), &contracts);
            let about = records::About { title, board, choice, repetition, contracts };
            for record in records::of(&about, &outcome) {
                writeln!(file, "{record}")?;
            }
            found += findings::show(&bench.folder)?;
            let first = outcomes.first().filter(|_| outcome.lab.is_exact());
            let same = first.is_none_or(|first| records::agree(first, &outcome));
            agreed &= same;
            println!("{}", records::summary(&about, &outcome, same));
            print!("{}", records::answers(&outcome));
            outcome.all_reached()?;
            for (point, _) in &outcome.points {
                println!("  {}: reached", point.option());
            }
            outcomes.push(outcome);
        }
        if let Some(spread) = records::spread(&outcomes) {
            println!("{spread}");
        }
    }
    if line.profile {
        show(&folder.join(title), &Counts::default())?;
    }
    println!("records: {}; `./pen report` makes a page of them", path.display());
    if !agreed {
        bail!("repetitions differ, on a board whose time is exact: the lab is wrong");
    }
    if found > 0 {
        bail!("the sanitizer has {found} findings; see above and the records");
    }
    Ok(ExitCode::SUCCESS)
}

/// Keeps cores busy until dropped.
struct Load(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Load {
    fn begin(cores: usize) -> Load {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        for _ in 0..cores {
            let stop = stop.clone();
            std::thread::spawn(move || {
                // Wherever the board runs.
                let _ = sched_setaffinity(None, &everywhere());
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Load(stop)
    }
}

/// All processors.
fn everywhere() -> CpuSet {
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    all
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

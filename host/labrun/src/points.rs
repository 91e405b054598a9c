//! `lab.points`, `lab.pairs`: at sampled accesses to other domains, a domain dies or is stopped,
//! while both kernels use all services (`survive`, kernel/trials), or rest around a light task.
//! Every answer must be right, nothing else may die, and both kernels must serve again.

use super::kit::Kit;
use super::records;
use super::run::{Bench, Outcome};
use super::scenario::Scenario;
use anyhow::{Context, bail, ensure};
use base::prng::Prng;
use board::Isa;
use builds::kernels::{self, Built, Profile};
use lab::model::Mode;
use lab::points::CrashPoint;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use workbench::model::Choice;
use workbench::network::Network;

/// The scenarios in lab/, with which a failure is repeated.
const SURVIVE: &str = "survive";
const EPISODES: &str = "episodes";
/// Points of each daily check.
const DAILY: u64 = 15;
/// Pairs of each of the two nightly checks.
const NIGHTLY: u64 = 1000;
/// Deaths of which one must show a planted bug.
const PLANTED: u64 = 40;
/// A nightly check ends after so many failures.
const ENOUGH: usize = 5;
/// Longer than any such run takes on a loaded host. A run that hangs ends after this time.
const PATIENCE: Duration = Duration::from_secs(120);

/// What `survive` reports if an answer was wrong.
const WRONG: &str = "an answer was wrong";

const MAIN: &str = "main";
const SHADOW: &str = "shadow";

/// Does the daily checks. Returns the number of points, at all of which every answer was right.
pub fn tried(kit: &Kit<'_>) -> anyhow::Result<u64> {
    kills(kit).and_then(|()| stops(kit)).and_then(|()| episodes(kit)).map(|()| 3 * DAILY)
}

/// `lab.points.kills`
pub fn kills(kit: &Kit<'_>) -> anyhow::Result<()> {
    daily(kit, SURVIVE, |trial, number, random| match number % 5 {
        // The board ends with main.
        0 => trial.sample(MAIN, true, random),
        _ => trial.sample(SHADOW, true, random),
    })
}

/// `lab.points.stops`
pub fn stops(kit: &Kit<'_>) -> anyhow::Result<()> {
    daily(kit, SURVIVE, |trial, number, random| {
        trial.sample(if number % 2 == 0 { MAIN } else { SHADOW }, false, random)
    })
}

/// `lab.points.episodes`: a light task between rests. Either kernel is stopped, or the weak one
/// dies.
pub fn episodes(kit: &Kit<'_>) -> anyhow::Result<()> {
    daily(kit, EPISODES, |trial, number, random| match number % 3 {
        0 => trial.sample(MAIN, false, random),
        1 => trial.sample(SHADOW, false, random),
        _ => trial.sample(SHADOW, true, random),
    })
}

fn daily(
    kit: &Kit<'_>,
    scenario: &'static str,
    sample: impl Fn(&Trial<'_>, u64, &mut Prng) -> CrashPoint,
) -> anyhow::Result<()> {
    let trial = Trial::new(kit, scenario, kit.kernels.to_vec(), "")?;
    let mut random = fresh()?;
    for number in 0..DAILY {
        let point = [sample(&trial, number, &mut random)];
        let outcome = trial.run(&point)?;
        if number == 1 {
            let again = trial.run(&point)?;
            let same = records::agree(&outcome, &again);
            ensure!(same, "two runs with {} differ", point[0].option());
        }
        kit.counted.borrow_mut().add(1, "points");
    }
    Ok(())
}

/// Random numbers that are others each time.
fn fresh() -> anyhow::Result<Prng> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(Prng::new(now.as_nanos() as u64 | 1))
}

/// `lab.points.planted`: kernels whose main does not make pages accessible that a dead kernel took
/// with it. The usual run does not show that; one of a few deaths does.
pub fn planted(kit: &Kit<'_>) -> anyhow::Result<()> {
    let built = kernels::build(kit.place, &[Isa::Aarch64, Isa::Riscv64], Profile::KernelSeeded)?;
    let trial = Trial::new(kit, SURVIVE, built, "seed=31,aarch64 ")?;
    let mut random = fresh()?;
    for number in 1..=PLANTED {
        let point = trial.sample(SHADOW, true, &mut random);
        if let Err(why) = trial.run(&[point]) {
            let why = format!("{why:#}");
            ensure!(why.contains(WRONG), "the planted bug shows itself in another way: {why}");
            eprintln!("  lab.points.planted: death {number} shows the planted bug");
            return Ok(());
        }
    }
    bail!("none of {PLANTED} deaths shows the planted bug")
}

/// `lab.pairs.1`
pub fn pairs_1(kit: &Kit<'_>) -> anyhow::Result<()> {
    pairs(kit, 1)
}

/// `lab.pairs.2`
pub fn pairs_2(kit: &Kit<'_>) -> anyhow::Result<()> {
    pairs(kit, 2)
}

/// Pairs: one domain is stopped, and the other dies. The number of pairs so far is in a file, so
/// that an interrupted run continues, and each run makes others.
fn pairs(kit: &Kit<'_>, lane: u64) -> anyhow::Result<()> {
    let trial = Trial::new(kit, SURVIVE, kit.kernels.to_vec(), "")?;
    let path = kit.place.target.join(format!("lab-pairs-{lane}"));
    let mut done = so_far(&path)?;
    let (end, mut both, mut failures) = ((done / NIGHTLY + 1) * NIGHTLY, 0, Vec::new());
    while done < end && failures.len() < ENOUGH {
        let mut random = Prng::new((done << 1 | 1).wrapping_mul(0x9e37_79b9 + lane * 2));
        let (stopped, killed) = if done % 8 == 7 { (SHADOW, MAIN) } else { (MAIN, SHADOW) };
        let stop = trial.sample(stopped, false, &mut random);
        let kill = trial.sample(killed, true, &mut random);
        // Sometimes a dead domain also loses what only its caches have.
        let mode = if done % 4 == 3 { Mode::Full } else { trial.scenario.mode };
        match trial.run_in(mode, &[stop, kill]) {
            Ok(outcome) => both += u64::from(outcome.points.iter().all(|&(_, reached)| reached)),
            Err(_) if tree::interrupt::came() => bail!("interrupted after {done} pairs"),
            Err(why) => failures.push(format!("{why:#}")),
        }
        done += 1;
        std::fs::write(&path, done.to_string()).with_context(|| path.display().to_string())?;
        kit.counted.borrow_mut().add(1, "pairs");
    }
    eprintln!("  lab.pairs.{lane}: {done} pairs so far; both points reached in {both} of this run");
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

fn so_far(path: &PathBuf) -> anyhow::Result<u64> {
    match std::fs::read_to_string(path) {
        Ok(text) => text.trim().parse().with_context(|| format!("{}: {text:?}", path.display())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(e) => Err(e).with_context(|| path.display().to_string()),
    }
}

/// The scenario, and how often each domain accesses others in a run without points.
struct Trial<'k> {
    kit: &'k Kit<'k>,
    name: &'static str,
    kernels: Vec<Built>,
    /// Text before `run=` on the kernels' command line.
    first: &'static str,
    scenario: Scenario,
    usual: Outcome,
}

impl<'k> Trial<'k> {
    fn new(
        kit: &'k Kit<'k>,
        name: &'static str,
        kernels: Vec<Built>,
        first: &'static str,
    ) -> anyhow::Result<Trial<'k>> {
        let path = kit.place.root.join("lab").join(format!("{name}.toml"));
        let scenario = Scenario::read(&path)?;
        let mut trial = Trial { kit, name, kernels, first, scenario, usual: Outcome::default() };
        trial.usual = trial.run(&[])?;
        Ok(trial)
    }

    /// Picks an access of `domain` in the usual run.
    fn sample(&self, domain: &str, kills: bool, random: &mut Prng) -> CrashPoint {
        let access = 1 + random.below(self.usual.accesses(domain).max(1));
        CrashPoint { domain: domain.to_owned(), access, kills }
    }

    /// Does a run with these points. An error has the command that repeats it.
    fn run(&self, points: &[CrashPoint]) -> anyhow::Result<Outcome> {
        self.run_in(self.scenario.mode, points)
    }

    fn run_in(&self, mode: Mode, points: &[CrashPoint]) -> anyhow::Result<Outcome> {
        let options: Vec<String> = points.iter().map(CrashPoint::option).collect();
        let name = self.name;
        let command = format!("./pen lab {name} --mode {} {}", mode.name(), options.join(" "));
        self.run_once(mode, points).with_context(|| format!("repeat with `{command}`"))
    }

    fn run_once(&self, mode: Mode, points: &[CrashPoint]) -> anyhow::Result<Outcome> {
        let bench = Bench {
            folder: self.kit.folder.clone(),
            board: self.kit.place.board_file(&self.scenario.board),
            kernels: &self.kernels,
            arguments: self.first.to_owned() + &self.scenario.arguments(),
            choice: Some(Choice { mode, ..Choice::default() }),
            points: points.to_vec(),
            network: Network::None,
            patience: PATIENCE,
        };
        let outcome = bench.run()?;
        // The run is the usual one up to its first point.
        if points.len() == 1 {
            outcome.all_reached()?;
        }
        let killed = outcome.points.iter().filter(|(point, reached)| point.kills && *reached);
        let (killed, died) = (killed.count(), outcome.deaths);
        ensure!(outcome.findings.is_empty(), "findings: {:?}", outcome.findings);
        ensure!(died == killed, "{died} deaths, of which {killed} at points");
        Ok(outcome)
    }
}

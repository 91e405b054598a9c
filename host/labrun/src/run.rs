//! A run of a board in the lab, from power-on to power-off, and its results: the kernels' records,
//! residency, energy, counts, changes of state.

use anyhow::{Context, bail, ensure};
use builds::kernels::Built;
use lab::energy::{self, Share};
use lab::model::{Domain, Lab, PAGE};
use lab::page::{Change, Count, Page, State};
use lab::points::CrashPoint;
use records::said::{Said, said};
use records::traffic::Traffic;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tree::interrupt;
use workbench::findings::{self, Finding};
use workbench::instance::{Instance, tail};
use workbench::machine::Options;
use workbench::model::Choice;
use workbench::network::{Answer, Network};
use workbench::prepare;

/// Longer than any run takes on a loaded host.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// What the soc says on the console when a domain has died.
const SOC: &str = "[soc] ";
const DIED: &str = " died";
/// What the console says when a domain has died that the board needs.
const LOST: &str = "the board cannot continue without it";

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The model.
    pub lab: Lab,
    /// Records on the console.
    pub values: Vec<Said>,
    /// Energy of each domain, by state.
    pub shares: Vec<Vec<Share>>,
    /// Points, and whether each was reached.
    pub points: Vec<(CrashPoint, bool)>,
    /// Deaths of domains.
    pub deaths: usize,
    /// Counts of each domain.
    pub counts: Vec<[u64; COUNTS.len()]>,
    /// Changes of state.
    pub changes: Vec<Change>,
    /// What channels have carried, if commands of the run have printed it.
    pub traffic: Traffic,
    /// Its phases, if energy is measured.
    pub phases: Vec<Phase>,
    /// What the clients of the scripted peer have seen.
    pub answers: Vec<Answer>,
    /// The time in picoseconds when the last domain stopped.
    pub end: u64,
    /// The sanitizer's findings, if it was active.
    pub findings: Vec<Finding>,
    /// Delay of doorbells in picoseconds: mean and maximum.
    pub late_ps: (f64, u64),
    /// Host time in seconds.
    pub host: f64,
}

/// A phase of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// When it begins, in picoseconds.
    pub start: u64,
    /// Its duration in picoseconds.
    pub time: u64,
    /// Energy of each domain in picojoule; empty if a domain has several cores.
    pub energy_pj: Vec<u128>,
}

/// The counters, in the order of [`Outcome::counts`].
pub const COUNTS: [(&str, Count); 5] = [
    ("instructions", Count::Instructions),
    ("doorbells_sent", Count::Rings),
    ("doorbells_received", Count::Arrivals),
    ("sync_points", Count::Syncs),
    ("exceptions", Count::Exceptions),
];

/// Parameters of a run.
pub struct Bench<'a> {
    /// The run folder.
    pub folder: PathBuf,
    /// The board file.
    pub board: PathBuf,
    /// The kernels.
    pub kernels: &'a [Built],
    /// The kernels' command line, which ends with a power-off.
    pub arguments: String,
    /// The lab's options; `None`: plain emulation, of which only the host time is meaningful.
    pub choice: Option<Choice>,
    /// Points of the run.
    pub points: Vec<CrashPoint>,
    /// What the network device is attached to: nothing, or a script.
    pub network: Network,
    /// Host time after which the run has failed.
    pub patience: Duration,
}

impl Bench<'_> {
    /// Does the run.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        let instance = Instance::at(self.folder.clone());
        let plugin = prepare::plugin()?;
        let options = Options {
            lab: self.choice.map(|choice| (choice, plugin)),
            arguments: Some(self.arguments.clone()),
            points: self.points.clone(),
            network: self.network.clone(),
            ..Options::default()
        };
        let start = Instant::now();
        instance.start(&prepare::soc_binary()?, &self.board, self.kernels, &options)?;
        let ended = wait(&instance, self.patience);
        let host = start.elapsed().as_secs_f64();
        instance.stop()?;
        ensure!(!interrupt::came(), "interrupted");
        if !ended {
            let last = tail(&instance.path("console.log"), 5);
            bail!(
                "the board did not end within {} s; last output:\n{last}",
                self.patience.as_secs()
            );
        }
        self.harvest(&instance, host)
    }

    fn harvest(&self, instance: &Instance, host: f64) -> anyhow::Result<Outcome> {
        let log = instance.path("console.log");
        let text = std::fs::read(&log).with_context(|| log.display().to_string())?;
        let text = String::from_utf8_lossy(&text);
        // A killed domain may be one that the board cannot continue without.
        let lost = !self.points.is_empty() && text.contains(LOST);
        if !lost && !text.contains("powering off") {
            bail!("the run ended early; see {}:\n{}", log.display(), tail(&log, 5));
        }
        if let Some(line) = text.lines().find_map(|line| line.strip_prefix("! ")) {
            bail!("a command of the run failed: {line}; all of it is in {}", log.display());
        }
        let values = text.lines().filter_map(said).collect();
        let died = |line: &&str| line.starts_with(SOC) && line.contains(DIED);
        let deaths = text.lines().filter(died).count();
        let mut outcome = Outcome { values, host, deaths, ..Outcome::default() };
        outcome.traffic.take(&text);
        if self.choice.is_none() {
            return Ok(outcome);
        }
        outcome.lab = Lab::read(&self.folder)?;
        outcome.findings = findings::read(&self.folder)?;
        if self.network != Network::None {
            outcome.answers = instance.answers()?;
        }
        if outcome.lab.mode.takes_turns() {
            let marks: Vec<_> = text.lines().filter_map(mark).collect();
            outcome.account(&Page::open(&instance.path(PAGE))?, &marks)?;
        }
        Ok(outcome)
    }
}

impl Outcome {
    /// Reads what a board that has stopped did during the phases that `text` names.
    pub fn of_phases(folder: &Path, text: &str) -> anyhow::Result<Outcome> {
        let (lab, findings) = (Lab::read(folder)?, findings::read(folder)?);
        let mut outcome = Outcome { lab, findings, ..Outcome::default() };
        let marks: Vec<_> = text.lines().filter_map(mark).collect();
        outcome.account(&Page::open(&folder.join(PAGE))?, &marks)?;
        Ok(outcome)
    }

    /// Reads time and, if it is measured, energy from the page.
    fn account(&mut self, page: &Page, marks: &[(String, u64)]) -> anyhow::Result<()> {
        let domains = &self.lab.domains;
        let points = self.lab.points.iter().enumerate();
        self.points = points.map(|(at, it)| (it.clone(), page.is_carried_out(at))).collect();
        let count = |slot| COUNTS.map(|(_, what)| page.counted(slot, what));
        self.counts = domains.iter().map(|domain| count(domain.slot)).collect();
        let sum = |what| domains.iter().map(|d| page.counted(d.slot, what)).sum::<u64>() as f64;
        let latest = domains.iter().map(|domain| page.counted(domain.slot, Count::Latest)).max();
        let mean = sum(Count::Late) / sum(Count::Arrivals).max(1.0);
        self.late_ps = (mean, latest.unwrap_or(0));
        self.end = domains.iter().map(|domain| page.accounted(domain.slot)).max().unwrap_or(0);
        if !self.lab.mode.tells_energy() {
            return Ok(());
        }
        self.shares = domains.iter().map(|domain| energy::shares(page, domain)).collect();
        // For seats with several cores the page records no changes of state.
        let exact = self.lab.is_exact();
        let (changes, count) = if exact { page.changes() } else { (vec![], 0) };
        if marks.len() > 1 && changes.len() < count {
            let kept = changes.len();
            bail!("the phases are too long: {count} changes of state, of which {kept} were kept");
        }
        let phase = |pair: &[_]| phase(&self.lab, &changes, pair, self.end);
        self.phases = marks.windows(2).map(phase).collect();
        if !exact {
            self.phases.iter_mut().for_each(|phase| phase.energy_pj.clear());
        }
        self.changes = changes;
        Ok(())
    }
}

impl Outcome {
    /// Returns how often a domain has accessed others.
    pub fn accesses(&self, domain: &str) -> u64 {
        let at = self.lab.domains.iter().position(|d| d.name == domain);
        at.map_or(0, |at| self.count(at, Count::Syncs))
    }

    /// Returns a counter of a domain.
    pub fn count(&self, domain: usize, what: Count) -> u64 {
        let index = COUNTS.iter().position(|&(_, known)| known == what);
        let counts = self.counts.get(domain);
        counts.and_then(|counts| counts.get(index?).copied()).unwrap_or(0)
    }

    /// Reports the points that were reached; fails if one was not.
    pub fn all_reached(&self) -> anyhow::Result<()> {
        for (point, reached) in &self.points {
            let (option, all) = (point.option(), self.accesses(&point.domain));
            ensure!(
                reached,
                "{option}: not reached; the run ended after {all} accesses of {}",
                point.domain
            );
        }
        Ok(())
    }
}

/// Returns a domain's cycles while active, and the number of its power points in use.
pub fn cycles(domain: &Domain, shares: &[Share]) -> (f64, usize) {
    let active = shares.iter().filter_map(|share| match share.state {
        State::Active(point) => Some((share.time, domain.powers.points[point].khz)),
        State::Idle(_) | State::Gated(_) | State::Inactive | State::Off => None,
    });
    let cycles = active.map(|(time, khz)| time as f64 * f64::from(khz) / 1e9).collect::<Vec<_>>();
    (cycles.iter().sum(), cycles.len())
}

/// Waits until the soc has ended. Returns false after too long a time.
fn wait(instance: &Instance, patience: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < patience && !interrupt::came() {
        if instance.soc().is_none() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Parses `phase NAME NANOSECONDS`; the time is in picoseconds.
fn mark(line: &str) -> Option<(String, u64)> {
    let mut words = line.split_whitespace();
    if words.next() != Some("phase") {
        return None;
    }
    let name = words.next()?.to_owned();
    Some((name, words.next()?.parse::<u64>().ok()?.saturating_mul(1000)))
}

/// Returns the phase between two marks.
fn phase(lab: &Lab, changes: &[Change], marks: &[(String, u64)], end: u64) -> Phase {
    let (name, (from, to)) = (marks[0].0.clone(), (marks[0].1, marks[1].1));
    let used = |domain| energy::between_pj(changes, domain, (from, to), end);
    let energy_pj = lab.domains.iter().map(used).collect();
    Phase { name, start: from, time: to.saturating_sub(from), energy_pj }
}

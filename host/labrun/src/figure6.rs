//! K2's figure 6 on our kernels: what a light task costs on the weak core while the strong domain
//! rests. The energy is that of all domains. One run for each size gives the records of
//! `./pen bench k2.f6` and the check `lab.figure6`.
//!
//! The parts of an episode are those of Linux (`linux::episode`), but here nothing is computed:
//! the kernels really rest, wake and rest again.

use super::kit::Kit;
use super::programs;
use super::run::{Outcome, Phase};
use anyhow::{Context, ensure};
use lab::model::Mode;
use lab::page::{Change, State};
use records::benches;
use records::said::Said;
use workbench::model::Choice;

const BOARD: &str = "duo-1x1";
/// The program that is a light task.
const LIGHT: &str = "light";
const WEAK: &str = "shadow";
/// When the work begins after it was planned, and when it is reported, in s. Both domains have
/// rested for seconds by then.
const DUE: u64 = 20;
const REPORT: u64 = 30;

/// When the domains rest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// After 5 s without work.
    K2,
    /// At once.
    Ours,
}

impl Policy {
    fn option(self) -> &'static str {
        match self {
            Policy::K2 => "rest=5000 ",
            Policy::Ours => "rest=0 ",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Policy::K2 => "",
            Policy::Ours => "_at_once",
        }
    }

    /// Minimum ratio of the smallest tasks to Linux.
    fn bar(self) -> f64 {
        match self {
            Policy::K2 => 6.0,
            Policy::Ours => 50.0,
        }
    }
}

/// How a task is done.
#[derive(Clone, Copy)]
enum Work {
    /// In the kernel: the copy of so many bytes, by the command `episode`.
    Dma(u64),
    /// By the program `light`: files of this size, with fsync or without.
    Files(u64, bool),
    /// By the same: so many bytes over loopback, by UDP.
    Datagrams(u64),
}

/// A task, and what Linux's episode uses on the strong core at 1200 MHz, cold, in mJ
/// (docs/reference/records.md). At 350 MHz: `linux` of the record in benches/light.toml.
struct Task {
    name: &'static str,
    work: Work,
    linux_1200: f64,
}

impl Task {
    /// Returns what Linux's episode uses at 350 MHz in mJ.
    fn linux(&self, kit: &Kit<'_>) -> anyhow::Result<f64> {
        let name = format!("k2.f6.{}", self.name);
        let mut all = benches::files(kit.place)?.into_iter().flat_map(|file| file.record);
        let found = all.find(|bench| bench.name == name).and_then(|bench| bench.linux);
        found.with_context(|| format!("benches/ has no `linux` for {name}"))
    }
}

const KIB: u64 = 1 << 10;

const DMA: [Task; 4] = [
    Task { name: "dma.4k", work: Work::Dma(4 * KIB), linux_1200: 126.639 },
    Task { name: "dma.128k", work: Work::Dma(128 * KIB), linux_1200: 126.781 },
    Task { name: "dma.256k", work: Work::Dma(256 * KIB), linux_1200: 126.927 },
    Task { name: "dma.1m", work: Work::Dma(1024 * KIB), linux_1200: 127.823 },
];

const EXT2: [Task; 6] = [
    Task { name: "ext2.1k", work: Work::Files(KIB, false), linux_1200: 126.859 },
    Task { name: "ext2.256k", work: Work::Files(256 * KIB, false), linux_1200: 130.645 },
    Task { name: "ext2.1m", work: Work::Files(1024 * KIB, false), linux_1200: 141.908 },
    Task { name: "ext2.1k_sync", work: Work::Files(KIB, true), linux_1200: 126.993 },
    Task { name: "ext2.256k_sync", work: Work::Files(256 * KIB, true), linux_1200: 132.031 },
    Task { name: "ext2.1m_sync", work: Work::Files(1024 * KIB, true), linux_1200: 147.493 },
];

const UDP: [Task; 4] = [
    Task { name: "udp.1k", work: Work::Datagrams(KIB), linux_1200: 126.646 },
    Task { name: "udp.64k", work: Work::Datagrams(64 * KIB), linux_1200: 126.965 },
    Task { name: "udp.256k", work: Work::Datagrams(256 * KIB), linux_1200: 127.983 },
    Task { name: "udp.1m", work: Work::Datagrams(1024 * KIB), linux_1200: 132.067 },
];

/// An episode of ours.
struct Episode {
    /// Energy of all domains in mJ.
    whole_mj: f64,
    /// That of the work alone, with the wake before it.
    work_mj: f64,
    /// How often the strong domain began to execute.
    wakes: usize,
}

impl Episode {
    fn of(outcome: &Outcome) -> anyhow::Result<Episode> {
        let names = ["inactive_before", "wake", "work", "idle", "inactive_after"];
        let found: Vec<&str> = outcome.phases.iter().map(|phase| phase.name.as_str()).collect();
        ensure!(found == names, "the kernel reported {found:?}");
        let mj = |phases: &[Phase]| {
            let all = phases.iter().flat_map(|phase| &phase.energy_pj);
            all.sum::<u128>() as f64 / 1e9
        };
        Ok(Episode {
            whole_mj: mj(&outcome.phases),
            work_mj: mj(&outcome.phases[1..3]),
            wakes: wakes(outcome)?,
        })
    }
}

/// Returns how often the strong domain began to execute during the phases. It must rest when they
/// begin.
fn wakes(outcome: &Outcome) -> anyhow::Result<usize> {
    let (Some(first), Some(last)) = (outcome.phases.first(), outcome.phases.last()) else {
        return Ok(0);
    };
    let strong = outcome.lab.domains.first().context("a board without domains")?.slot;
    let own = || outcome.changes.iter().filter(|change| change.seat == strong);
    let before = own().take_while(|change| change.time <= first.start).last();
    let rests = before.is_some_and(|change| change.state == State::Inactive);
    ensure!(rests, "the strong domain does not rest when the episode begins: {before:?}");
    let during = first.start..last.start + last.time;
    let is_wake = |change: &&Change| {
        during.contains(&change.time) && matches!(change.state, State::Active(_))
    };
    Ok(own().filter(is_wake).count())
}

/// Does the copy in the weak kernel.
fn copy(kit: &Kit<'_>, bytes: u64, policy: Policy, mode: Mode) -> anyhow::Result<Outcome> {
    let run = format!(
        "ping shadow 2; on shadow episode {DUE}000 dma {bytes}; nap {REPORT}000; \
         on shadow episode report"
    );
    kit.run_with(BOARD, policy.option(), &run, Some(Choice { mode, ..Choice::default() }))
}

/// Runs an episode of the program on a kernel, from a disk without latency. Its client on the host
/// waits meanwhile, and so does main for it.
pub fn program(
    kit: &Kit<'_>,
    on: &str,
    (what, number, more): (&str, u64, &str),
    policy: Policy,
    mode: Mode,
) -> anyhow::Result<Outcome> {
    let rig = programs::start(kit, (BOARD, mode), policy.option(), LIGHT)?;
    let (due, number) = (DUE.to_string(), number.to_string());
    let text = programs::run(&rig.instance, on, LIGHT, &["episode", &due, what, &number, more])?;
    rig.instance.stop()?;
    Outcome::of_phases(&rig.instance.folder, &text)
}

fn outcome(kit: &Kit<'_>, task: &Task, policy: Policy, mode: Mode) -> anyhow::Result<Outcome> {
    match task.work {
        Work::Dma(bytes) => copy(kit, bytes, policy, mode),
        Work::Files(size, sync) => {
            let how = if sync { "sync" } else { "" };
            program(kit, WEAK, (programs::FOLDER, size, how), policy, mode)
        }
        Work::Datagrams(size) => program(kit, WEAK, ("datagrams", size, ""), policy, mode),
    }
}

fn run(kit: &Kit<'_>, task: &Task, policy: Policy) -> anyhow::Result<Episode> {
    let outcome = outcome(kit, task, policy, Mode::Energy);
    let episode = outcome.and_then(|outcome| Episode::of(&outcome));
    episode.with_context(|| format!("{} with {}", task.name, policy.option()))
}

/// The copies of `k2.f6.dma`.
pub fn dma(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    records(kit, "dma", &DMA)
}

/// The files of `k2.f6.ext2`.
pub fn files(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    records(kit, "ext2", &EXT2)
}

/// The datagrams of `k2.f6.udp`.
pub fn datagrams(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    records(kit, "udp", &UDP)
}

fn records(kit: &Kit<'_>, group: &str, tasks: &[Task]) -> anyhow::Result<Vec<Said>> {
    let (mut all, mut wakes) = (Vec::new(), 0);
    for task in tasks {
        let linux = task.linux(kit)?;
        for policy in [Policy::K2, Policy::Ours] {
            let episode = run(kit, task, policy)?;
            let name = |what: &str| format!("k2.f6.{}{}{what}", task.name, policy.suffix());
            let mut say = |what, value, unit: &str| all.push((name(what), value, unit.to_string()));
            say("", episode.whole_mj, "mJ");
            say("_work", episode.work_mj, "mJ");
            say("_ratio", linux / episode.whole_mj, "x");
            if policy == Policy::K2 {
                say("_ratio_1200", task.linux_1200 / episode.whole_mj, "x");
            }
            wakes += episode.wakes;
        }
    }
    all.push((format!("k2.f6.{group}.wakes"), wakes as f64, "wakes".to_string()));
    Ok(all)
}

/// How long each domain takes to rest and to wake: from its last wait to the rest, and from the
/// deadline that wakes it to the thread that waited for it.
pub fn transitions(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let mut all = Vec::new();
    for (domain, on) in [("main", ""), ("shadow", "on shadow ")] {
        let run = format!(
            "ping shadow 2; {on}episode {DUE}000 dma 4096; nap {REPORT}000; {on}episode report"
        );
        let option = Policy::K2.option();
        let outcome = kit.run_with(BOARD, option, &run, Some(Choice::default()))?;
        let wake = outcome.phases.iter().find(|phase| phase.name == "wake");
        let wake = wake.with_context(|| format!("{domain} reported no wake"))?.time;
        let enter = entered(&outcome, domain).with_context(|| format!("{domain} did not rest"))?;
        for (what, ps) in [("enter", enter), ("wake", wake)] {
            all.push((format!("rest.{what}_us.{domain}"), ps as f64 / 1e6, "us".to_string()));
        }
    }
    Ok(all)
}

/// Returns how long `domain` executed before it rested at the end of the phases.
fn entered(outcome: &Outcome, domain: &str) -> Option<u64> {
    let seat = outcome.lab.domains.iter().find(|found| found.name == domain)?.slot;
    let after = outcome.phases.last()?.start;
    let own: Vec<&Change> = outcome.changes.iter().filter(|it| it.seat == seat).collect();
    let rests = |pair: &&[&Change]| pair[1].state == State::Inactive && pair[1].time > after;
    let pair = own.windows(2).find(rests)?;
    Some(pair[1].time - pair[0].time)
}

/// `lab.figure6`: the smallest tasks meet their bars, and the strong domain is not woken.
pub fn within(kit: &Kit<'_>) -> anyhow::Result<()> {
    for task in [&DMA[0], &EXT2[0], &EXT2[3], &UDP[0]] {
        for policy in [Policy::K2, Policy::Ours] {
            let episode = run(kit, task, policy)?;
            let (name, wakes) = (task.name, episode.wakes);
            ensure!(wakes == 0, "{name}, {}: main was woken {wakes} times", policy.option());
            let ratio = task.linux(kit)? / episode.whole_mj;
            let bar = policy.bar();
            ensure!(ratio >= bar, "{name}, {}: {ratio:.2} of {bar}", policy.option());
        }
    }
    Ok(())
}

/// `sanitizer.clean.figure6`: with the caches watched, the smallest tasks have no findings.
pub fn clean(kit: &Kit<'_>) -> anyhow::Result<()> {
    for task in [&DMA[0], &EXT2[3]] {
        for policy in [Policy::K2, Policy::Ours] {
            let findings = outcome(kit, task, policy, Mode::Full)?.findings;
            let texts: Vec<&str> = findings.iter().map(|found| found.text.as_str()).collect();
            ensure!(texts.is_empty(), "{}, {}: {}", task.name, policy.option(), texts.join("\n"));
        }
    }
    Ok(())
}

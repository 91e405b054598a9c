//! `pen test`: tests on the host, then the simulator's many seeds (nightly), then scenarios on
//! boards, several at a time; times are printed, and the folder of a failed scenario is kept.

mod counts;
mod host;
mod lanes;
mod long;
mod night;
mod pool;
mod tally;

use anyhow::{Context, bail, ensure};
use board::Isa;
use builds::kernels::{self, Built, Profile};
use counts::Counts;
use lab::model::Mode;
use labrun::checks::{self, Check};
use labrun::kit::{Kit, LeftOut};
use lanes::{BOARDS, BUSY, Lanes};
use night::Night;
use pool::{Job, Passed};
use scenarios::{Failure, Scenario};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tally::Tally;
use tree::counted::Counted;
use tree::interrupt;
use tree::place::Place;
use workbench::findings;
use workbench::machine::Options;
use workbench::model::Choice;
use workbench::network::Network;
use workbench::prepare;
use workbench::rig::{Parts, Rig};

/// What to test.
pub struct Wanted<'a> {
    /// Only the scenario or check with this name; if there is none, tests whose name contains this.
    pub filter: Option<&'a str>,
    /// There is one with this name.
    is_whole: bool,
    /// The long ones too. The one that `filter` names runs anyway.
    pub nightly: bool,
    /// What has passed in an interrupted nightly run of this commit is not run again.
    pub resume: bool,
    /// Where boards have their folders; `target/tests` without.
    pub folder: Option<PathBuf>,
}

impl<'a> Wanted<'a> {
    pub fn new(
        place: &Place,
        filter: Option<&'a str>,
        (nightly, resume): (bool, bool),
        folder: Option<PathBuf>,
    ) -> anyhow::Result<Wanted<'a>> {
        let found = scenarios::found(place)?;
        let is_name = |name: &str| {
            let all = scenarios::ALL.iter().chain(found);
            let scenario = name.strip_prefix(SANITIZED_PREFIX).unwrap_or(name);
            all.into_iter().any(|it| it.name == scenario)
                || checks::ALL.iter().any(|it| it.name == name)
        };
        let is_whole = filter.is_some_and(is_name);
        Ok(Wanted { filter, is_whole, nightly, resume, folder })
    }

    fn has(&self, name: &str) -> bool {
        let is_it = |filter| if self.is_whole { name == filter } else { name.contains(filter) };
        self.filter.is_none_or(is_it)
    }

    /// Like `has`, for a test that is `nightly`, or not.
    fn has_now(&self, name: &str, nightly: bool) -> bool {
        self.has(name) && (!nightly || self.nightly || self.filter == Some(name))
    }

    /// Names of Rust's tests have no dots, those of scenarios and checks have.
    fn has_host(&self) -> bool {
        self.filter.is_none_or(|filter| !filter.contains('.') || filter.contains(".rs"))
    }
}

/// All that stages work with.
struct Bench<'a> {
    place: &'a Place,
    wanted: &'a Wanted<'a>,
    folder: PathBuf,
    tally: Tally,
}

/// `pen test [FILTER] [--nightly [--resume]]`
pub fn test(place: &Place, wanted: &Wanted<'_>) -> anyhow::Result<ExitCode> {
    let folder = wanted.folder.clone().unwrap_or_else(|| place.target.join("tests"));
    let _mine = claim(&folder)?;
    let night = match wanted.nightly {
        true => {
            let night = Night::begin(&folder.join("night"), &commit(place), wanted.resume)?;
            Some((night, Counts::begin(&folder.join("counts"), wanted.resume)?))
        }
        false => None,
    };
    let before = night.as_ref().map_or(0, |(night, _)| night.count());
    if before > 0 {
        println!("{before} tests and programs of tests have passed before");
    }
    let mut bench = Bench { place, wanted, folder, tally: Tally::of(night) };
    // From here on a signal takes the boards down in order first.
    interrupt::listen()?;
    let result = bench.run();
    let Bench { tally, .. } = bench;
    print!("{}", tally.night().unwrap_or_default());
    result?;
    let (passed, failed) = tally.counts();
    print!("{}", tally.report());
    for failure in tally.failures() {
        println!("failed: {failure}");
    }
    println!("{passed} passed, {failed} failed");
    let nothing = passed + failed + before == 0;
    if nothing {
        println!("no test matches; a filter is a part of a test's name, or all of it");
    }
    Ok(if failed == 0 && !nothing { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the commit of the tree, as far as git knows it.
fn commit(place: &Place) -> String {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=40"]).current_dir(&place.root);
    let said = git.output().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    said.unwrap_or_default()
}

/// Claims a folder for the boards of one run, as long as the result lives: what an earlier run has
/// left there is removed before each test.
fn claim(folder: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| path.display().to_string()),
        Err(TryLockError::WouldBlock) => bail!(
            "another `./pen test` runs in {}: wait for it, or give this one a folder of its own \
             with --folder DIR",
            folder.display()
        ),
    }
}

impl Bench<'_> {
    fn run(&mut self) -> anyhow::Result<()> {
        let Wanted { filter, nightly, .. } = *self.wanted;
        if self.wanted.has_host() {
            self.stage("host tests", |it| host::run(it.place, filter, &mut it.tally))?;
        }
        if nightly {
            self.long()?;
        }
        let all = scenarios::ALL.iter().chain(scenarios::found(self.place)?);
        let chosen = all.filter(|s| self.wanted.has_now(s.name, s.nightly.is_some()));
        let mut chosen: Vec<&Scenario> = chosen.collect();
        let place = |s: &&Scenario| FIRST.iter().position(|name| *name == s.name);
        chosen.sort_by_key(|s| place(s).unwrap_or(FIRST.len()));
        if !chosen.is_empty() {
            self.stage("scenarios", |it| it.scenarios(&chosen))?;
        }
        let is_wanted =
            |s: &&Scenario| self.wanted.has_now(&sanitized(s), !SANITIZED.contains(&s.name));
        let watched = scenarios::ALL.iter().filter(is_wanted);
        let watched = watched.filter(|s| !is_unwatched(s.name));
        // A watched board is exact, and the host's network is not.
        let watched: Vec<_> = watched.filter(|s| !s.is_attached).collect();
        if !watched.is_empty() {
            self.stage("scenarios under the sanitizer", |it| it.sanitizer(&watched))?;
        }
        let is_wanted = |c: &&Check| self.wanted.has_now(c.name, c.nightly.is_some());
        let checks: Vec<&Check> = checks::ALL.iter().filter(is_wanted).collect();
        if !checks.is_empty() {
            self.stage("the lab", |it| it.lab(&checks))?;
        }
        Ok(())
    }

    fn stage(
        &mut self,
        name: &str,
        run: impl FnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        ensure!(!interrupt::came(), "interrupted");
        let start = Instant::now();
        self.tally.begin_stage(name);
        let result = run(self);
        self.tally.end_stage(name, start.elapsed())?;
        result
    }

    fn scenarios(&mut self, chosen: &[&Scenario]) -> anyhow::Result<()> {
        let mut isas = BTreeSet::new();
        for scenario in chosen {
            isas.extend(kernels::isas(&board::read(&self.place.board_file(scenario.board))?));
        }
        let isas: Vec<_> = isas.into_iter().collect();
        let built = kernels::build(self.place, &isas, Profile::KernelCheck)?;
        if chosen.iter().any(|scenario| SHIPPED.contains(&scenario.name)) {
            // Built here, and not while other boards run.
            kernels::build(self.place, &isas, Profile::Kernel)?;
        }
        let soc = prepare::soc_binary()?;
        let jobs = chosen.iter().map(|scenario| {
            let parts = self.parts(scenario.name, scenario, &soc, &built);
            let folder = parts.folder.clone();
            let run = move |done: &mut _| one(scenario, &parts, done).map(|()| Passed::Itself);
            let alone = ALONE.contains(&scenario.name);
            Job { name: scenario.name.into(), folder, alone, run: Box::new(run) }
        });
        let jobs = jobs.collect();
        pool::run(jobs, BOARDS, &mut self.tally)
    }

    fn parts(&self, name: &str, scenario: &Scenario, soc: &Path, built: &[Built]) -> Parts {
        Parts {
            folder: self.folder.join(name),
            soc: soc.to_path_buf(),
            board_file: self.place.board_file(scenario.board),
            kernels: built.to_vec(),
            options: Options {
                network: if scenario.is_attached { Network::User } else { Network::None },
                ..Options::default()
            },
        }
    }

    /// The same boards with every access watched: nothing may be found. One record tells how much
    /// was.
    fn sanitizer(&mut self, chosen: &[&Scenario]) -> anyhow::Result<()> {
        let isas = [Isa::Aarch64, Isa::Riscv64];
        let built = kernels::build(self.place, &isas, Profile::KernelCheck)?;
        let (soc, plugin) = (prepare::soc_binary()?, prepare::plugin()?);
        let choice = Choice { mode: Mode::Sanitizer, ..Choice::default() };
        let found = AtomicUsize::new(0);
        let jobs = chosen.iter().map(|scenario| {
            let name = sanitized(scenario);
            let mut parts = self.parts(&name, scenario, &soc, &built);
            parts.options.lab = Some((choice, plugin.clone()));
            let (folder, found) = (parts.folder.clone(), &found);
            let run = move |done: &mut _| {
                one(scenario, &parts, done)?;
                let all = findings::read(&parts.folder)?;
                found.fetch_add(all.len(), Ordering::Relaxed);
                let texts: Vec<&str> = all.iter().map(|finding| finding.text.as_str()).collect();
                ensure!(texts.is_empty(), "{}", texts.join("\n"));
                Ok(Passed::Itself)
            };
            Job { name, folder, alone: false, run: Box::new(run) }
        });
        let jobs = jobs.collect();
        pool::run(jobs, BUSY, &mut self.tally)?;
        let (found, count) = (found.into_inner(), chosen.len());
        println!("record sanitizer.false_reports {found} reports over {count} scenarios");
        Ok(())
    }

    /// The lab's own tests, with the kernels that it measures.
    fn lab(&mut self, chosen: &[&Check]) -> anyhow::Result<()> {
        let isas = [Isa::Aarch64, Isa::Riscv64];
        let built = kernels::build(self.place, &isas, Profile::KernelTrials)?;
        if chosen.iter().any(|check| SEEDED.iter().any(|area| check.name.starts_with(area))) {
            // Built here, and not while boards run.
            kernels::build(self.place, &isas, Profile::KernelSeeded)?;
        }
        let (place, built) = (self.place, &built);
        let jobs = chosen.iter().map(|check| {
            let folder = self.folder.join(check.name);
            let counted = RefCell::default();
            let kit = Kit { place, kernels: built, folder: folder.clone(), counted };
            let run = move |done: &mut Counted| {
                let result = (check.run)(&kit);
                done.add_all(&kit.counted.borrow());
                result.map(|()| Passed::Itself)
            };
            let alone = ALONE.contains(&check.name);
            Job { name: check.name.into(), folder, alone, run: Box::new(run) }
        });
        let jobs = jobs.collect();
        pool::run(jobs, Lanes::Own, &mut self.tally)
    }
}

/// Tests that keep all cores busy, and would hold up those beside them.
const ALONE: &[&str] = &["programs.hostile", "programs.many", "lab.exact"];

/// Checks that need kernels with planted bugs.
const SEEDED: &[&str] = &["sanitizer.seeded", "lab.points.planted"];

/// Scenarios that begin first: those that run alone, and the longest, so that no long one is left
/// at the end.
const FIRST: &[&str] = &[
    "programs.hostile",
    "programs.many",
    "system.shell",
    "disk.cuts",
    "exec.dir",
    "rpc.hung-peer",
    "services.stopped",
    "trio.shadowed",
    "trio.lost",
    "system.down",
    "programs.traps",
    "programs.short",
    "programs.shadowed",
    "exec.alone",
    "domain.kills",
];

/// Scenarios that start a board as a person does, with the kernels that ship.
const SHIPPED: &[&str] = &["exec.alone"];

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
    "channels.across",
];

/// What computes too much to be watched; what kernels do for it, others do watched. What restarts
/// its board, which an exact run refuses. And what plants values that no service may have, an
/// atomic counter in shared memory among them. An area ends with a dot.
const UNWATCHED: &[&str] = &[
    "corpus.",
    "programs.hostile",
    "disk.reboot",
    "system.reboot",
    "services.twins",
    "domain.main-hangs",
    "domain.debug",
];

/// What a name ends with that does more often what another scenario does, which is watched.
const OFTEN: &str = "-often";

fn is_unwatched(name: &str) -> bool {
    if name.ends_with(OFTEN) {
        return true;
    }
    UNWATCHED.iter().any(|it| *it == name || (it.ends_with('.') && name.starts_with(it)))
}

/// Name of a scenario's test under the sanitizer.
pub fn sanitized(scenario: &Scenario) -> String {
    format!("{SANITIZED_PREFIX}{}", scenario.name)
}

/// What the names of scenarios under the sanitizer begin with.
const SANITIZED_PREFIX: &str = "sanitizer.clean.";

/// Runs a scenario, and adds what it has counted; the board goes down however it ends.
fn one(scenario: &Scenario, parts: &Parts, done: &mut Counted) -> anyhow::Result<()> {
    let mut rig = Rig::start(parts)?;
    let result = (scenario.run)(&mut rig);
    done.add_all(&rig.counted);
    // The transcript helps to understand a failure; it is no failure of its own.
    let _ = std::fs::write(rig.instance.path("transcript"), rig.transcript());
    match result {
        Err(Failure::LeftOut(why)) => Err(LeftOut(why).into()),
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What runs only under `--nightly`, and why, as docs/reference/testing.md has it.
    fn nightly() -> String {
        let scenarios = scenarios::ALL.iter().map(|it| (it.name, it.nightly));
        let all = scenarios.chain(checks::ALL.iter().map(|it| (it.name, it.nightly)));
        let rows = all.filter_map(|(name, why)| Some(format!("| `{name}` | {} |\n", why?)));
        rows.collect()
    }

    #[test]
    fn what_is_nightly_is_documented_with_its_reason() {
        let text = include_str!("../../../docs/reference/testing.md");
        assert!(text.contains(&nightly()), "docs/reference/testing.md must have\n{}", nightly());
    }

    #[test]
    fn tests_with_a_treatment_of_their_own_are_daily_ones() {
        let scenarios = scenarios::ALL.iter().map(|it| (it.name, it.nightly));
        let checks = checks::ALL.iter().map(|it| (it.name, it.nightly));
        let daily = scenarios.chain(checks).filter(|(_, nightly)| nightly.is_none());
        let daily: BTreeSet<&str> = daily.map(|(name, _)| name).collect();
        for name in SANITIZED.iter().chain(ALONE).chain(FIRST).chain(SHIPPED) {
            assert!(daily.contains(name), "{name}");
        }
    }

    #[test]
    fn what_is_done_often_is_done_watched_too() {
        let is_there = |name: &str| scenarios::ALL.iter().any(|it| it.name == name);
        let often: Vec<_> =
            scenarios::ALL.iter().filter_map(|it| it.name.strip_suffix(OFTEN)).collect();
        assert!(!often.is_empty());
        often.iter().for_each(|name| assert!(is_there(name), "{name}"));
    }

    #[test]
    fn a_folder_is_for_one_run_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let mine = claim(folder.path()).unwrap();
        let refused = claim(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("another `./pen test` runs in"), "{refused}");
        drop(mine);
        claim(folder.path()).unwrap();
    }

    #[test]
    fn a_filter_with_a_dot_needs_no_test_of_the_host() {
        let place = Place::find().unwrap();
        let wanted = |filter| Wanted::new(&place, filter, (false, false), None).unwrap();
        assert!(wanted(None).has_host() && wanted(Some("fs::")).has_host());
        assert!(
            !wanted(Some("disk.reboot")).has_host()
                && wanted(Some("disk.reboot")).has("disk.reboot")
        );
    }

    #[test]
    fn a_whole_name_is_of_one_test_and_of_a_nightly_one_too() {
        let place = Place::find().unwrap();
        let wanted = |filter| Wanted::new(&place, Some(filter), (false, false), None).unwrap();
        let one = wanted("domain.hangs");
        assert!(one.has_now("domain.hangs", false) && one.has_now("domain.hangs", true));
        assert!(!one.has("domain.hangs-often") && !one.has("sanitizer.clean.domain.hangs"));
        let watched = wanted("sanitizer.clean.domain.hangs");
        assert!(watched.has("sanitizer.clean.domain.hangs") && !watched.has("domain.hangs"));
        let part = wanted("domain.hang");
        assert!(part.has_now("domain.hangs-often", false));
        assert!(!part.has_now("domain.hangs-often", true));
    }
}

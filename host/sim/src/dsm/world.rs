//! The chip around the DSM's kernels: scheduling, deaths, sleep, the chip page, all from one seed.
//! A run succeeds when every access has ended and all kernels are idle; anything else is a
//! [`Failure`] with the trace that led to it.

use std::cell::RefCell;
use std::rc::Rc;

use base::id::{DomainId, Epoch};
use base::prng::Prng;
use kernel_dsm::{Down, PeerStatus, Protocol, Start};

use super::Break;
use super::kernel::{DOMAINS, Kernel, LINK, PAGES, Temper, WORDS, link};
use super::losses::Losses;
use super::op::{Op, Told};
use crate::machine::{Access, Machine, Missing, Mode, Outcome, Shared, Window, none_missing, run};
use crate::memory::Memory;
use crate::tally::tally;
use crate::trace::Trace;
use crate::world::Failure;

/// Number of steps in which kernels may die, sleep and restart.
const STORM: u64 = 700;
/// Limit on steps, more than any run needs.
const STEPS: u64 = 200_000;
/// Trace lines kept for a failure.
const TRACE: usize = 80;

tally! {
    /// Number of steps.
    steps,
    /// Accesses that succeeded.
    accesses,
    /// Accesses that found a lost page.
    failed,
    /// Lost pages.
    lost,
    /// Deaths.
    deaths,
    /// Domains that left.
    sleeps,
    /// Reports of ping-ponging pages.
    thrash,
    /// Operations interrupted between two accesses to words.
    pauses,
}

struct Site {
    epoch: Epoch,
    kernel: Option<Kernel>,
    paused: Option<(Op, Vec<u64>)>,
    /// The chip page already says that it runs (again).
    starting: bool,
    /// The share of its turns that it uses, of 8.
    speed: u64,
}

struct World {
    seed: u64,
    prng: Prng,
    temper: Temper,
    machine: Shared<Vec<u64>>,
    sites: Vec<Site>,
    deaths: u64,
    sleepy: bool,
    losses: Losses,
    truth: Vec<Option<u64>>,
    trace: Trace,
    tally: Tally,
}

/// Runs one seed. `broken` omits a barrier; `print` prints each step.
pub fn simulate(seed: u64, broken: Option<Break>, print: bool) -> Result<Tally, Failure> {
    match World::new(seed, broken, print, print).run() {
        // Runs again for the trace: the same seed does the same.
        Err(_) if !print => World::new(seed, broken, true, false).run(),
        other => other,
    }
}

fn missing(broken: Option<Break>) -> Missing {
    let header = |at: usize| at % abi::dsm::SLOT == abi::dsm::HEADER;
    let links = link(DOMAINS, 0);
    match broken {
        None => none_missing(),
        Some(Break::Publish) => {
            Box::new(move |access| matches!(access, Access::Store(at) if at < links && !header(at)))
        }
        Some(Break::Consume) => {
            Box::new(move |access| matches!(access, Access::Load(at) if at < links && header(at)))
        }
    }
}

impl World {
    fn new(seed: u64, broken: Option<Break>, tracing: bool, print: bool) -> World {
        let mut prng = Prng::new(seed);
        let domains = 2 + prng.below(DOMAINS as u64 - 1) as usize;
        let protocol = if prng.chance(1, 3) { Protocol::TwoState } else { Protocol::ThreeState };
        let pages = 1 + prng.below(5) as u32;
        let hold = [0, 0, 10, 60][prng.below(4) as usize];
        let memory = Memory::new(vec![0; WORDS], domains, true);
        let mode = Mode::Random { prng: Prng::new(prng.next()), pause: usize::MAX };
        let machine = Rc::new(RefCell::new(Machine::new(memory, mode, missing(broken))));
        let mut site = || Site {
            epoch: Epoch(0),
            kernel: None,
            paused: None,
            starting: false,
            speed: [8, 8, 4, 1][prng.below(4) as usize],
        };
        let sites = (0..domains).map(|_| site()).collect();
        World {
            seed,
            temper: Temper { protocol, domains, pages, hold },
            machine,
            sites,
            deaths: [0, 0, 1, 2, 4][prng.below(5) as usize],
            sleepy: prng.chance(1, 2),
            prng,
            losses: Losses::new(domains),
            truth: vec![Some(0); PAGES as usize],
            trace: Trace::new(TRACE, tracing, print),
            tally: Tally::default(),
        }
    }

    fn run(mut self) -> Result<Tally, Failure> {
        if let Err(reason) = self.found() {
            return Err(self.fail(reason));
        }
        while self.tally.steps < STEPS {
            self.tally.steps += 1;
            if let Err(reason) = self.step() {
                return Err(self.fail(reason));
            }
            if self.tally.steps.is_multiple_of(16) && self.is_quiet() {
                return Ok(self.tally);
            }
        }
        Err(self.fail("no end".into()))
    }

    fn fail(self, reason: String) -> Failure {
        let kernels = self.sites.iter().filter_map(|site| site.kernel.as_ref());
        let states: Vec<String> = kernels.map(Kernel::describe).collect();
        Failure { seed: self.seed, reason, trace: self.trace.ending(states) }
    }

    fn is_quiet(&self) -> bool {
        self.tally.steps > STORM
            && self.sites.iter().all(|site| {
                site.paused.is_none() && site.kernel.as_ref().is_some_and(Kernel::is_done)
            })
    }

    fn runs(&self, id: usize) -> bool {
        let site = &self.sites[id];
        site.kernel.as_ref().is_some_and(|kernel| site.starting || !kernel.left)
    }

    fn news(&self, to: usize) -> Vec<PeerStatus> {
        let peers = (0..self.sites.len()).filter(|peer| *peer != to);
        let tell = |peer: usize| {
            let site = &self.sites[peer];
            let how = if site.kernel.is_some() { Down::Slept } else { Down::Died };
            let down = (!self.runs(peer)).then_some(how);
            PeerStatus { domain: DomainId(peer as u8), epoch: site.epoch, down }
        };
        peers.map(tell).collect()
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        self.trace.note(self.tally.steps, line);
    }

    fn found(&mut self) -> Result<(), String> {
        (0..self.sites.len()).for_each(|id| self.make(id));
        for id in 0..self.sites.len() {
            let news = self.news(id);
            self.operate(id, Op::Start(news, false, Start::Founding), vec![], false)?;
        }
        Ok(())
    }

    fn make(&mut self, id: usize) {
        let epoch = Epoch(self.sites[id].epoch.0 + 1);
        let agents = self.sites.len();
        let machine = &self.machine;
        let wire = |base| Window { machine: machine.clone(), agent: id, agents, base };
        let mut kernel = Kernel::new(id, epoch, self.temper, wire, Prng::new(self.prng.next()));
        kernel.todo = 10 + self.prng.below(20) as u32;
        let site = &mut self.sites[id];
        (site.epoch, site.kernel, site.paused) = (epoch, Some(kernel), None);
    }

    fn step(&mut self) -> Result<(), String> {
        let id = self.prng.below(self.sites.len() as u64) as usize;
        let storm = self.tally.steps < STORM;
        self.drain(id);
        let site = &mut self.sites[id];
        let Some(kernel) = site.kernel.as_mut() else {
            return if self.prng.chance(1, 16) { self.boot(id) } else { Ok(()) };
        };
        // A paused operation is run again unchanged, with the same time.
        if site.paused.is_none() {
            kernel.now = self.tally.steps;
        }
        if !self.prng.chance(site.speed, 8) {
            return Ok(());
        }
        if storm && self.deaths > 0 && self.prng.chance(1, 100) {
            self.kill(id);
            return Ok(());
        }
        if let Some((op, log)) = self.sites[id].paused.take() {
            return self.operate(id, op, log, true);
        }
        match self.choose(id, storm) {
            Some(op) => self.operate(id, op, vec![], true),
            None => Ok(()),
        }
    }

    /// Makes some of a domain's delayed stores visible.
    fn drain(&mut self, id: usize) {
        let mut machine = self.machine.borrow_mut();
        if self.prng.chance(1, 8) && machine.memory.buffered(id) > 0 {
            let next = machine.memory.drainable(id).next().unwrap_or(0);
            machine.memory.drain(id, next);
        }
    }

    fn choose(&mut self, id: usize, storm: bool) -> Option<Op> {
        let domains = self.sites.len();
        if self.sites[id].kernel.as_ref()?.left {
            let more = self.sites[id].kernel.as_ref()?.todo > 0;
            return (more && self.prng.chance(1, 32)).then(|| self.start(id));
        }
        let unknown = (0..domains).any(|peer| {
            let now = (self.sites[peer].epoch, self.runs(peer));
            peer != id && self.sites[id].kernel.as_ref().is_some_and(|k| k.known[peer] != now)
        });
        let wanted = self.sites[id].kernel.as_ref()?.dsm.needs_chip_page();
        if (unknown || wanted) && self.prng.chance(1, 6) {
            return Some(Op::Learn(self.news(id), self.losses.are_unsettled()));
        }
        let core = self.prng.below(super::kernel::CORES as u64) as usize;
        let peer = (id + 1 + self.prng.below(domains as u64 - 1) as usize) % domains;
        match self.prng.below(16) {
            0 => Some(Op::Tick),
            1 | 2 => Some(Op::Unmapped),
            3 if storm && self.sleepy && self.prng.chance(1, 4) => {
                Some(Op::Leave(self.losses.clone()))
            }
            3..=8 => Some(Op::Core(core)),
            _ => Some(Op::Poll(peer)),
        }
    }

    /// Starts a domain. If no kernel runs, the chip lets this one be the first.
    fn start(&mut self, id: usize) -> Op {
        let others = (0..self.sites.len()).any(|peer| peer != id && self.runs(peer));
        let start =
            if others { Start::Join } else { Start::First { lost: self.losses.are_unsettled() } };
        self.sites[id].starting = true;
        let (news, lost) = (self.news(id), self.losses.are_unsettled());
        self.note(|| format!("{id} starts: {start:?}"));
        Op::Start(news, lost, start)
    }

    fn boot(&mut self, id: usize) -> Result<(), String> {
        let op = self.start(id);
        self.make(id);
        self.operate(id, op, vec![], false)
    }

    fn kill(&mut self, id: usize) {
        self.deaths -= 1;
        self.tally.deaths += 1;
        if self.runs(id) {
            self.losses.add(id, self.sites[id].epoch);
        }
        let lingering = self.machine.borrow().memory.buffered(id) as u64;
        for _ in 0..self.prng.below(lingering + 1) {
            let mut machine = self.machine.borrow_mut();
            let ready: Vec<usize> = machine.memory.drainable(id).collect();
            let pick = ready[self.prng.below(ready.len() as u64) as usize];
            machine.memory.drain(id, pick);
        }
        self.machine.borrow_mut().memory.kill(id);
        let site = &mut self.sites[id];
        (site.kernel, site.paused, site.starting) = (None, None, false);
        self.note(|| format!("{id} dies"));
    }

    fn operate(&mut self, id: usize, op: Op, log: Vec<u64>, may_pause: bool) -> Result<(), String> {
        let Some(mut kernel) = self.sites[id].kernel.take() else { return Ok(()) };
        let pausing = may_pause && self.prng.chance(1, 8);
        let most = log.len() + 1 + self.prng.below(12) as usize;
        if let Mode::Random { pause, .. } = &mut self.machine.borrow_mut().mode {
            *pause = if pausing { most } else { usize::MAX };
        }
        let before = pausing.then(|| kernel.clone());
        match run(&self.machine, log, || kernel.run(op.clone())) {
            Outcome::Done(()) => {
                let told = core::mem::take(&mut kernel.told);
                self.sites[id].starting &= !matches!(op, Op::Start(..));
                self.sites[id].kernel = Some(kernel);
                self.note(|| format!("{id} {op:?} {told:?}"));
                told.into_iter().try_for_each(|told| self.judge(id, told))
            }
            Outcome::Paused(log) => {
                self.tally.pauses += 1;
                self.sites[id].kernel = before;
                self.sites[id].paused = Some((op, log));
                Ok(())
            }
        }
    }

    fn judge(&mut self, id: usize, told: Told) -> Result<(), String> {
        match told {
            Told::Saw(page, value) => {
                let truth = *self.truth[page as usize].get_or_insert(value);
                if truth != value {
                    return Err(format!("{id} read {value} in page {page}, which has {truth}"));
                }
            }
            Told::Stored(page, value) => self.truth[page as usize] = Some(value),
            Told::Lost(page) => {
                self.tally.lost += 1;
                self.truth[page as usize] = None;
            }
            Told::Done => self.tally.accesses += 1,
            Told::Failed => self.tally.failed += 1,
            Told::Left(settled) => {
                self.tally.sleeps += 1;
                self.losses.settled = settled;
            }
            Told::Thrash => self.tally.thrash += 1,
            Told::Broken(reason) => return Err(format!("{id}: {reason}")),
        }
        Ok(())
    }
}

const _: () = assert!(LINK.is_multiple_of(8));

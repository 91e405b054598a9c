//! The chip around the kernels: scheduling, crashes, doorbells, the soc's chip page, all from one
//! seed. A run succeeds when every call has ended and all kernels sleep; anything else is a
//! [`Failure`] with the trace that led to it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::rc::Rc;

use base::id::{DomainId, Epoch};
use base::prng::Prng;
use kernel_msg::{CallError, Endpoint, LinkPair};

use crate::kernel::{Kernel, Wire};
use crate::machine::{Machine, Mode, Outcome, Shared, none_missing, run};
use crate::memory::Memory;
use crate::op::{Effect, Op, Temper};
use crate::payload;
use crate::place::{Break, LAYOUTS, link, page, words};
use crate::tally::tally;
use crate::trace::Trace;

/// Limit on steps, more than any run needs.
const STEPS: u64 = 400_000;
/// Trace lines kept for a failure.
const TRACE: usize = 60;

/// Why a seed failed.
#[derive(Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What is wrong.
    pub reason: String,
    /// The last events, and the state of all kernels.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.reason)?;
        self.trace.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

tally! {
    /// Number of steps.
    steps,
    /// Calls that ended with a reply.
    replies,
    /// Calls that the server rejected.
    errors,
    /// Calls that failed before they were sent: nested too deep, or to a dead peer.
    unsent,
    /// Calls that ended because their peer died.
    lost,
    /// Crashes.
    crashes,
    /// Operations interrupted between two accesses.
    pauses,
}

/// The slot of one kernel on the chip.
struct Site {
    epoch: Epoch,
    kernel: Option<Kernel>,
    /// An interrupted operation, with its loads so far.
    paused: Option<(Op, Vec<u64>)>,
    bell: bool,
}

/// A simulated chip.
pub struct World {
    seed: u64,
    prng: Prng,
    temper: Temper,
    layout: usize,
    machine: Shared<Vec<u64>>,
    sites: Vec<Site>,
    rings: Vec<usize>,
    crashes: u64,
    open: HashMap<u64, usize>,
    taken: HashSet<u64>,
    trace: Trace,
    tally: Tally,
}

/// Runs one seed. `broken` omits a barrier; `print` prints each step.
pub fn simulate(seed: u64, broken: Option<Break>, print: bool) -> Result<Tally, Failure> {
    let quick = World::new(seed, broken, print, print).run();
    match quick {
        // Runs again for the trace: the same seed does the same.
        Err(_) if !print => World::new(seed, broken, true, false).run(),
        other => other,
    }
}

impl World {
    fn new(seed: u64, broken: Option<Break>, tracing: bool, print: bool) -> World {
        let mut prng = Prng::new(seed);
        let domains = 2 + prng.below(3) as usize;
        let layout = if broken.is_some() { 3 } else { prng.below(LAYOUTS.len() as u64) as usize };
        let filler = [40, 72, 104, 104][layout];
        let handlers = 2 + prng.below(4) as u16;
        let (urgent, nested) = (prng.below(6), prng.below(3));
        let crashes = [0, 0, 1, 2, 5][prng.below(5) as usize];
        let temper = Temper { domains, filler, handlers, urgent, nested };
        let memory = Memory::new(vec![0; words(domains)], domains, true);
        let mode = Mode::Random { prng: Prng::new(prng.next()), pause: usize::MAX };
        let missing = match broken {
            Some(broken) => Box::new(move |access| broken.is(domains, access)),
            None => none_missing(),
        };
        let machine = Rc::new(RefCell::new(Machine::new(memory, mode, missing)));
        let site = |_| Site { epoch: Epoch(0), kernel: None, paused: None, bell: false };
        World {
            seed,
            prng,
            temper,
            layout,
            machine,
            sites: (0..domains).map(site).collect(),
            rings: vec![],
            crashes,
            open: HashMap::new(),
            taken: HashSet::new(),
            trace: Trace::new(TRACE, tracing, print),
            tally: Tally::default(),
        }
    }

    fn run(mut self) -> Result<Tally, Failure> {
        while self.tally.steps < STEPS {
            self.tally.steps += 1;
            if let Err(reason) = self.step() {
                return Err(self.fail(reason));
            }
            if self.tally.steps.is_multiple_of(16) && self.is_quiet() {
                let done = self.open.is_empty() && self.kernels().all(Kernel::is_done);
                return if done { Ok(self.tally) } else { Err(self.fail("deadlock".into())) };
            }
        }
        Err(self.fail("no end".into()))
    }

    fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.sites.iter().filter_map(|site| site.kernel.as_ref())
    }

    fn fail(self, reason: String) -> Failure {
        let states: Vec<String> = self.kernels().map(Kernel::describe).collect();
        Failure { seed: self.seed, reason, trace: self.trace.ending(states) }
    }

    /// Returns the epoch in the chip page; a dead kernel has none.
    fn truth(&self, id: usize) -> Option<Epoch> {
        self.sites[id].kernel.as_ref().map(|kernel| kernel.epoch)
    }

    /// Returns whether no further event can happen.
    fn is_quiet(&self) -> bool {
        let asleep = |id: usize| {
            let site = &self.sites[id];
            let knows = |kernel: &Kernel| {
                (0..self.sites.len()).all(|p| p == id || kernel.known[p] == self.truth(p))
            };
            let rests = |k: &Kernel| !k.is_attending() && k.making == 0 && knows(k);
            site.kernel.as_ref().is_some_and(rests) && site.paused.is_none() && !site.bell
        };
        self.rings.is_empty() && (0..self.sites.len()).all(asleep)
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        self.trace.note(self.tally.steps, line);
    }

    fn step(&mut self) -> Result<(), String> {
        if !self.rings.is_empty() && self.prng.chance(1, 4) {
            let pick = self.prng.below(self.rings.len() as u64) as usize;
            let to = self.rings.swap_remove(pick);
            // A ring to a domain that is down or booting is lost.
            let site = &mut self.sites[to];
            let deaf = matches!(site.paused, Some((Op::Boot, _)));
            site.bell |= site.kernel.is_some() && !deaf;
        }
        let id = self.prng.below(self.sites.len() as u64) as usize;
        if self.sites[id].kernel.is_none() {
            return if self.prng.chance(1, 8) { self.boot(id) } else { Ok(()) };
        }
        if self.crashes > 0 && self.prng.chance(1, 200) {
            self.crash(id);
            return Ok(());
        }
        if let Some((op, log)) = self.sites[id].paused.take() {
            if self.prng.chance(1, 4) {
                return self.operate(id, op, log);
            }
            self.sites[id].paused = Some((op, log));
            return Ok(());
        }
        match self.choose(id) {
            Some(op) => self.operate(id, op, vec![]),
            None => Ok(()),
        }
    }

    fn choose(&mut self, id: usize) -> Option<Op> {
        let peer = self.prng.below(self.sites.len() as u64) as usize;
        let truth = self.truth(peer);
        let prng = &mut self.prng;
        let site = &mut self.sites[id];
        let kernel = site.kernel.as_ref()?;
        if peer != id && kernel.known[peer] != truth && prng.chance(1, 6) {
            return Some(Op::Learn(peer, truth));
        }
        if site.bell {
            site.bell = false;
            return Some(Op::Bell);
        }
        if kernel.making > 0 && prng.chance(1, 4) {
            return Some(Op::Make(prng.chance(3, 4)));
        }
        if !kernel.is_attending() {
            return None;
        }
        let runnable: Vec<usize> = kernel.runnable().collect();
        match prng.below(4) {
            0 => Some(Op::Poll),
            _ if !runnable.is_empty() => {
                Some(Op::Act(runnable[prng.below(runnable.len() as u64) as usize]))
            }
            1 => Some(Op::Leave),
            _ => None,
        }
    }

    fn boot(&mut self, id: usize) -> Result<(), String> {
        let domains = self.sites.len();
        let epoch = Epoch(self.sites[id].epoch.0 + 1);
        let window =
            |base| Wire { machine: self.machine.clone(), agent: id, agents: domains, base };
        let mut endpoint = Endpoint::new(&LAYOUTS[self.layout], epoch);
        for peer in (0..domains).filter(|peer| *peer != id) {
            let mine = window(link(domains, id, peer));
            let theirs = window(link(domains, peer, id));
            endpoint.add(DomainId(peer as u8), LinkPair { mine, theirs });
        }
        let pages = (0..domains).map(|domain| window(page(domains, domain))).collect();
        let prng = Prng::new(self.prng.next());
        let mut kernel = Kernel::new((id, epoch), endpoint, pages, self.temper, prng);
        kernel.known = (0..domains).map(|peer| self.truth(peer)).collect();
        self.note(|| format!("{id} boots in epoch {}", epoch.0));
        self.sites[id] = Site { epoch, kernel: Some(kernel), paused: None, bell: false };
        self.operate(id, Op::Boot, vec![])
    }

    fn crash(&mut self, id: usize) {
        self.crashes -= 1;
        self.tally.crashes += 1;
        let lingering = self.machine.borrow().memory.buffered(id) as u64;
        // Some of the buffered stores still become visible, the rest is lost.
        for _ in 0..self.prng.below(lingering + 1) {
            let mut machine = self.machine.borrow_mut();
            let ready: Vec<usize> = machine.memory.drainable(id).collect();
            let pick = ready[self.prng.below(ready.len() as u64) as usize];
            machine.memory.drain(id, pick);
        }
        self.machine.borrow_mut().memory.kill(id);
        let site = &mut self.sites[id];
        (site.kernel, site.paused, site.bell) = (None, None, false);
        self.open.retain(|_, caller| *caller != id);
        self.note(|| format!("{id} crashes"));
    }

    fn operate(&mut self, id: usize, op: Op, log: Vec<u64>) -> Result<(), String> {
        let Some(mut kernel) = self.sites[id].kernel.take() else { return Ok(()) };
        let pausing = self.prng.chance(1, 6);
        let most = log.len() + 1 + self.prng.below(24) as usize;
        if let Mode::Random { pause, .. } = &mut self.machine.borrow_mut().mode {
            *pause = if pausing { most } else { usize::MAX };
        }
        let before = pausing.then(|| kernel.clone());
        match run(&self.machine, log, || kernel.run(op)) {
            Outcome::Done(()) => {
                let effects = core::mem::take(&mut kernel.effects);
                self.sites[id].kernel = Some(kernel);
                self.note(|| format!("{id} {op:?} {effects:?}"));
                effects.into_iter().try_for_each(|effect| self.judge(id, effect))
            }
            Outcome::Paused(log) => {
                self.tally.pauses += 1;
                self.note(|| format!("{id} {op:?} paused after {}", log.len()));
                self.sites[id].kernel = before;
                self.sites[id].paused = Some((op, log));
                Ok(())
            }
        }
    }

    fn judge(&mut self, id: usize, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Ring(to) => self.rings.push(to),
            Effect::Taken(uid) => {
                if !self.taken.insert(uid) {
                    return Err(format!("request {uid:#x} was taken twice"));
                }
            }
            Effect::Began(uid) => {
                self.open.insert(uid, id);
            }
            Effect::Abandoned(uid) => {
                self.open.remove(&uid);
            }
            Effect::Refused(to, error) => self.judge_refusal(id, to, error)?,
            Effect::Ended(uid, to, epoch, result) => {
                if self.open.remove(&uid).is_none() {
                    return Err(format!("call {uid:#x} ended twice"));
                }
                self.judge_end(uid, to, epoch, result)?;
            }
            Effect::Broken(reason) => return Err(reason),
        }
        Ok(())
    }

    fn judge_refusal(&mut self, id: usize, to: usize, error: CallError) -> Result<(), String> {
        self.tally.unsent += 1;
        let knows = self.sites[id].kernel.as_ref().is_some_and(|k| k.known[to].is_some());
        match error {
            CallError::PeerLost if knows => Err("PeerLost of a peer known to live".into()),
            CallError::TooLarge => Err("a payload that fits was too large".into()),
            _ => Ok(()),
        }
    }

    fn judge_end(
        &mut self,
        uid: u64,
        to: usize,
        epoch: Epoch,
        result: Result<Vec<u8>, CallError>,
    ) -> Result<(), String> {
        match result {
            Ok(reply) if payload::parse(&reply) == Some((uid, to, epoch)) => {
                self.tally.replies += 1
            }
            Ok(reply) => return Err(format!("wrong reply to {uid:#x}: {reply:?}")),
            Err(CallError::PeerLost) if self.truth(to) == Some(epoch) => {
                return Err(format!("call {uid:#x} lost, but {to} lives"));
            }
            Err(CallError::PeerLost) => self.tally.lost += 1,
            Err(CallError::Refused(_)) => self.tally.errors += 1,
            Err(error) => return Err(format!("call {uid:#x} ended with {error:?}")),
        }
        Ok(())
    }
}

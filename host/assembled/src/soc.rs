//! The soc: the power controller as shipped (`soc::power`), over processes instead of emulators.
//! It runs in the process that forks the kernels.

use crate::chip::{DOORBELL, drain, lose};
use crate::layout::{HIGH, HIGH_END, MEMORY, at, cache};
use crate::plan::{Act, Plan};
use crate::points::{Point, WOKEN_NS};
use crate::report::Count;
use crate::turn::{Control, SOC, control, state as core_state};
use crate::{Options, callers, history, kernel, raw};
use abi::boot::{BLOCK, Blob};
use abi::soc::{ChipPage, DomainPage, DomainStatus, command, error, state, unpack_state};
use soc::power::{Asker, Effect, Event, Job, Policy, Power};
use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::atomic::Ordering::Relaxed;

/// A run that takes more steps is stuck; most take a twentieth.
const MOST_STEPS: u64 = 4_000_000;
/// Seconds of the host that a kernel may have the turn without a step: it is in a loop.
const PATIENCE: u32 = 60;

struct Domain {
    /// Process of its kernel.
    pid: Option<i32>,
    cache: raw::File,
    /// Sequence number of its last request.
    handled: u64,
    epoch: u64,
    stopped_at: u64,
}

/// The soc of one run.
pub struct Soc<'a> {
    plan: &'a Plan,
    acts: VecDeque<(u64, Act)>,
    points: Vec<Point>,
    /// How many of them have been reached.
    reached: usize,
    power: Power,
    domains: Vec<Domain>,
}

/// Runs a plan to its end.
pub fn run(plan: &Plan, seed: u64, points: &[Point], options: &Options) -> Result<(), String> {
    let window = &plan.blob.window;
    crate::turn::map();
    history::map();
    map_memory(&plan.blob);
    raw::map("the shared block", MEMORY, BLOCK);
    raw::write(at(window.base), zerocopy::IntoBytes::as_bytes(&*plan.blob));
    let control = control();
    control.seed(seed);
    control.longest.store(plan.turn, Relaxed);
    control.most.store(MOST_STEPS, Relaxed);
    control.broken.store(options.broken.map_or(0, |broken| broken as u32), Relaxed);
    if let Some(workload) = options.workload {
        workload.install();
    }
    control.is_loud.store(u32::from(options.is_loud), Relaxed);
    let domains = (0..plan.blob.domain_count as usize).map(|d| {
        let file = raw::File::new(BLOCK);
        file.map(cache(d), BLOCK, false);
        Domain { pid: None, cache: file, handled: 0, epoch: 0, stopped_at: 0 }
    });
    let domains: Vec<Domain> = domains.collect();
    let policy = Policy { restart: true, essential: false, max_deaths: 100 };
    let policies = vec![policy; domains.len()];
    let acts = plan.acts.iter().copied().collect();
    for point in points {
        control.cores[point.domain].point.store(point.step, Relaxed);
    }
    let points = points.to_vec();
    let power = Power::new(&policies);
    let mut soc = Soc { plan, acts, points, reached: 0, power, domains };
    let result = soc.until_the_end(control);
    soc.domains.iter().filter_map(|domain| domain.pid).for_each(raw::kill);
    // A sampled one may come after the end.
    match options.has_sample() || soc.reached == soc.points.len() {
        true => result,
        false => result.and(Err("the run ended before the point".into())),
    }
}

/// Maps the memory of all domains but the shared block: what one kernel writes there is there for
/// another that takes it for its own.
fn map_memory(blob: &Blob) {
    let domains = &blob.domains[..blob.domain_count as usize];
    let start = domains.iter().map(|domain| at(domain.ram_base)).min().unwrap_or(HIGH);
    let end = domains.iter().map(|domain| at(domain.ram_base) + domain.ram_size).max();
    let end = end.unwrap_or(HIGH);
    assert!(start >= HIGH && end <= HIGH_END, "the board's memory has its place here");
    raw::map("memory", start, end - start);
}

impl Soc<'_> {
    fn until_the_end(&mut self, control: &'static Control) -> Result<(), String> {
        for d in 0..self.domains.len() {
            self.step(Event::PowerOn(d));
        }
        loop {
            if control.failed.load(Relaxed) != 0 {
                return Err(control.message());
            }
            self.serve();
            self.act();
            if self.is_over() {
                return Ok(());
            }
            if !control.any_runs() {
                self.jump(control)?;
            }
            if !control.pass(SOC) {
                self.wait_for_turn(control)?;
            }
        }
    }

    fn wait_for_turn(&mut self, control: &Control) -> Result<(), String> {
        let steps = || control.counts.get(Count::Steps);
        let (mut before, mut seconds) = (steps(), 0);
        while !control.wait_for_turn(SOC) {
            self.check_processes()?;
            seconds = if steps() == before { seconds + 1 } else { 0 };
            before = steps();
            if seconds > PATIENCE {
                return Err(format!("a kernel has made no step for {PATIENCE} s"));
            }
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        control().clock.load(Relaxed)
    }

    /// Every kernel runs, and all its callers have finished.
    fn is_over(&self) -> bool {
        let cores = &control().cores;
        (0..self.domains.len()).all(|d| {
            let runs = self.power.view(d).is_some_and(|view| view.state == state::RUNNING);
            runs && cores[d].finished.load(Relaxed) == callers::count_of_kernel()
        })
    }

    /// Nothing runs: advances the clock to what happens next.
    fn jump(&mut self, control: &Control) -> Result<(), String> {
        let cores = control.cores.iter().take(self.domains.len());
        let deadlines = cores
            .filter(|core| core.is_stopped.load(Relaxed) == 0)
            .map(|core| (core.deadline.load(Relaxed), core.offset.load(Relaxed)))
            .filter(|&(deadline, _)| deadline != u64::MAX)
            .map(|(deadline, offset)| deadline.wrapping_sub(offset as u64));
        let next = deadlines.chain(self.acts.front().map(|&(at, _)| at)).min();
        let next = next.ok_or("all kernels wait, and nothing will wake them")?;
        control.clock.fetch_max(next, Relaxed);
        self.act();
        Ok(())
    }

    /// A process that ended without being killed had the turn.
    fn check_processes(&mut self) -> Result<(), String> {
        for (d, domain) in self.domains.iter_mut().enumerate() {
            if let Some(status) = domain.pid.and_then(|pid| raw::ended(pid, false)) {
                domain.pid = None;
                let said = control().message();
                return Err(format!("the process of domain {d} ended, status {status:#x}. {said}"));
            }
        }
        Ok(())
    }

    /// Does what the plan says is due.
    fn act(&mut self) {
        while let Some(&(at, act)) = self.acts.front()
            && at <= self.now()
        {
            self.acts.pop_front();
            self.perform(act);
        }
        self.look_for_points();
    }

    fn perform(&mut self, act: Act) {
        let client = Asker::Client(1);
        match act {
            Act::Kill(d) => {
                let alive = self.domains[d].pid.is_some();
                control().counts.add(Count::Deaths, alive.into());
                self.step(Event::Crash(d));
            }
            Act::Stop(d) => {
                control().counts.add(Count::Stops, 1);
                self.step(Event::Request(client, command::INACTIVE, d as u64, 0));
            }
            Act::Wake(d) => {
                self.step(Event::Request(client, command::WAKE, d as u64, 0));
            }
        }
    }

    /// Does what is to happen to domains that are at their points.
    fn look_for_points(&mut self) {
        for Point { domain, kills, .. } in self.points.clone() {
            if control().cores[domain].is_at_point.swap(0, Relaxed) == 0 {
                continue;
            }
            self.reached += 1;
            self.perform(if kills { Act::Kill(domain) } else { Act::Stop(domain) });
            if !kills {
                self.acts.push_back((self.now() + WOKEN_NS, Act::Wake(domain)));
            }
        }
    }

    /// Serves the kernels' requests.
    fn serve(&mut self) {
        if control().soc_rung.swap(0, Relaxed) == 0 {
            return;
        }
        for d in 0..self.domains.len() {
            let word = |field| raw::load(self.page(d, field), 8);
            let sequence = word(offset_of!(DomainPage, sequence));
            if sequence == self.domains[d].handled {
                continue;
            }
            let [order, arg0, arg1] = [
                word(offset_of!(DomainPage, command)),
                word(offset_of!(DomainPage, arg0)),
                word(offset_of!(DomainPage, arg1)),
            ];
            self.domains[d].handled = sequence;
            let asker = Asker::Kernel(d, sequence);
            match order {
                command::ENERGY => self.answer(asker, error::ABSENT, 0),
                _ => self.step(Event::Request(asker, order, arg0, arg1)),
            }
        }
    }

    fn page(&self, d: usize, field: usize) -> u64 {
        at(self.plan.blob.window.domains) + (d * size_of::<DomainPage>() + field) as u64
    }

    fn chip(&self, field: usize) -> u64 {
        at(self.plan.blob.window.chip) + field as u64
    }

    fn status(&self, d: usize, field: usize) -> u64 {
        self.chip(offset_of!(ChipPage, domains) + d * size_of::<DomainStatus>() + field)
    }

    fn put(&self, d: usize, field: usize, value: u64) {
        raw::store(self.status(d, field), 8, value);
    }

    fn step(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.power.step(self.now(), event) {
                events.extend(self.apply(effect));
            }
        }
    }

    fn apply(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Publish(d, word, deaths) => self.publish(d, word, deaths),
            Effect::Lost(d, epoch) => {
                raw::store(self.chip(offset_of!(ChipPage, losses) + 8 * d), 8, epoch);
            }
            Effect::Left(d) => {
                let settled = raw::load(self.page(d, offset_of!(DomainPage, settled)), 8);
                raw::store(self.chip(offset_of!(ChipPage, settled)), 8, settled);
            }
            Effect::Fence(d) => self.fence(d),
            Effect::Prepare(d, _, epoch) => self.domains[d].epoch = epoch,
            Effect::Spawn(d) => self.spawn(d),
            Effect::Kill(d) => {
                self.end(d);
                return Some(Event::Ended(d));
            }
            Effect::Emulator(d, job, number) => return Some(self.job(d, job, number)),
            Effect::Answer(asker, error, value) => self.answer(asker, error, value),
            // The simulated chip has no devices.
            Effect::Listen(..) => {}
            Effect::Died(d, ..) => history::died((d as u8, self.domains[d].epoch as u16)),
            Effect::End(_) | Effect::Again => control().fail("a kernel ended the board"),
        }
        None
    }

    fn publish(&mut self, d: usize, word: u64, deaths: u64) {
        let runs = |word| matches!(unpack_state(word).1, state::BOOTING | state::RUNNING);
        let before = raw::load(self.status(d, offset_of!(DomainStatus, state)), 8);
        if runs(word) && !runs(before) {
            let wakes = self.status(d, offset_of!(DomainStatus, wakes));
            raw::store(wakes, 8, raw::load(wakes, 8) + 1);
        }
        self.put(d, offset_of!(DomainStatus, deaths), deaths);
        self.put(d, offset_of!(DomainStatus, state), word);
        (0..self.domains.len()).for_each(|d| self.ring_chip(d));
    }

    fn ring_chip(&self, d: usize) {
        let bit = 1 << (DOORBELL + self.plan.blob.vector_chip);
        control().cores[d].pending.fetch_or(bit, Relaxed);
    }

    fn fence(&mut self, d: usize) {
        self.domains[d].handled = 0;
        for word in 0..size_of::<DomainPage>() / 8 {
            let at = self.page(d, word * 8);
            raw::store(at, 8, DomainPage::fenced(word, raw::load(at, 8)));
        }
        self.put(d, offset_of!(DomainStatus, answered), 0);
    }

    fn spawn(&mut self, d: usize) {
        let (core, domain) = (&control().cores[d], &mut self.domains[d]);
        domain.cache.clear(BLOCK);
        core.pending.store(0, Relaxed);
        core.unmasked.store(0, Relaxed);
        core.is_stopped.store(0, Relaxed);
        core.finished.store(0, Relaxed);
        core.deadline.store(u64::MAX, Relaxed);
        core.offset.store(self.plan.offset[d], Relaxed);
        core.step_ns.store(self.plan.step_ns[d], Relaxed);
        core.state.store(core_state::RUNS, Relaxed);
        let (epoch, blob) = (domain.epoch, &self.plan.blob);
        let cache = domain.cache;
        domain.pid = Some(raw::fork(|| kernel::run(blob, d, epoch, cache)));
    }

    /// Ends a domain's process, with what only it held.
    fn end(&mut self, d: usize) {
        if let Some(pid) = self.domains[d].pid.take() {
            raw::kill(pid);
        }
        lose(control(), d);
        control().cores[d].state.store(core_state::OFF, Relaxed);
        control().cores[d].deadline.store(u64::MAX, Relaxed);
    }

    fn job(&mut self, d: usize, job: Job, number: u64) -> Event {
        let (core, now) = (&control().cores[d], self.now());
        match job {
            Job::Stop => {
                drain(core);
                core.is_stopped.store(1, Relaxed);
                self.domains[d].stopped_at = now;
            }
            Job::Continue => {
                // Its counter stood still.
                let lost = now - self.domains[d].stopped_at;
                core.offset.fetch_sub(lost as i64, Relaxed);
                core.is_stopped.store(0, Relaxed);
            }
            Job::Reset => {
                control().fail("no kernel of this simulation powers off");
            }
        }
        Event::JobDone(d, number, true)
    }

    fn answer(&mut self, asker: Asker, code: u64, value: u64) {
        let Asker::Kernel(d, sequence) = asker else { return };
        self.put(d, offset_of!(DomainStatus, error), code);
        self.put(d, offset_of!(DomainStatus, value), value);
        self.put(d, offset_of!(DomainStatus, time), self.now());
        self.put(d, offset_of!(DomainStatus, answered), sequence);
        self.ring_chip(d);
    }
}

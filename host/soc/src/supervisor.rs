//! The supervisor: carries out the decisions of [`crate::power`], and answers kernels and clients.
//!
//! One thread (the one that started the QEMUs) waits for doorbells, ends of QEMUs, outcomes of
//! jobs, connections and signals. It never blocks on any of them: a TIME request calibrates a clock
//! and must be answered at once.

mod hangs;
mod points;
mod requests;
mod slow;

use crate::config::{Config, REQUEST_KICK, Start};
use crate::control::Control;
use crate::dma;
use crate::fabric::{Doorbell, Fabric, Slot};
use crate::gate::Gate;
use crate::memory::{Chip, MemoryError};
use crate::power::{Effect, Event, Fate, Job, Power};
use crate::qemu::Qemu;
use crate::qmp::{Order, Outcome, PATIENCE};
use crate::virtio::console::Voice;
use crate::virtio::cut::Cut;
use abi::boot::{BLOB_MAGIC, StubTable};
use abi::soc::{state, unpack_state};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Time between two looks at domains that may hang, in ns.
const HANGS_AGAIN: u64 = 5_000_000;

/// How the board ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was shut down, by this source.
    Ordered(&'static str),
    /// It was shut down and must start again.
    Again,
    /// An essential domain died.
    Lost(String),
}

/// The parts of a supervisor.
pub struct Parts {
    /// The configuration.
    pub config: Config,
    /// The run folder.
    pub folder: PathBuf,
    /// The words shared with kernels.
    pub chip: Chip,
    /// The doorbells.
    pub fabric: Fabric,
    /// One socket per domain.
    pub slots: Vec<Slot>,
    /// The control socket.
    pub control: Control,
    /// The console, if the board has one.
    pub voice: Option<Voice>,
    /// Power switches of disks, by name.
    pub cuts: Vec<(String, Cut)>,
    /// DMA engines.
    pub engines: Vec<dma::Handle>,
    /// Readable when a signal requests the end.
    pub signals: UnixStream,
}

/// A running board.
pub struct Supervisor {
    parts: Parts,
    power: Power,
    qemus: Vec<Option<Qemu>>,
    /// Number of each kernel's last request.
    handled: Vec<u64>,
    /// Its image could not be staged, so it must not run.
    unprepared: Vec<bool>,
    /// Domains that are booting.
    boots: slow::Boots,
    /// Domains that may hang.
    hangs: hangs::Hangs,
    /// Domains that were stopped at points.
    stopped: Vec<points::Stopped>,
    sender: Sender<Outcome>,
    outcomes: Receiver<Outcome>,
    bell: Arc<Doorbell>,
    end: Option<End>,
}

/// The events that woke the supervisor.
#[derive(Default)]
struct Ready {
    doorbell: bool,
    signal: bool,
    outcome: bool,
    ended: Vec<bool>,
    control: bool,
}

impl Ready {
    /// Returns whether no event concerns the chip.
    fn is_empty(&self) -> bool {
        let ended = self.ended.contains(&true);
        !(self.doorbell || self.signal || self.outcome || self.control || ended)
    }
}

impl Supervisor {
    /// Creates a board with all power off.
    pub fn new(parts: Parts) -> std::io::Result<Supervisor> {
        let policies: Vec<_> =
            parts.config.domains.iter().map(|d| d.policy(&parts.config)).collect();
        let count = policies.len();
        let patience = Duration::from_millis(parts.config.boot_patience_ms);
        let hangs = hangs::Hangs::new(&parts.config);
        let (sender, outcomes) = channel();
        Ok(Supervisor {
            parts,
            power: Power::new(&policies),
            qemus: (0..count).map(|_| None).collect(),
            handled: vec![0; count],
            unprepared: vec![false; count],
            boots: slow::Boots::new(count, patience),
            hangs,
            stopped: Vec::new(),
            sender,
            outcomes,
            bell: Arc::new(Doorbell::new()?),
            end: None,
        })
    }

    /// Runs the board until it ends. On return no QEMU runs any more.
    pub fn run(mut self) -> End {
        let gate = self.gate().clone();
        gate.visit(|| self.power_on());
        for slot in std::mem::take(&mut self.parts.slots) {
            if let Err(e) = slot.serve(self.parts.fabric.clone()) {
                log::error!("The soc has no thread for the doorbells of a domain: {e}.");
                self.end = Some(End::Lost("the soc itself".into()));
            }
        }
        while self.end.is_none() {
            match self.wait() {
                Ok(ready) => {
                    if !ready.is_empty() || self.must_look_again() {
                        gate.visit(|| {
                            self.serve(&ready);
                            if self.end.is_some() {
                                gate.freeze();
                            }
                        });
                        gate.settled(usize::from(REQUEST_KICK));
                    }
                    self.tell_of_slow_boots();
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => {
                    log::error!("The soc cannot wait for events any more: {e}.");
                    self.end = Some(End::Lost("the soc itself".into()));
                }
            }
        }
        self.qemus.iter_mut().filter_map(Option::take).for_each(Qemu::finish);
        self.end.unwrap_or(End::Ordered("an unknown source"))
    }

    fn power_on(&mut self) {
        for d in 0..self.qemus.len() {
            if self.parts.config.domains[d].start == Start::On {
                self.step(Event::PowerOn(d));
            }
        }
    }

    fn gate(&self) -> &Gate {
        self.parts.fabric.gate()
    }

    fn now(&self) -> u64 {
        self.gate().now()
    }

    fn name(&self, d: usize) -> &str {
        &self.parts.config.domains[d].name
    }

    fn slot(&self, d: usize) -> usize {
        usize::from(self.parts.config.domains[d].slot)
    }

    fn ring_chip(&self, d: usize) {
        self.parts.fabric.ring(self.slot(d), self.parts.chip.vector() as usize);
    }

    fn wait(&self) -> rustix::io::Result<Ready> {
        let wait = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let fixed = [self.doorbell(), self.bell.as_fd(), self.signals()];
        let mut waits: Vec<PollFd<'_>> = fixed.into_iter().map(wait).collect();
        let running: Vec<usize> =
            (0..self.qemus.len()).filter(|&d| self.qemus[d].is_some()).collect();
        waits.extend(self.qemus.iter().flatten().map(|qemu| wait(qemu.ended())));
        waits.extend(self.parts.control.waits_for().map(wait));
        // In the lab, an alarm of the board's time rings the soc's doorbell.
        let again = self.until_next_look().filter(|_| !self.gate().is_lab());
        let again = again.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        poll(&mut waits, self.boots.left().into_iter().chain(again).min().as_ref())?;
        let mut flags = waits.iter().map(|wait| !wait.revents().is_empty());
        let mut next = || flags.next().unwrap_or(false);
        let (doorbell, outcome, signal) = (next(), next(), next());
        let mut ended = vec![false; self.qemus.len()];
        running.into_iter().for_each(|d| ended[d] = next());
        Ok(Ready { doorbell, signal, outcome, ended, control: flags.any(|flag| flag) })
    }

    /// Returns whether something is watched that no doorbell announces.
    fn must_look_again(&self) -> bool {
        self.until_next_look().is_some()
    }

    /// Returns the ns until the next look at what is watched, or the end of a rest.
    fn until_next_look(&self) -> Option<u64> {
        let rest = self.power.alarm().map(|at| at.saturating_sub(self.now()));
        let hangs = self.hangs.busy.then_some(HANGS_AGAIN);
        [rest, hangs].into_iter().flatten().min()
    }

    fn doorbell(&self) -> BorrowedFd<'_> {
        let own = self.parts.fabric.own(usize::from(REQUEST_KICK));
        own.map_or(self.bell.as_fd(), AsFd::as_fd)
    }

    fn signals(&self) -> BorrowedFd<'_> {
        self.parts.signals.as_fd()
    }

    fn serve(&mut self, ready: &Ready) {
        self.serve_kernels();
        self.end_rests();
        if ready.signal {
            self.end = Some(End::Ordered("a signal"));
        }
        if ready.outcome {
            self.bell.take();
            while let Ok((d, number, good)) = self.outcomes.try_recv() {
                self.step(Event::JobDone(d, number, good));
            }
        }
        for (d, _) in ready.ended.iter().enumerate().filter(|(_, ready)| **ready) {
            self.reap(d);
        }
        if ready.control {
            for (client, operation) in self.parts.control.take() {
                self.serve_client(client, &operation);
            }
        }
        self.carry_out_points();
        self.look_for_hangs();
        let again = self.until_next_look().map(|ns| self.now() + ns);
        let next = again.into_iter().chain(self.next_wake()).min();
        self.gate().alarm(usize::from(REQUEST_KICK), next);
    }

    /// Wakes domains that rest, if a device has rung or their time has come.
    fn end_rests(&mut self) {
        for d in 0..self.qemus.len() {
            if self.parts.fabric.was_rung(self.slot(d)) {
                self.step(Event::Rung(d));
            }
        }
        if self.power.alarm().is_some_and(|at| at <= self.now()) {
            self.step(Event::Time);
        }
    }

    fn reap(&mut self, d: usize) {
        let Some(qemu) = &mut self.qemus[d] else { return };
        let status = match qemu.reap() {
            Ok(None) => return,
            Ok(Some(status)) => status.to_string(),
            Err(e) => e.to_string(),
        };
        let event = self.ended(d, &status);
        self.step(event);
    }

    /// Records the end of a QEMU.
    fn ended(&mut self, d: usize, status: &str) -> Event {
        self.qemus[d] = None;
        self.gate().leaves(self.slot(d), false);
        log::warn!("The QEMU of {} has ended: {status}.", self.name(d));
        Event::Ended(d)
    }

    fn step(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.power.step(self.now(), event) {
                match self.apply(effect) {
                    Ok(next) => events.extend(next),
                    Err(e) => log::error!("{effect:?} could not be carried out: {e}."),
                }
            }
        }
    }

    /// Carries out one effect; may cause another event.
    fn apply(&mut self, effect: Effect) -> Result<Option<Event>, MemoryError> {
        match effect {
            Effect::Publish(d, word, deaths) => {
                let (epoch, state) = unpack_state(word);
                if state == state::BOOTING {
                    self.parts.engines.iter().for_each(|dma| dma.powered(d, epoch as u16));
                }
                if state == state::OFF || state::is_over(state) {
                    self.lose(d, state == state::OFF);
                }
                self.boots.note(d, state == state::BOOTING);
                self.parts.chip.publish(d, word, deaths)?;
                log::info!("{} is {} (epoch {epoch}).", self.name(d), state::name(state));
                self.parts.fabric.ring_all(self.parts.chip.vector() as usize);
            }
            Effect::Lost(d, epoch) => self.parts.chip.lost(d, epoch)?,
            Effect::Left(d) => self.parts.chip.left(d)?,
            Effect::Fence(d) => {
                self.handled[d] = 0;
                self.parts.engines.iter().for_each(|dma| dma.fence(d));
                self.parts.chip.fence(d)?;
            }
            Effect::Prepare(d, resume, epoch) => self.prepare(d, resume, epoch),
            Effect::Spawn(d) => return Ok(self.spawn(d)),
            Effect::Kill(d) => return Ok(self.kill(d)),
            Effect::Emulator(d, job, number) => return Ok(self.order(d, job, number)),
            Effect::Listen(d, vectors) => self.parts.fabric.listen(self.slot(d), vectors),
            Effect::Answer(asker, error, value) => self.answer(asker, error, value)?,
            Effect::Died(d, fate) => self.died(d, fate),
            Effect::End(true) => self.end = Some(End::Ordered("a request")),
            Effect::Again => self.restart(),
            Effect::End(false) => {} // reported by Died, which knows the domain
        }
        Ok(None)
    }

    /// Gives an emulator a job. In the lab, a domain's clock is stopped by its seat alone; a job
    /// that takes host time is waited for, so that it takes no board time.
    fn order(&mut self, d: usize, job: Job, number: u64) -> Option<Event> {
        let (gate, slot) = (self.gate().clone(), self.slot(d));
        match job {
            Job::Stop if gate.is_lab() => {
                gate.stops(slot);
                return Some(Event::JobDone(d, number, true));
            }
            Job::Continue if gate.continues(slot) => {
                return Some(Event::JobDone(d, number, true));
            }
            Job::Reset => gate.leaves(slot, true),
            Job::Stop | Job::Continue => {}
        }
        let ready = !self.unprepared[d];
        if !self.qemus[d].as_ref().is_some_and(|q| ready && q.order(Order::Job(job, number))) {
            return Some(Event::JobDone(d, number, false));
        }
        if !gate.is_lab() {
            return None;
        }
        // The worker answers within its own time limit, or has ended.
        let outcome = self.outcomes.recv_timeout(2 * PATIENCE);
        let (d, number, good) = outcome.unwrap_or((d, number, false));
        Some(Event::JobDone(d, number, good))
    }

    /// Models the loss of a domain's cache contents with its power.
    fn lose(&self, d: usize, returns: bool) {
        let lost = self.parts.chip.ram().eye().lose(d, returns);
        if lost > 0 {
            log::info!("{} lost {lost} lines that only its caches held.", self.name(d));
        }
    }

    fn prepare(&mut self, d: usize, resume: u64, epoch: u64) {
        if resume == 0 {
            self.parts.chip.ram().eye().boots(d);
        }
        let domain = &self.parts.config.domains[d];
        let table = StubTable {
            magic: BLOB_MAGIC,
            staging_pa: domain.staging_pa,
            resume_pa: resume,
            domain: d as u64,
            epoch,
        };
        let staged = match &domain.image {
            Some(image) if resume == 0 => self.parts.chip.stage(domain, image),
            _ => Ok(()),
        };
        let result = staged.and_then(|()| self.parts.chip.write_stub(domain.stub_table_pa, table));
        self.unprepared[d] = result.is_err();
        if let Err(e) = result {
            log::error!("{} cannot boot: {e}.", domain.name);
        }
    }

    fn spawn(&mut self, d: usize) -> Option<Event> {
        if self.unprepared[d] {
            return Some(Event::Ended(d));
        }
        self.gate().boots(self.slot(d));
        let Parts { config, folder, .. } = &self.parts;
        let domain = &config.domains[d];
        match Qemu::start(d, domain, folder, self.sender.clone(), self.bell.clone()) {
            Ok(qemu) => {
                log::info!("The QEMU of {} is started, process {}.", domain.name, qemu.pid());
                self.gate().process(self.slot(d), qemu.ended().try_clone_to_owned().ok());
                self.qemus[d] = Some(qemu);
                None
            }
            Err(e) => {
                log::error!("The QEMU of {} could not be started: {e}.", domain.name);
                Some(Event::Ended(d))
            }
        }
    }

    /// Kills a QEMU. In the lab its end is waited for, so that it takes no board time.
    fn kill(&mut self, d: usize) -> Option<Event> {
        let is_lab = self.gate().is_lab();
        let Some(qemu) = &mut self.qemus[d] else { return Some(Event::Ended(d)) };
        let killed =
            qemu.kill().and_then(|()| if is_lab { qemu.wait().map(Some) } else { Ok(None) });
        match killed {
            Ok(status) => status.map(|status| self.ended(d, &status.to_string())),
            Err(e) => {
                log::error!("The QEMU of {} could not be killed: {e}.", self.name(d));
                None
            }
        }
    }

    fn restart(&mut self) {
        log::info!("The board will start again.");
        if let Some(voice) = &self.parts.voice {
            voice.say("The board starts again.");
        }
        self.end = Some(End::Again);
    }

    fn died(&mut self, d: usize, fate: Fate) {
        let name = self.name(d).to_owned();
        let sentence = match fate {
            Fate::Restarts => format!("{name} died; it is started again."),
            Fate::Stays => format!("{name} died and stays dead, as the board file says."),
            Fate::GivenUp => format!("{name} died too often and stays dead; see soc.log."),
            Fate::Essential => format!("{name} died and the board cannot continue without it."),
            Fate::Last => format!("{name} died, and no domain of the board is left."),
        };
        log::error!("{sentence}");
        if let Some(voice) = &self.parts.voice {
            voice.say(&sentence);
        }
        if matches!(fate, Fate::Essential | Fate::Last) {
            self.end = Some(End::Lost(name));
        }
    }
}

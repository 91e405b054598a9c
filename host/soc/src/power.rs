//! The power controller: a state machine without I/O. Events in, effects out.
//!
//! ```text
//!            1                2 READY
//!   OFF ----------> BOOTING ----------> RUNNING      1 WAKE (or the board starts)
//!    ^               ^  ^                | ^  |      3 INACTIVE, 4 WAKE: nothing is lost
//!    |     5 WAKE    |  | 6 restart    3 | | 4       5 a new life: cold, under a new epoch
//!    |               |  |                v |         7 OFF, by its own kernel, with a warm entry
//!    +--- 7 -------- | -+------------ INACTIVE       8 the QEMU ended: crash, kill, PANIC
//!             COLD, DEAD <-- 8, 9 -- any of them     9 OFF by another kernel
//!
//!             10 REST           11 SLEEP             10, 11, by its own kernel
//!   RUNNING ---------> RESTING ---------> RESTING    12 WAKE, a device's doorbell, the time that
//!      ^                  | 12            stopped       REST named, a domain that stays dead, the
//!      +------------------+------------------+ 12       last RUNNING one stops (OFF, INACTIVE)
//! ```
//! A kernel that rests looks for messages between REST and SLEEP. Its peers look at its state after
//! they have sent one. So either the kernel finds the message, or the peer finds RESTING and sends
//! a WAKE, after which SLEEP is refused.
//!
//! A change that needs the emulator ([`Effect::Emulator`]) is a job. A domain has one job at a
//! time; requests that arrive meanwhile wait until it is done. The state word changes before a
//! domain can run again and after it has stopped. A job that fails kills its QEMU: a domain whose
//! power state is unknown must not touch memory.

mod death;
mod rest;

use abi::soc::{command, error, pack_state, state};
use rest::Rest;
use std::collections::VecDeque;

/// Number of deaths, without reaching RUNNING, within [`CRASH_WINDOW_NS`] that counts as a crash
/// loop.
pub const CRASH_LOOP: usize = 5;
/// See [`CRASH_LOOP`].
pub const CRASH_WINDOW_NS: u64 = 2_000_000_000;
/// Maximum requests that wait for a job. There are fewer requesters, so more is an error.
const MAX_WAITING: usize = 32;

/// The source of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asker {
    /// A kernel: domain and sequence number of its request.
    Kernel(usize, u64),
    /// A client of the control socket.
    Client(u64),
}

/// Properties of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Whether it is booted again when it dies.
    pub restart: bool,
    /// Whether its death ends the board.
    pub essential: bool,
    /// Number of deaths after which it stays dead.
    pub max_deaths: u64,
}

/// A job for an emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    /// Stop; all state is kept.
    Stop,
    /// Stop and reset; it stays stopped.
    Reset,
    /// Continue.
    Continue,
}

/// An input of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The board starts, and this domain is powered on.
    PowerOn(usize),
    /// A request: `command` and its two arguments.
    Request(Asker, u64, u64, u64),
    /// The job with this number has ended; true: it succeeded.
    JobDone(usize, u64, bool),
    /// A QEMU has ended, or could not be started.
    Ended(usize),
    /// A client requests that this QEMU be killed, as in a crash.
    Crash(usize),
    /// This domain hangs. It is killed; if the board cannot continue without it, the board starts
    /// again.
    Hangs(usize),
    /// A device rings a doorbell that wakes this domain from its rest.
    Rung(usize),
    /// Chip time has passed: domains that rest until now wake.
    Time,
}

/// What happens to a fenced domain; for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It is booted again under a new epoch.
    Restarts,
    /// It stays dead by its policy.
    Stays,
    /// It stays dead because it crashed too quickly or too often, or has used all epochs.
    GivenUp,
    /// It stays dead and the board ends.
    Essential,
    /// It stays dead, and so have all other domains: the board ends.
    Last,
}

/// An effect, in order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Write the state word (packed) and the deaths, and ring all domains.
    Publish(usize, u64, u64),
    /// This epoch of the domain ends although it has not left the shared block: note it. Comes
    /// before the state.
    Lost(usize, u64),
    /// The domain has left the shared block: note what it knew. Comes before the state.
    Left(usize),
    /// Clear its page and end its attempts at locks. It cannot run now.
    Fence(usize),
    /// Write its stub table: warm entry or 0, and epoch. Before a cold boot, stage its image again.
    Prepare(usize, u64, u64),
    /// Start a QEMU.
    Spawn(usize),
    /// Kill its QEMU; [`Event::Ended`] follows.
    Kill(usize),
    /// Give its emulator a job; [`Event::JobDone`] with this number follows.
    Emulator(usize, Job, u64),
    /// Answer a request: error and value.
    Answer(Asker, u64, u64),
    /// These doorbells of devices end a domain's rest, one bit each.
    Listen(usize, u64),
    /// A domain is dead.
    Died(usize, Fate),
    /// The board ends; true: by a shutdown.
    End(bool),
    /// The board shuts down and starts again.
    Again,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pending {
    number: u64,
    job: Job,
    asker: Asker,
    /// Warm entry to record once it is off.
    resume: u64,
}

/// A request to change a domain's state, and what its command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ask {
    asker: Asker,
    command: u64,
    arguments: [u64; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Domain {
    policy: Policy,
    state: u64,
    epoch: u64,
    deaths: u64,
    /// Its QEMU process exists.
    alive: bool,
    /// Its QEMU is being killed.
    condemned: bool,
    /// ... because it hangs.
    hung: bool,
    /// State to return to from INACTIVE: BOOTING or RUNNING.
    before_inactive: u64,
    rest: Rest,
    /// Warm entry while OFF.
    resume: u64,
    /// Overrides the policy at the next death, as requested by PANIC.
    again: Option<bool>,
    job: Option<Pending>,
    waiting: VecDeque<Ask>,
    /// Times of deaths since it last reached RUNNING.
    crashes: VecDeque<u64>,
}

/// The public state of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// One of [`state`].
    pub state: u64,
    /// Number of cold boots.
    pub epoch: u64,
    /// Number of deaths.
    pub deaths: u64,
    /// Whether a job is in progress.
    pub busy: bool,
}

/// The power controller of a board.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Power {
    domains: Vec<Domain>,
    jobs: u64,
    effects: Vec<Effect>,
}

impl Power {
    /// Creates a controller with all domains off.
    pub fn new(policies: &[Policy]) -> Power {
        let domains = policies.iter().map(|&policy| Domain {
            policy,
            state: state::OFF,
            epoch: 0,
            deaths: 0,
            alive: false,
            condemned: false,
            hung: false,
            before_inactive: state::RUNNING,
            rest: Rest::default(),
            resume: 0,
            again: None,
            job: None,
            waiting: VecDeque::new(),
            crashes: VecDeque::new(),
        });
        Power { domains: domains.collect(), jobs: 0, effects: Vec::new() }
    }

    /// Returns the state of domain `d`.
    pub fn view(&self, d: usize) -> Option<View> {
        let domain = self.domains.get(d)?;
        let Domain { state, epoch, deaths, ref job, .. } = *domain;
        Some(View { state, epoch, deaths, busy: job.is_some() })
    }

    /// Handles an event. `now` is soc time in ns.
    pub fn step(&mut self, now: u64, event: Event) -> Vec<Effect> {
        match event {
            Event::PowerOn(d) if d < self.domains.len() => self.boot(d),
            Event::Request(asker, command, arg0, arg1) => self.request(asker, command, arg0, arg1),
            Event::JobDone(d, number, good) => self.job_done(d, number, good),
            Event::Ended(d) if d < self.domains.len() => self.ended(d, now),
            Event::Crash(d) if self.domains.get(d).is_some_and(|domain| domain.alive) => {
                self.kill(d);
            }
            Event::Hangs(d) if self.domains.get(d).is_some_and(|domain| domain.alive) => {
                self.domains[d].hung = true;
                self.kill(d);
            }
            Event::Rung(d) => self.end_rests(|domain, _| domain == d),
            Event::Time => self.end_rests(|_, rest| rest.until <= now),
            Event::PowerOn(_) | Event::Ended(_) | Event::Crash(_) | Event::Hangs(_) => {}
        }
        std::mem::take(&mut self.effects)
    }

    fn request(&mut self, asker: Asker, command: u64, arg0: u64, arg1: u64) {
        if let Asker::Kernel(me, _) = asker {
            // Requests of a kernel that is being killed are ignored.
            if self.domains.get(me).is_none_or(|domain| domain.condemned || !domain.alive) {
                return;
            }
        }
        match (command, asker) {
            (command::SHUTDOWN, _) => {
                self.answer(asker, error::NONE, 0);
                self.effects.push(Effect::End(true));
            }
            (command::REBOOT, _) => {
                self.answer(asker, error::NONE, 0);
                self.effects.push(Effect::Again);
            }
            (command::READY, Asker::Kernel(me, _)) => self.ready(asker, me),
            (command::PANIC, Asker::Kernel(me, _)) => {
                self.domains[me].again = Some(arg0 == 1);
                self.kill(me);
            }
            (command::TIME, _) => self.answer(asker, error::NONE, 0),
            (command::INACTIVE | command::OFF | command::WAKE, _) => {
                let known = usize::try_from(arg0).ok().filter(|&d| d < self.domains.len());
                let Some(d) = known else { return self.answer(asker, error::INVALID, 0) };
                self.power_request(d, Ask { asker, command, arguments: [arg1, 0] });
            }
            (command::REST | command::SLEEP, Asker::Kernel(me, _)) => {
                self.power_request(me, Ask { asker, command, arguments: [arg0, arg1] });
            }
            _ => self.answer(asker, error::INVALID, 0),
        }
    }

    fn power_request(&mut self, d: usize, ask: Ask) {
        let Ask { asker, command, arguments } = ask;
        let domain = &mut self.domains[d];
        if domain.job.is_some() || domain.condemned {
            if domain.waiting.len() == MAX_WAITING {
                return self.answer(asker, error::STATE, 0);
            }
            return domain.waiting.push_back(ask);
        }
        match command {
            command::INACTIVE => self.inactive(asker, d),
            command::OFF => self.off(asker, d, arguments[0]),
            command::REST => self.rest(asker, d, arguments),
            command::SLEEP => self.sleep(asker, d),
            _ => self.wake(asker, d),
        }
    }

    fn ready(&mut self, asker: Asker, me: usize) {
        let domain = &mut self.domains[me];
        let epoch = domain.epoch;
        if domain.state == state::BOOTING {
            domain.crashes.clear();
            self.set_state(me, state::RUNNING);
        }
        self.answer(asker, error::NONE, epoch);
    }

    fn inactive(&mut self, asker: Asker, d: usize) {
        match self.domains[d].state {
            state::INACTIVE => self.answer(asker, error::NONE, 0),
            state::BOOTING | state::RUNNING => self.start_job(asker, d, Job::Stop, 0),
            _ => self.answer(asker, error::STATE, 0),
        }
    }

    fn off(&mut self, asker: Asker, d: usize, resume: u64) {
        // Only a kernel itself can choose its entry.
        let own = matches!(asker, Asker::Kernel(me, _) if me == d);
        let resume = if own { resume } else { 0 };
        match self.domains[d].state {
            state::OFF if self.domains[d].resume != 0 => {
                self.domains[d].resume = 0;
                self.effects.push(Effect::Fence(d));
                self.set_state(d, state::COLD);
                self.answer(asker, error::NONE, 0);
            }
            state::OFF | state::COLD => self.answer(asker, error::NONE, 0),
            state::DEAD => {
                self.set_state(d, state::COLD);
                self.answer(asker, error::NONE, 0);
            }
            _ => self.start_job(asker, d, Job::Reset, resume),
        }
    }

    fn wake(&mut self, asker: Asker, d: usize) {
        let domain = &mut self.domains[d];
        match domain.state {
            state::OFF | state::COLD | state::DEAD
                if domain.resume == 0 && domain.epoch == LAST_EPOCH =>
            {
                self.answer(asker, error::STATE, 0);
            }
            state::RESTING => self.end_rest(asker, d),
            state::INACTIVE => {
                let next = domain.before_inactive;
                self.set_state(d, next);
                self.start_job(asker, d, Job::Continue, 0);
            }
            state::OFF | state::COLD if domain.alive => {
                if domain.resume == 0 {
                    domain.epoch += 1;
                    self.effects.push(Effect::Fence(d));
                }
                let domain = &mut self.domains[d];
                let resume = std::mem::take(&mut domain.resume);
                self.effects.push(Effect::Prepare(d, resume, domain.epoch));
                self.set_state(d, state::BOOTING);
                self.start_job(asker, d, Job::Continue, 0);
            }
            state::OFF | state::COLD | state::DEAD => {
                domain.crashes.clear();
                self.boot(d);
                self.answer(asker, error::NONE, 0);
            }
            _ => self.answer(asker, error::NONE, 0),
        }
    }

    /// Boots a domain cold, in a new QEMU, under an epoch that there must be.
    fn boot(&mut self, d: usize) {
        let domain = &mut self.domains[d];
        domain.epoch += 1;
        domain.resume = 0;
        domain.alive = true;
        let epoch = domain.epoch;
        self.effects.push(Effect::Fence(d));
        self.effects.push(Effect::Prepare(d, 0, epoch));
        self.set_state(d, state::BOOTING);
        self.effects.push(Effect::Spawn(d));
    }

    fn start_job(&mut self, asker: Asker, d: usize, job: Job, resume: u64) {
        self.jobs += 1;
        let number = self.jobs;
        self.domains[d].job = Some(Pending { number, job, asker, resume });
        self.effects.push(Effect::Emulator(d, job, number));
    }

    fn job_done(&mut self, d: usize, number: u64, good: bool) {
        let Some(domain) = self.domains.get_mut(d) else { return };
        let Some(pending) = domain.job.take_if(|job| job.number == number) else { return };
        if !good {
            if domain.state == state::RESTING {
                // Its kernel continues until it is killed, and joins the others again.
                self.set_state(d, state::RUNNING);
            }
            self.answer(pending.asker, error::PLATFORM, 0);
            return self.kill(d);
        }
        match pending.job {
            Job::Stop if domain.state == state::RESTING => domain.rest.is_stopped = true,
            Job::Stop => {
                domain.before_inactive = domain.state;
                self.set_state(d, state::INACTIVE);
                self.wake_a_server();
            }
            Job::Reset => {
                domain.resume = pending.resume;
                if pending.resume == 0 {
                    self.effects.push(Effect::Fence(d));
                    self.forget_requests_of(d);
                    self.set_state(d, state::COLD);
                } else {
                    self.set_state(d, state::OFF);
                }
                self.wake_a_server();
            }
            Job::Continue => {}
        }
        self.answer(pending.asker, error::NONE, 0);
        self.serve_waiting(d);
    }

    /// Requests of a fenced kernel for other domains are still carried out, but not answered.
    fn forget_requests_of(&mut self, d: usize) {
        for domain in &mut self.domains {
            domain.waiting.retain(|ask| !matches!(ask.asker, Asker::Kernel(me, _) if me == d));
            if let Some(pending) = &mut domain.job
                && matches!(pending.asker, Asker::Kernel(me, _) if me == d)
            {
                pending.asker = NOBODY;
            }
        }
    }

    fn answer_unless_dead(&mut self, d: usize, asker: Asker, error: u64) {
        if !matches!(asker, Asker::Kernel(me, _) if me == d) {
            self.answer(asker, error, 0);
        }
    }

    fn serve_waiting(&mut self, d: usize) {
        while self.domains[d].job.is_none() && !self.domains[d].condemned {
            let Some(ask) = self.domains[d].waiting.pop_front() else { return };
            self.power_request(d, ask);
        }
    }

    fn kill(&mut self, d: usize) {
        if !self.domains[d].condemned {
            self.domains[d].condemned = true;
            self.effects.push(Effect::Kill(d));
        }
    }

    fn set_state(&mut self, d: usize, state: u64) {
        let domain = &mut self.domains[d];
        let before = std::mem::replace(&mut domain.state, state);
        let had_pages = !state::has_left(before) && !state::is_over(before);
        if had_pages && state::is_over(state) {
            self.effects.push(Effect::Lost(d, domain.epoch));
        }
        if had_pages && state::has_left(state) {
            self.effects.push(Effect::Left(d));
        }
        self.effects.push(Effect::Publish(d, pack_state(domain.epoch, state), domain.deaths));
    }

    fn answer(&mut self, asker: Asker, error: u64, value: u64) {
        if asker != NOBODY {
            self.effects.push(Effect::Answer(asker, error, value));
        }
    }
}

/// The source of a request whose kernel is gone. Clients are numbered from 1.
pub const NOBODY: Asker = Asker::Client(0);

/// Epochs are 16 bits wide and never 0. No epoch of a board's life is used twice, because another
/// kernel may still have messages or handles of it: a domain boots cold no more after its last one.
const LAST_EPOCH: u64 = 0xffff;

#[cfg(test)]
#[path = "power_tests.rs"]
mod tests;

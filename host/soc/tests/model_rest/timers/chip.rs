//! The chip with its kernels, as far as timers depend on it: the shipped power controller, the
//! words that it and the kernels publish, and what each kernel has in its own memory.

use crate::asking::Asking;
use abi::soc::{command, state, unpack_state};
use kernel_power::{Rest, duty};
use soc::power::{Asker, Effect, Event, Job, Power};

/// No time.
pub const NONE: u64 = u64::MAX;

/// A kernel, with its copy of the timer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// It has been started, and has requested READY.
    pub runs: bool,
    pub is_stopped: bool,
    /// It has powered itself off, with its memory.
    pub is_off: bool,
    /// It has not looked yet whether its former life left timers.
    pub boots: bool,
    pub rest: Option<Rest>,
    pub asking: Asking,
    /// States of domains that it has read in its present look, the first ones.
    pub read: Vec<duty::State>,
    /// Of each other domain, its number of starts and its state word, read in this order.
    pub parts: Vec<u64>,
    /// When it executes the timer's step.
    pub timer: u64,
    /// Per domain: its number of starts when its timer was last taken.
    pub taken: Vec<u64>,
    /// Per domain: its epoch that was seen last.
    pub known: Vec<u64>,
    /// What it has left to others in this attempt to rest.
    pub left: u64,
    /// Some domain's state has changed since it looked.
    pub has_news: bool,
    pub rests: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub power: Power,
    /// Per domain, in the chip page: packed state, and number of starts.
    pub words: Vec<(u64, u64)>,
    /// Per domain, in its page: the times that it has left, and that it keeps.
    pub pages: Vec<(u64, u64)>,
    pub kernels: Vec<Kernel>,
    pub jobs: Vec<(usize, Job, u64)>,
    pub now: u64,
    /// When the service has something to do; in memory that all kernels share.
    pub due: u64,
    /// How often the service then wants another timer.
    pub chain: u8,
    pub serves: u8,
    pub wakes: u8,
    pub deaths: u8,
    pub stops: u8,
    /// How often a domain has died or been stopped.
    pub absences: u8,
    /// How often the time woke domain 0 while another domain could execute the step.
    pub needless: u8,
}

pub fn standing(word: u64) -> duty::State {
    match unpack_state(word).1 {
        state::RUNNING => duty::State::Running,
        state::RESTING => duty::State::Resting,
        state::OFF | state::INACTIVE => duty::State::Stopped,
        _ => duty::State::Other,
    }
}

/// Returns the epoch of a domain whose life has not ended; else 0.
pub fn life(word: u64) -> u64 {
    let (epoch, state) = unpack_state(word);
    if state::is_over(state) { 0 } else { epoch }
}

/// Returns whether no domain but `me` is RUNNING.
pub fn is_alone(states: &[duty::State], me: usize) -> bool {
    states.iter().enumerate().all(|(at, it)| at == me || *it != duty::State::Running)
}

impl Kernel {
    pub fn new(domains: usize, rests: u8) -> Kernel {
        Kernel {
            runs: false,
            is_stopped: false,
            is_off: false,
            boots: false,
            rest: None,
            asking: Asking::default(),
            read: vec![],
            parts: vec![],
            timer: NONE,
            taken: vec![0; domains],
            known: vec![0; domains],
            left: NONE,
            has_news: false,
            rests,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.runs && !self.is_stopped && !self.asking.waits && self.rest.is_none()
    }
}

impl State {
    pub fn states(&self) -> Vec<duty::State> {
        self.words.iter().map(|word| standing(word.0)).collect()
    }

    pub fn soc(&mut self, event: Event) {
        self.handle(event);
        self.wake_in_time();
    }

    pub fn handle(&mut self, event: Event) {
        for effect in self.power.step(self.now, event) {
            match effect {
                Effect::Publish(d, word, _) => self.publish(d, word),
                Effect::Answer(Asker::Kernel(d, _), code, _) => {
                    self.kernels[d].asking.answered(code);
                }
                Effect::Emulator(d, job, number) => self.jobs.push((d, job, number)),
                Effect::Fence(d) => {
                    self.kernels[d] = Kernel::new(self.words.len(), self.kernels[d].rests);
                    self.pages[d] = (0, 0);
                    self.jobs.retain(|(of, ..)| *of != d);
                }
                Effect::Spawn(d) => self.start(d),
                _ => {}
            }
        }
    }

    pub fn publish(&mut self, d: usize, word: u64) {
        let runs = |word| matches!(unpack_state(word).1, state::BOOTING | state::RUNNING);
        self.words[d].1 += u64::from(runs(word) && !runs(self.words[d].0));
        self.words[d].0 = word;
        for kernel in self.kernels.iter_mut().filter(|it| it.runs && it.rest.is_none()) {
            kernel.has_news = true;
        }
    }

    /// The soc ends the rests whose time has come.
    pub fn wake_in_time(&mut self) {
        if self.power.alarm().is_some_and(|at| at <= self.now) {
            let before = self.states();
            self.handle(Event::Time);
            let was_woken = before[0] == duty::State::Resting && before != self.states();
            let is_woken = was_woken && self.states()[0] == duty::State::Running;
            let can_serve = |it| matches!(it, &duty::State::Running | &duty::State::Resting);
            self.needless += u8::from(is_woken && before[1..].iter().any(can_serve));
        }
    }

    /// A kernel starts, and is about to be READY.
    pub fn start(&mut self, d: usize) {
        let known = self.words.iter().map(|word| life(word.0)).collect();
        let kernel = &mut self.kernels[d];
        (kernel.runs, kernel.has_news, kernel.boots, kernel.known) = (true, true, true, known);
        kernel.asking.ask(command::READY, [0; 2]);
    }

    /// A kernel that was stopped continues.
    pub fn resume(&mut self, d: usize) {
        let kernel = &mut self.kernels[d];
        kernel.is_stopped = false;
        if !kernel.runs {
            self.start(d);
        } else if std::mem::take(&mut kernel.is_off) {
            kernel.has_news = true;
            kernel.asking.ask(command::READY, [0; 2]);
        }
    }

    pub fn has_ended(&self, d: usize, other: usize) -> bool {
        let before = self.kernels[d].known[other];
        other != d && before != 0 && before != life(self.words[other].0)
    }

    /// Kernel `d` executes the timer's step: it does what is due, and names the next time.
    pub fn fire(&mut self, d: usize, end: u64) {
        if self.due <= self.now {
            let is_next = self.chain > 0 && self.now < end;
            self.due = if is_next { self.now + 1 } else { NONE };
            self.chain -= u8::from(is_next);
        }
        self.kernels[d].timer = self.due;
    }
}

//! Model check of which kernel serves the devices (`kernel_power::duty`): kernels that rest, a
//! device that completes requests at any moment, domains that are woken, powered off and die, one
//! access at a time. The driver's home changes at any moment, and kernels that rest or have not
//! looked since know an older one. No completion may be left while a domain runs or rests.
//!
//! What is assumed of a kernel is less than it does: an interrupt that comes while it is on its way
//! to rest, or masks it, is lost.

mod checks;

use crate::asking::Asking;
use abi::soc::{command, state, unpack_state};
use kernel_power::duty::{self, Look};
use kernel_power::{Rest, Step};
use soc::power::{Asker, Effect, Event, Job, Policy, Power};
use stateright::{Model, Property};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Kernel {
    /// It has been started, and has requested READY.
    runs: bool,
    is_stopped: bool,
    rest: Option<Rest>,
    asking: Asking,
    /// States of domains that it has read in its last look, the first ones.
    read: Vec<duty::State>,
    /// The word in its own page: the devices end its rest.
    word: bool,
    /// The devices' interrupts are not masked.
    is_unmasked: bool,
    /// It has become the server, and has not looked at the device since.
    looks: bool,
    /// It has looked at the device, and unmasks its interrupt only now: a bug.
    unmasks_late: bool,
    /// The device's interrupt is pending.
    is_called: bool,
    /// The home of the driver that it knows.
    home: Option<usize>,
    /// Some domain's state or the home has changed since it looked whether it is the server.
    has_news: bool,
    rests: u8,
    has_rested: bool,
}

/// The device: first all completions are stored, then each domain is rung.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Device {
    /// Completions still to be made.
    left: u8,
    /// Completions that no kernel has handled.
    unserved: u8,
    /// The domain that is rung next.
    rings: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    power: Power,
    words: Vec<u64>,
    kernels: Vec<Kernel>,
    jobs: Vec<(usize, Job, u64)>,
    /// Per domain: the devices' doorbells end its rest.
    listens: Vec<bool>,
    device: Device,
    wakes: u8,
    deaths: u8,
    stops: u8,
    /// The newest home of the driver; each kernel finds it when it looks.
    home: Option<usize>,
    /// How often it still changes.
    moves: u8,
    /// How often a domain has died or been stopped, and may have come up again.
    absences: u8,
    /// How often the device woke domain 0 while another domain could serve it.
    needless: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    /// The kernel takes the next step of its rest.
    Step(usize),
    /// It decides whether it serves the device, because a state has changed.
    Decide(usize),
    /// It looks at the device.
    Serve(usize),
    UnmaskLate(usize),
    BeginRest(usize),
    /// The soc serves its request.
    Request(usize),
    /// The emulator does the first job.
    Job,
    /// The device completes a request, or rings a domain for it.
    Device,
    /// Something else, a message or the time, wakes the domain.
    Wake(usize),
    /// The domain dies and boots again.
    Die(usize),
    /// It is powered off, or made INACTIVE.
    Stop(usize, u64),
    /// The driver gets another home.
    Move(Option<usize>),
}

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// A kernel whose rest is published does not look again.
    NoLook,
    /// It looks for completions only if it is the server.
    OnlyServerLooks,
    /// It does not wake the server that does not listen.
    NoWake,
    /// A kernel that becomes the server looks at the device, then unmasks its interrupt.
    EarlyLook,
    /// A kernel that returns from a rest does not look at the device.
    NoFreshStart,
    /// Every kernel listens to the devices.
    AllListen,
    /// The home serves the device, whether it runs or not.
    HomeAlways,
    /// A kernel that rests does not learn of another home when it returns.
    OldHome,
}

#[derive(Clone, Copy)]
struct Board {
    domains: usize,
    rests: u8,
    completions: u8,
    wakes: u8,
    deaths: u8,
    stops: u8,
    /// How often the driver's home changes.
    moves: u8,
    bug: Bug,
}

impl State {
    fn state_of(&self, d: usize) -> duty::State {
        match self.words[d] {
            state::RUNNING => duty::State::Running,
            state::RESTING => duty::State::Resting,
            _ => duty::State::Other,
        }
    }

    fn states(&self) -> Vec<duty::State> {
        (0..self.words.len()).map(|d| self.state_of(d)).collect()
    }

    fn soc(&mut self, event: Event) {
        for effect in self.power.step(0, event) {
            match effect {
                Effect::Publish(d, word, _) => {
                    self.words[d] = unpack_state(word).1;
                    // A kernel on its way to rest decides when it is back.
                    for kernel in self.kernels.iter_mut().filter(|it| it.runs && it.rest.is_none())
                    {
                        kernel.has_news = true;
                    }
                }
                Effect::Answer(Asker::Kernel(d, _), code, _) => {
                    self.kernels[d].asking.answered(code);
                }
                Effect::Emulator(d, job, number) => self.jobs.push((d, job, number)),
                Effect::Listen(d, vectors) => self.listens[d] = vectors != 0,
                Effect::Fence(d) => {
                    self.kernels[d] = Kernel { rests: self.kernels[d].rests, ..Kernel::default() };
                    self.listens[d] = false;
                    self.jobs.retain(|(of, ..)| *of != d);
                }
                Effect::Spawn(d) => self.start(d),
                _ => {}
            }
        }
    }

    /// A kernel starts, masks the device, and is about to be READY.
    fn start(&mut self, d: usize) {
        let kernel = &mut self.kernels[d];
        (kernel.runs, kernel.has_news) = (true, true);
        kernel.asking.ask(command::READY, [0; 2]);
    }

    /// The device rings domain `d`.
    fn ring(&mut self, d: usize) {
        let kernel = &mut self.kernels[d];
        kernel.is_called |= kernel.is_unmasked && kernel.rest.is_none() && kernel.runs;
        if self.listens[d] {
            let can_serve = |it: &usize| {
                self.state_of(*it) == duty::State::Running
                    || self.state_of(*it) == duty::State::Resting && self.listens[*it]
            };
            let is_needless = (1..self.words.len()).any(|it| can_serve(&it));
            let was = self.words[d];
            self.soc(Event::Rung(d));
            if d == 0 && was == state::RESTING && is_needless {
                self.needless += 1;
            }
        }
    }
}

impl Board {
    fn announce(&self, state: &mut State, d: usize) -> Option<bool> {
        if let Some(answer) = state.kernels[d].asking.answer.take() {
            return Some(answer);
        }
        let listens = self.bug == Bug::AllListen || duty::listens(&state.states(), d);
        state.kernels[d].word = listens;
        state.kernels[d].asking.ask(command::REST, [u64::MAX, listens.into()]);
        None
    }

    /// Reads one state after the other, then decides. Waits for the answer if it sends a WAKE.
    fn look(&self, state: &mut State, d: usize) -> Option<bool> {
        if self.bug == Bug::NoLook || state.kernels[d].asking.answer.take().is_some() {
            return Some(true);
        }
        let next = state.kernels[d].read.len();
        if next < self.domains {
            let one = state.state_of(next);
            state.kernels[d].read.push(one);
            return None;
        }
        let read = std::mem::take(&mut state.kernels[d].read);
        let is_for_us = duty::server(&read, None) == Some(d) || self.bug != Bug::OnlyServerLooks;
        let listens = |at: usize| state.kernels[at].word;
        match duty::look(&read, d, listens, || state.device.unserved > 0 && is_for_us) {
            Look::Rest => Some(true),
            Look::WakeAndRest(_) if self.bug == Bug::NoWake => Some(true),
            Look::WakeAndRest(other) => {
                state.kernels[d].asking.ask(command::WAKE, [other as u64, 0]);
                None
            }
            Look::Withdraw => Some(false),
        }
    }

    fn step_rest(&self, state: &mut State, d: usize) {
        let Some(mut rest) = state.kernels[d].rest.clone() else { return };
        let ended = match rest.step() {
            Step::Drain => Some(true),
            Step::Announce => self.announce(state, d),
            Step::Look => self.look(state, d),
            Step::Sleep => state.kernels[d].asking.asked(command::SLEEP, [0; 2]),
            Step::Withdraw => state.kernels[d].asking.asked(command::WAKE, [d as u64, 0]),
            Step::Return => {
                let kernel = &mut state.kernels[d];
                kernel.has_news = true;
                kernel.has_rested = true;
                kernel.is_unmasked &= self.bug == Bug::NoFreshStart;
                Some(true)
            }
            Step::Over(_) => return,
        };
        if let Some(ended) = ended {
            rest.done(ended);
        }
        let is_over = matches!(rest.step(), Step::Over(_));
        state.kernels[d].rest = Some(rest).filter(|_| !is_over);
    }

    fn decide(&self, state: &mut State, d: usize) {
        let (states, newest) = (state.states(), state.home);
        let kernel = &mut state.kernels[d];
        kernel.has_news = false;
        if self.bug != Bug::OldHome || !kernel.has_rested {
            kernel.home = newest;
        }
        let serves = match kernel.home {
            Some(home) if self.bug == Bug::HomeAlways => home == d,
            home => duty::server(&states, home) == Some(d),
        };
        if !serves {
            (kernel.is_unmasked, kernel.is_called) = (false, false);
        } else if !kernel.is_unmasked {
            kernel.is_unmasked = self.bug != Bug::EarlyLook;
            kernel.looks = true;
        }
    }

    fn act(&self, state: &mut State, action: Action) {
        let client = |command, d| Event::Request(Asker::Client(1), command, d as u64, 0);
        match action {
            Action::Step(d) => self.step_rest(state, d),
            Action::Decide(d) => self.decide(state, d),
            Action::Serve(d) => {
                state.device.unserved = 0;
                let kernel = &mut state.kernels[d];
                kernel.unmasks_late = kernel.looks && self.bug == Bug::EarlyLook;
                (kernel.looks, kernel.is_called) = (false, false);
            }
            Action::UnmaskLate(d) => {
                let kernel = &mut state.kernels[d];
                (kernel.unmasks_late, kernel.is_unmasked) = (false, true);
            }
            Action::BeginRest(d) => {
                let kernel = &mut state.kernels[d];
                kernel.rests -= 1;
                kernel.rest = Some(Rest::default());
                (kernel.is_called, kernel.has_news) = (false, false);
            }
            Action::Request(d) => {
                let Some((command, event)) = state.kernels[d].asking.take(d) else { return };
                state.soc(event);
                if command == command::READY {
                    state.kernels[d].asking.answer = None;
                }
            }
            Action::Job => {
                let (d, job, number) = state.jobs.remove(0);
                state.kernels[d].is_stopped = job != Job::Continue;
                state.soc(Event::JobDone(d, number, true));
            }
            Action::Device => self.device(state),
            Action::Wake(d) => {
                state.wakes -= 1;
                state.soc(client(command::WAKE, d));
            }
            Action::Die(d) => {
                state.deaths -= 1;
                state.absences += 1;
                state.soc(Event::Crash(d));
                state.soc(Event::Ended(d));
            }
            Action::Move(home) => {
                state.moves -= 1;
                state.home = home;
                // Kernels that run are asked to look.
                let asked = state.kernels.iter_mut().filter(|it| it.runs && it.rest.is_none());
                asked.for_each(|kernel| kernel.has_news = true);
            }
            Action::Stop(d, command) => {
                state.stops -= 1;
                state.absences += 1;
                state.soc(client(command, d));
            }
        }
    }

    fn device(&self, state: &mut State) {
        match state.device.rings {
            None => {
                state.device.left -= 1;
                state.device.unserved += 1;
                state.device.rings = Some(0);
            }
            Some(d) => {
                state.device.rings = Some(d + 1).filter(|&next| next < self.domains);
                state.ring(d);
            }
        }
    }

    fn kernel_moves(&self, state: &State, d: usize, actions: &mut Vec<Action>) {
        let kernel = &state.kernels[d];
        actions.extend(kernel.asking.request.map(|_| Action::Request(d)));
        if !kernel.runs || kernel.is_stopped || kernel.asking.waits {
            return;
        }
        if kernel.rest.is_some() {
            return actions.push(Action::Step(d));
        }
        if kernel.looks {
            return actions.push(Action::Serve(d));
        }
        if kernel.unmasks_late {
            return actions.push(Action::UnmaskLate(d));
        }
        actions.extend(kernel.is_called.then_some(Action::Serve(d)));
        actions.extend(kernel.has_news.then_some(Action::Decide(d)));
        actions.extend((kernel.rests > 0).then_some(Action::BeginRest(d)));
    }

    fn moves(&self, state: &State) -> Vec<Action> {
        let mut actions = vec![];
        for d in 0..self.domains {
            self.kernel_moves(state, d, &mut actions);
            let is_stopped = matches!(state.words[d], state::RESTING | state::INACTIVE);
            actions.extend((is_stopped && state.wakes > 0).then_some(Action::Wake(d)));
            // The death of the strong domain ends the board.
            let is_up = d > 0 && matches!(state.words[d], state::RUNNING | state::RESTING);
            actions.extend((is_up && state.deaths > 0).then_some(Action::Die(d)));
            if is_up && state.stops > 0 {
                actions.extend([command::OFF, command::INACTIVE].map(|it| Action::Stop(d, it)));
            }
        }
        if state.moves > 0 {
            let homes = (0..self.domains).map(Some).chain([None]);
            actions.extend(homes.filter(|home| *home != state.home).map(Action::Move));
        }
        actions.extend((!state.jobs.is_empty()).then_some(Action::Job));
        let rings = state.device.left > 0 || state.device.rings.is_some();
        actions.extend(rings.then_some(Action::Device));
        actions
    }
}

impl Model for Board {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let policy = Policy { restart: true, essential: false, max_deaths: 9 };
        let mut state = State {
            power: Power::new(&vec![policy; self.domains]),
            words: vec![state::OFF; self.domains],
            kernels: vec![Kernel { rests: self.rests, ..Kernel::default() }; self.domains],
            jobs: vec![],
            listens: vec![false; self.domains],
            device: Device { left: self.completions, ..Device::default() },
            wakes: self.wakes,
            deaths: self.deaths,
            stops: self.stops,
            home: None,
            moves: self.moves,
            absences: 0,
            needless: 0,
        };
        for d in 0..self.domains {
            state.soc(Event::PowerOn(d));
            self.act(&mut state, Action::Request(d));
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(self.moves(state));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.act(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LEFT, |board: &Board, state: &State| {
                let is_any_up = state.states().iter().any(|it| *it != duty::State::Other);
                state.device.unserved == 0 || !is_any_up || !board.moves(state).is_empty()
            }),
            Property::always(STRONG_SLEEPS, |_, state: &State| state.needless <= state.absences),
            Property::sometimes(WEAK_SERVES, |_, state: &State| {
                let is_served = state.device.left == 0 && state.device.unserved == 0;
                is_served && state.kernels.iter().all(|kernel| kernel.is_stopped)
            }),
        ]
    }
}

const NOTHING_LEFT: &str = "no completion is left while a domain runs or rests";
/// But once for each time that another domain comes up while the strong one rests and listens.
const STRONG_SLEEPS: &str = "a device wakes the strong domain only if no other can serve";
const WEAK_SERVES: &str = "all domains rest after the device is served";

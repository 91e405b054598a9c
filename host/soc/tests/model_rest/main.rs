//! Model check of a rest: `kernel_power::Rest` in each kernel, the shipped power controller, peers
//! that send messages, and a device that completes requests, one access at a time. No message may
//! be left with a domain that is stopped.

mod asking;
mod duty;
mod silent;
mod timers;

use abi::soc::{command, state, unpack_state};
use asking::Asking;
use kernel_power::{Rest, Step};
use soc::power::{Asker, Effect, Event, Job, Policy, Power};
use stateright::{Checker, Model, Property};

/// The vectors of the devices that end a rest.
const DEVICES: u64 = 1;

/// What a sender does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Send {
    /// It has stored a message for this domain, and looks at its state.
    Look(usize),
    /// It waits for the answer to its WAKE.
    Wakes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Kernel {
    /// Its attempt to rest.
    rest: Option<Rest>,
    send: Option<Send>,
    asking: Asking,
    /// Messages and completions that it has not handled.
    inbox: u8,
    is_stopped: bool,
    sends: u8,
    rests: u8,
    /// The soc's doorbells of devices end its rest.
    listens: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    power: Power,
    words: Vec<u64>,
    kernels: Vec<Kernel>,
    jobs: Vec<(usize, Job, u64)>,
    /// Completions that the device still makes, and whether it has not rung for the last one.
    device: (u8, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    /// The kernel takes the next step of its rest, or of sending.
    Step(usize),
    /// It handles a message.
    Handle(usize),
    BeginRest(usize),
    BeginSend(usize, usize),
    /// It cannot give up its pages.
    Stay(usize),
    /// The soc serves its request.
    Serve(usize),
    /// The emulator does the first job.
    Job,
    /// The device completes a request of domain 0, or rings for it.
    Device,
}

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// A kernel does not look for messages before it sleeps.
    NoLook,
    /// A sender looks at the state before it sends.
    EarlyLook,
    /// A sender sends no WAKE.
    NoWake,
    /// The device rings no domain that rests.
    DeafDevice,
}

#[derive(Clone, Copy)]
struct Board {
    domains: usize,
    sends: u8,
    rests: u8,
    completions: u8,
    bug: Bug,
}

fn is_in_progress(rest: &Rest) -> bool {
    !matches!(rest.step(), Step::Over(_))
}

impl Board {
    fn soc(state: &mut State, event: Event) {
        for effect in state.power.step(0, event) {
            match effect {
                Effect::Publish(d, word, _) => state.words[d] = unpack_state(word).1,
                Effect::Answer(Asker::Kernel(d, _), code, _) => {
                    state.kernels[d].asking.answered(code);
                }
                Effect::Emulator(d, job, number) => state.jobs.push((d, job, number)),
                Effect::Listen(d, vectors) => state.kernels[d].listens = vectors != 0,
                _ => {}
            }
        }
    }

    fn step_rest(&self, state: &mut State, d: usize) {
        let kernel = &mut state.kernels[d];
        let Some(mut rest) = kernel.rest.take() else { return };
        let ended = match rest.step() {
            Step::Drain | Step::Return => Some(true),
            Step::Announce => kernel.asking.asked(command::REST, [u64::MAX, DEVICES]),
            Step::Look => Some(kernel.inbox == 0 || self.bug == Bug::NoLook),
            Step::Sleep => kernel.asking.asked(command::SLEEP, [0; 2]),
            Step::Withdraw => kernel.asking.asked(command::WAKE, [d as u64, 0]),
            Step::Over(_) => return,
        };
        if let Some(ended) = ended {
            rest.done(ended);
        }
        kernel.rest = Some(rest).filter(is_in_progress);
    }

    fn step_send(&self, state: &mut State, d: usize, send: Send) {
        let early = self.bug == Bug::EarlyLook;
        match send {
            Send::Look(to) => {
                let rests = state.words[to] == state::RESTING;
                let kernel = &mut state.kernels[d];
                kernel.send = None;
                if rests && self.bug != Bug::NoWake && !early {
                    kernel.asking.ask(command::WAKE, [to as u64, 0]);
                    kernel.send = Some(Send::Wakes);
                }
                if early {
                    state.kernels[to].inbox += 1;
                }
            }
            Send::Wakes => {
                state.kernels[d].asking.answer = None;
                state.kernels[d].send = None;
            }
        }
    }

    fn device(&self, state: &mut State) {
        let (left, silent) = state.device;
        if !silent {
            state.kernels[0].inbox += 1;
            state.device = (left - 1, true);
            return;
        }
        state.device = (left, false);
        if state.kernels[0].listens && self.bug != Bug::DeafDevice {
            Self::soc(state, Event::Rung(0));
        }
    }

    fn act(&self, state: &mut State, action: Action) {
        match action {
            Action::Step(d) => match state.kernels[d].send {
                Some(send) => self.step_send(state, d, send),
                None => self.step_rest(state, d),
            },
            Action::Handle(d) => state.kernels[d].inbox -= 1,
            Action::BeginRest(d) => {
                state.kernels[d].rests -= 1;
                state.kernels[d].rest = Some(Rest::default());
            }
            Action::BeginSend(d, to) => {
                state.kernels[d].sends -= 1;
                if self.bug != Bug::EarlyLook {
                    state.kernels[to].inbox += 1;
                } else if state.words[to] == state::RESTING {
                    // Waking it here stands for what the bug would do anyway.
                    Self::soc(state, Event::Request(Asker::Client(1), command::WAKE, to as u64, 0));
                }
                state.kernels[d].send = Some(Send::Look(to));
            }
            Action::Stay(d) => {
                state.kernels[d].rest = None;
            }
            Action::Serve(d) => {
                let Some((_, event)) = state.kernels[d].asking.take(d) else { return };
                Self::soc(state, event);
            }
            Action::Job => {
                let (d, job, number) = state.jobs.remove(0);
                state.kernels[d].is_stopped = job == Job::Stop;
                Self::soc(state, Event::JobDone(d, number, true));
            }
            Action::Device => self.device(state),
        }
    }

    fn kernel_actions(&self, state: &State, d: usize, actions: &mut Vec<Action>) {
        let kernel = &state.kernels[d];
        if kernel.asking.request.is_some() {
            actions.push(Action::Serve(d));
        }
        if kernel.is_stopped || kernel.asking.waits {
            return;
        }
        if kernel.send.is_some() || kernel.rest.is_some() {
            actions.push(Action::Step(d));
            let drains = kernel.rest.as_ref().is_some_and(|rest| rest.step() == Step::Drain);
            return actions.extend((drains && kernel.send.is_none()).then_some(Action::Stay(d)));
        }
        actions.extend((kernel.inbox > 0).then_some(Action::Handle(d)));
        actions.extend((kernel.rests > 0).then_some(Action::BeginRest(d)));
        let others = (0..self.domains).filter(|&to| to != d && kernel.sends > 0);
        actions.extend(others.map(|to| Action::BeginSend(d, to)));
    }

    fn moves(&self, state: &State) -> Vec<Action> {
        let mut actions = vec![];
        (0..self.domains).for_each(|d| self.kernel_actions(state, d, &mut actions));
        actions.extend((!state.jobs.is_empty()).then_some(Action::Job));
        actions.extend((state.device.0 > 0 || state.device.1).then_some(Action::Device));
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
            kernels: vec![
                Kernel { sends: self.sends, rests: self.rests, ..Kernel::default() };
                self.domains
            ],
            jobs: vec![],
            device: (self.completions, false),
        };
        for d in 0..self.domains {
            Self::soc(&mut state, Event::PowerOn(d));
            Self::soc(&mut state, Event::Request(Asker::Kernel(d, 1), command::READY, 0, 0));
            state.kernels[d].asking.answer = None;
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
                let handled = state.kernels.iter().all(|kernel| kernel.inbox == 0);
                handled || !board.moves(state).is_empty()
            }),
            Property::sometimes(RESTS, |_, state: &State| {
                state.kernels.iter().all(|kernel| kernel.is_stopped)
            }),
        ]
    }
}

const NOTHING_LEFT: &str = "no message is left with a domain that is stopped";
const RESTS: &str = "all domains rest";

const DUO: Board = Board { domains: 2, sends: 1, rests: 1, completions: 1, bug: Bug::None };
const TRIO: Board = Board { domains: 3, sends: 1, rests: 1, completions: 0, bug: Bug::None };

fn check(board: Board) {
    let checker = board.checker().threads(2).spawn_bfs().join();
    println!("{} domains: {} states", board.domains, checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn two_domains_and_a_device() {
    check(DUO);
}

#[test]
fn three_domains() {
    check(TRIO);
}

#[test]
fn every_rule_is_needed() {
    for bug in [Bug::NoLook, Bug::EarlyLook, Bug::NoWake, Bug::DeafDevice] {
        let checker = Board { bug, ..DUO }.checker().threads(2).spawn_bfs().join();
        assert!(checker.discovery(NOTHING_LEFT).is_some(), "{bug:?} breaks nothing?");
    }
}

//! Model check of which kernel keeps the timers of a shared service (`kernel_power::timers`):
//! kernels that execute its steps and rest at any moment, domains that are woken, stopped and die,
//! one access at a time. No timer may be left while a domain runs or rests.
//!
//! What is assumed of a kernel is less than it does: the news of a changed state is lost if it
//! comes while the kernel is on its way to rest. When it is back, it looks again.

mod chip;

use abi::soc::{command, state, unpack_state};
use chip::{Kernel, NONE, State, is_alone, life, standing};
use kernel_power::duty::{self, Look};
use kernel_power::timers::{self, Take};
use kernel_power::{Rest, Step};
use soc::power::{Asker, Event, Job, Policy, Power};
use stateright::{Checker, HasDiscoveries, Model, Property};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    /// The kernel takes the next step of its rest.
    Step(usize),
    /// It looks at the states, because one has changed.
    Decide(usize),
    /// It looks whether its former life left timers.
    Boot(usize),
    /// It executes the timer's step.
    Fire(usize),
    /// It executes the step of a request: the service has something to do at this time.
    Serve(usize, u64),
    BeginRest(usize),
    /// It powers itself off, with its memory.
    PowerOff(usize),
    /// The soc serves its request.
    Request(usize),
    /// The emulator does the first job.
    Job,
    Tick,
    /// Something else, a message or a device, wakes the domain.
    Wake(usize),
    /// The domain dies and boots again.
    Die(usize),
    /// A client powers it off, or makes it INACTIVE.
    Stop(usize, u64),
}

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// A kernel whose rest is published does not look again.
    NoLook,
    /// It does not wake the domain that has to keep the timers.
    NoWake,
    /// It does not take what others have left before it rests as the last one.
    NoLastTake,
    /// A kernel that runs takes nothing.
    NoTake,
    /// A kernel remembers only that a domain is stopped, not since when.
    TakesOnce,
    /// It reads the number of starts after the state.
    CountsLate,
    /// It takes nothing of a domain that is off or INACTIVE.
    IgnoresStopped,
    /// It rests although it has not noticed the end of a life.
    IgnoresEnd,
    /// A kernel that boots does not look after its former life.
    NoFormerLife,
    /// Every kernel keeps its own timers in its rest.
    AllKeep,
    /// The last kernel that rests keeps the timers, even if a weaker one rests.
    LastKeeps,
}

#[derive(Clone, Copy)]
struct Board {
    domains: usize,
    rests: u8,
    serves: u8,
    chain: u8,
    wakes: u8,
    deaths: u8,
    stops: u8,
    /// The clock ends here; everything is due by then.
    end: u64,
    bug: Bug,
}

impl Board {
    fn others(&self, d: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.domains).filter(move |&other| other != d)
    }

    /// Reads the next state. Returns whether all are read.
    fn read_states(&self, state: &mut State, d: usize) -> bool {
        let next = state.kernels[d].read.len();
        if next < self.domains {
            let found = state.states()[next];
            state.kernels[d].read.push(found);
        }
        next == self.domains
    }

    /// Takes what the others have left, after reading their words one after the other. Returns
    /// whether that was anything.
    fn take(&self, state: &mut State, d: usize) -> Option<bool> {
        let at = state.kernels[d].parts.len();
        if let Some(other) = self.others(d).nth(at / 2) {
            let (word, starts) = state.words[other];
            let is_state = (at % 2 == 1) != (self.bug == Bug::CountsLate);
            state.kernels[d].parts.push(if is_state { word } else { starts });
            return None;
        }
        let parts = std::mem::take(&mut state.kernels[d].parts);
        let mut earliest = NONE;
        for (other, pair) in self.others(d).zip(parts.chunks(2)) {
            let late = self.bug == Bug::CountsLate;
            let (starts, word) = if late { (pair[1], pair[0]) } else { (pair[0], pair[1]) };
            let kernel = &mut state.kernels[d];
            if self.bug == Bug::TakesOnce && standing(word) == duty::State::Running {
                kernel.taken[other] = 0;
            }
            let is_known = self.bug == Bug::TakesOnce && kernel.taken[other] != 0;
            let taken = if is_known { starts } else { kernel.taken[other] };
            let time = match timers::take(standing(word), starts, taken) {
                Take::Nothing => continue,
                Take::Left => state.pages[other].0,
                Take::All if self.bug == Bug::IgnoresStopped => NONE,
                Take::All => 0,
            };
            kernel.taken[other] = starts;
            earliest = earliest.min(time);
        }
        let timer = &mut state.kernels[d].timer;
        let before = std::mem::replace(timer, earliest.min(*timer));
        Some(earliest < before)
    }

    fn announce(&self, state: &mut State, d: usize) -> Option<bool> {
        if let Some(answer) = state.kernels[d].asking.answer.take() {
            return Some(answer);
        }
        let states = state.states();
        let keeps = match self.bug {
            Bug::AllKeep => true,
            Bug::LastKeeps => is_alone(&states, d),
            _ => duty::listens(&states, d),
        };
        let kernel = &mut state.kernels[d];
        let (left, kept) = if keeps { (NONE, kernel.timer) } else { (kernel.timer, NONE) };
        state.pages[d] = (left, kept);
        kernel.left = left;
        kernel.asking.ask(command::REST, [kept, 0]);
        None
    }

    /// Waits for the answer if it sends a WAKE.
    fn look(&self, state: &mut State, d: usize) -> Option<bool> {
        if self.bug == Bug::NoLook || state.kernels[d].asking.answer.take().is_some() {
            return Some(true);
        }
        if !self.read_states(state, d) {
            return None;
        }
        let read = state.kernels[d].read.clone();
        let is_taking = is_alone(&read, d) && self.bug != Bug::NoLastTake;
        let has_taken = if is_taking { self.take(state, d)? } else { false };
        state.kernels[d].read.clear();
        let kept = |other: usize| state.pages[other].1;
        let found = timers::look(&read, d, state.kernels[d].left, kept, || has_taken);
        let is_unnoticed = (0..self.domains).any(|other| state.has_ended(d, other));
        match found {
            _ if is_unnoticed && self.bug != Bug::IgnoresEnd => Some(false),
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
                state.kernels[d].has_news = true;
                Some(true)
            }
            Step::Over(_) => return,
        };
        if let Some(ended) = ended {
            rest.done(ended);
        }
        let is_over = matches!(rest.step(), Step::Over(_));
        state.kernels[d].rest = Some(rest).filter(|_| !is_over);
        if ended.is_some() {
            // No other domain sees when a step ends.
            self.step_rest(state, d);
        }
    }

    /// Looks at the states because one has changed.
    fn decide(&self, state: &mut State, d: usize) {
        if !self.read_states(state, d) {
            return;
        }
        let takes = timers::takes(&state.kernels[d].read, d) && self.bug != Bug::NoTake;
        if takes && self.take(state, d).is_none() {
            return;
        }
        let ended = (0..self.domains).any(|other| state.has_ended(d, other));
        let lives = state.words.iter().map(|word| life(word.0)).collect();
        let kernel = &mut state.kernels[d];
        kernel.read.clear();
        kernel.known = lives;
        if ended {
            kernel.timer = 0;
        }
    }

    fn act(&self, state: &mut State, action: Action) {
        let client = |command, d| Event::Request(Asker::Client(1), command, d as u64, 0);
        match action {
            Action::Step(d) => self.step_rest(state, d),
            Action::Decide(d) => {
                let kernel = &mut state.kernels[d];
                if kernel.read.is_empty() {
                    kernel.has_news = false;
                }
                self.decide(state, d);
            }
            Action::Boot(d) => {
                let states = state.states();
                let is_first = is_alone(&states, d);
                let is_later = life(state.words[d].0) > 1 && self.bug != Bug::NoFormerLife;
                let kernel = &mut state.kernels[d];
                kernel.boots = false;
                if is_first && is_later {
                    kernel.timer = 0;
                }
            }
            Action::Fire(d) => state.fire(d, self.end),
            Action::Serve(d, due) => {
                (state.serves, state.due) = (state.serves - 1, due);
                let timer = &mut state.kernels[d].timer;
                *timer = due.min(*timer);
            }
            Action::BeginRest(d) => {
                let kernel = &mut state.kernels[d];
                kernel.rests -= 1;
                (kernel.rest, kernel.has_news) = (Some(Rest::default()), false);
                self.step_rest(state, d);
            }
            Action::PowerOff(d) => {
                (state.stops, state.absences) = (state.stops - 1, state.absences + 1);
                state.kernels[d].is_off = true;
                state.kernels[d].asking.ask(command::OFF, [d as u64, 1]);
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
                match job {
                    Job::Continue => state.resume(d),
                    Job::Stop | Job::Reset => state.kernels[d].is_stopped = true,
                }
                let is_off = state.kernels[d].is_off;
                state.soc(Event::JobDone(d, number, true));
                if is_off {
                    (state.kernels[d].asking.waits, state.kernels[d].asking.answer) = (false, None);
                }
            }
            Action::Tick => {
                state.now += 1;
                state.wake_in_time();
            }
            Action::Wake(d) => {
                state.wakes -= 1;
                state.soc(client(command::WAKE, d));
            }
            Action::Die(d) => {
                (state.deaths, state.absences) = (state.deaths - 1, state.absences + 1);
                state.soc(Event::Crash(d));
                state.soc(Event::Ended(d));
            }
            Action::Stop(d, command) => {
                (state.stops, state.absences) = (state.stops - 1, state.absences + 1);
                state.soc(client(command, d));
            }
        }
    }

    /// What must happen at some time.
    fn moves(&self, state: &State) -> Vec<Action> {
        let mut actions = vec![];
        for (d, kernel) in state.kernels.iter().enumerate() {
            actions.extend(kernel.asking.request.map(|_| Action::Request(d)));
            if !kernel.runs || kernel.is_stopped || kernel.asking.waits {
                continue;
            }
            if kernel.rest.is_some() {
                actions.push(Action::Step(d));
            } else if !kernel.read.is_empty() {
                // An interrupt handler.
                actions.push(Action::Decide(d));
            } else {
                actions.extend(kernel.has_news.then_some(Action::Decide(d)));
                actions.extend(kernel.boots.then_some(Action::Boot(d)));
                actions.extend((kernel.timer <= state.now).then_some(Action::Fire(d)));
            }
        }
        actions.extend((!state.jobs.is_empty()).then_some(Action::Job));
        actions.extend((state.now < self.end).then_some(Action::Tick));
        actions
    }

    /// What may happen, or not.
    fn chances(&self, state: &State) -> Vec<Action> {
        let mut actions = vec![];
        for (d, kernel) in state.kernels.iter().enumerate() {
            if kernel.is_idle() && kernel.read.is_empty() && !kernel.boots {
                actions.extend((kernel.rests > 0).then_some(Action::BeginRest(d)));
                actions.extend((state.stops > 0).then_some(Action::PowerOff(d)));
                if state.serves > 0 {
                    let times = [Some(NONE), Some(state.now + 1), Some(state.now + 2)];
                    let times =
                        times.into_iter().flatten().filter(|&it| it == NONE || it <= self.end);
                    actions.extend(times.map(|due| Action::Serve(d, due)));
                }
            }
            let found = unpack_state(state.words[d].0).1;
            let is_up = matches!(found, state::RUNNING | state::RESTING);
            let is_down = matches!(found, state::INACTIVE | state::OFF | state::COLD);
            let can_wake = found == state::RESTING || is_down;
            actions.extend((can_wake && state.wakes > 0).then_some(Action::Wake(d)));
            actions.extend((is_up && state.deaths > 0).then_some(Action::Die(d)));
            if is_up && state.stops > 0 {
                actions.extend([command::OFF, command::INACTIVE].map(|it| Action::Stop(d, it)));
            }
        }
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
            words: vec![(0, 0); self.domains],
            pages: vec![(0, 0); self.domains],
            kernels: vec![Kernel::new(self.domains, self.rests); self.domains],
            jobs: vec![],
            now: 0,
            due: NONE,
            chain: self.chain,
            serves: self.serves,
            wakes: self.wakes,
            deaths: self.deaths,
            stops: self.stops,
            absences: 0,
            needless: 0,
        };
        (0..self.domains).for_each(|d| state.soc(Event::PowerOn(d)));
        (0..self.domains).for_each(|d| self.act(&mut state, Action::Request(d)));
        let lives: Vec<u64> = state.words.iter().map(|word| life(word.0)).collect();
        for kernel in &mut state.kernels {
            (kernel.known, kernel.boots, kernel.has_news) = (lives.clone(), false, false);
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(self.moves(state));
        actions.extend(self.chances(state));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.act(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOTHING_LEFT, |board: &Board, state: &State| {
                let up = [duty::State::Running, duty::State::Resting];
                let is_any_up = state.states().iter().any(|it| up.contains(it));
                state.due == NONE || !is_any_up || !board.moves(state).is_empty()
            }),
            Property::always(STRONG_SLEEPS, |_, state: &State| state.needless <= state.absences),
            Property::sometimes(WEAK_SERVES, |board, state: &State| {
                let is_served = state.serves == 0 && state.chain == 0 && state.now == board.end;
                is_served && state.due == NONE && state.kernels.iter().all(|it| it.is_stopped)
            }),
        ]
    }
}

const NOTHING_LEFT: &str = "no timer is left while a domain runs or rests";
/// But once for each time that another domain is away when the strong one begins to rest.
const STRONG_SLEEPS: &str = "a timer wakes the strong domain only if no other can execute its step";
const WEAK_SERVES: &str = "all domains rest after the timers";

const DUO: Board = Board {
    domains: 2,
    rests: 2,
    serves: 1,
    chain: 1,
    wakes: 1,
    deaths: 0,
    stops: 0,
    end: 2,
    bug: Bug::None,
};

fn check(board: Board) {
    let checker = board.checker().threads(2).spawn_bfs().join();
    println!("{} domains: {} states", board.domains, checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn two_domains_keep_the_timers() {
    check(Board { chain: 0, ..DUO });
    check(Board { wakes: 0, serves: 2, ..DUO });
}

/// The boards on which domains die or are stopped. They rest once, and one timer is set.
const ENDS: Board = Board { rests: 1, wakes: 0, chain: 0, end: 1, ..DUO };

/// A domain dies and boots again while the other one runs, begins to rest or rests.
#[test]
fn a_domain_that_dies_and_boots_leaves_no_timer() {
    check(Board { deaths: 1, ..ENDS });
}

/// A domain that is off or INACTIVE has its timers to itself, and the other one may have left its
/// own.
#[test]
fn a_domain_that_is_stopped_leaves_no_timer() {
    check(Board { stops: 1, ..ENDS });
}

#[test]
#[ignore = "millions of states"]
fn many_schedules_leave_no_timer() {
    check(Board { serves: 2, ..DUO });
    check(Board { deaths: 1, rests: 1, ..DUO });
    check(Board { stops: 1, rests: 1, ..DUO });
    check(Board { domains: 3, end: 2, ..ENDS });
}

#[test]
fn three_domains_keep_the_timers() {
    check(Board { domains: 3, ..ENDS });
}

#[test]
fn every_rule_of_timers_is_needed() {
    let again = Board { serves: 2, chain: 0, ..DUO };
    let (stop, death) = (Board { stops: 1, ..ENDS }, Board { deaths: 1, ..ENDS });
    for (bug, board, broken) in [
        (Bug::NoLook, DUO, NOTHING_LEFT),
        (Bug::NoWake, DUO, NOTHING_LEFT),
        (Bug::NoLastTake, DUO, NOTHING_LEFT),
        (Bug::NoTake, DUO, NOTHING_LEFT),
        (Bug::TakesOnce, again, NOTHING_LEFT),
        (Bug::CountsLate, again, NOTHING_LEFT),
        (Bug::IgnoresStopped, stop, NOTHING_LEFT),
        (Bug::IgnoresEnd, death, NOTHING_LEFT),
        (Bug::NoFormerLife, death, NOTHING_LEFT),
        (Bug::AllKeep, DUO, STRONG_SLEEPS),
        (Bug::LastKeeps, DUO, STRONG_SLEEPS),
    ] {
        let checker = Board { bug, ..board }.checker().threads(2);
        let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        println!("{bug:?}: {} states", checker.unique_state_count());
        assert!(checker.discovery(broken).is_some(), "{bug:?} breaks nothing?");
    }
}

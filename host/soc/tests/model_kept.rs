//! Model check of a lock that a domain keeps between its steps: `arch::domain_lock::kept` access by
//! access, played here. One core takes steps; two others release what is kept, as the chip page
//! changes and as a wait begins, and let steps keep it again. The lock is never released under a
//! step, and is free when all know that others run.

use stateright::{Checker, Model, Property};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Free,
    Kept,
    Leaving,
}

/// The next access of the core that takes steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Next {
    Begin,
    /// It was not kept: wait until it is not being released.
    Wait,
    Attempt,
    /// It is in a step.
    Step,
    End,
    Keep,
    LookAgain,
    /// Take it back, to release it.
    TakeBack,
    /// Another core releases it: wait until it has.
    WaitBack,
    Leave,
    Over,
}

/// The next access of a core that releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Release {
    Idle,
    /// Begin to release what is kept.
    Claim,
    Word,
    Free,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    keeps: bool,
    phase: Phase,
    /// The domain's word says that it has the lock, in memory, and as the core believes.
    word: bool,
    believed: bool,
    next: Next,
    steps: u8,
    releases: [(Release, u8); 2],
    /// How often steps may still begin to keep.
    begins: u8,
    /// The word was not as it must be at a store.
    is_wrong: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Step,
    Release(usize),
    Begin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// A step that keeps the lock does not look again whether it should.
    NoLook,
    /// What is kept is released without a claim.
    NoClaim,
    /// A step that finds the lock leaving does not wait.
    NoWait,
    /// A step believes that it still has what was released.
    Believes,
}

#[derive(Clone, Copy)]
struct Kept {
    steps: u8,
    releases: u8,
    begins: u8,
    bug: Bug,
}

impl Kept {
    /// The exchange: returns whether the lock was kept, and gives it this phase then.
    fn change(state: &mut State, to: Phase) -> bool {
        let is_kept = state.phase == Phase::Kept;
        if is_kept {
            state.phase = to;
        }
        is_kept
    }

    fn set_word(state: &mut State, word: bool) {
        state.is_wrong |= state.word == word;
        state.word = word;
    }

    fn step(&self, state: &mut State) {
        let next = state.next;
        state.next = match next {
            Next::Begin if state.steps == 0 => Next::Over,
            Next::Begin if !state.believed => Next::Attempt,
            Next::Begin if Self::change(state, Phase::Free) => Next::Step,
            Next::Begin => Next::Wait,
            Next::Wait if state.phase == Phase::Leaving && self.bug != Bug::NoWait => Next::Wait,
            Next::Wait if self.bug == Bug::Believes => Next::Step,
            Next::Wait => {
                state.believed = false;
                Next::Attempt
            }
            Next::Attempt => {
                Self::set_word(state, true);
                state.believed = true;
                Next::Step
            }
            Next::Step => {
                state.steps -= 1;
                Next::End
            }
            Next::End if state.keeps => Next::Keep,
            Next::End => Next::Leave,
            Next::Keep => {
                state.phase = Phase::Kept;
                if self.bug == Bug::NoLook { Next::Begin } else { Next::LookAgain }
            }
            Next::LookAgain if state.keeps => Next::Begin,
            Next::LookAgain => Next::TakeBack,
            Next::TakeBack if Self::change(state, Phase::Free) => Next::Leave,
            Next::TakeBack => Next::WaitBack,
            Next::WaitBack if state.phase == Phase::Leaving => Next::WaitBack,
            Next::WaitBack => Next::Begin,
            Next::Leave => {
                Self::set_word(state, false);
                state.believed = false;
                Next::Begin
            }
            Next::Over => Next::Over,
        };
    }

    fn release(&self, state: &mut State, who: usize) {
        let (next, rounds) = state.releases[who];
        state.releases[who] = match next {
            Release::Idle => {
                state.keeps = false;
                (Release::Claim, rounds - 1)
            }
            Release::Claim if self.bug == Bug::NoClaim && state.phase == Phase::Kept => {
                (Release::Word, rounds)
            }
            Release::Claim if Self::change(state, Phase::Leaving) => (Release::Word, rounds),
            Release::Claim => (Release::Idle, rounds),
            Release::Word => {
                Self::set_word(state, false);
                (Release::Free, rounds)
            }
            Release::Free => {
                state.phase = Phase::Free;
                (Release::Idle, rounds)
            }
        };
    }
}

impl Model for Kept {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            keeps: false,
            phase: Phase::Free,
            word: false,
            believed: false,
            next: Next::Begin,
            steps: self.steps,
            releases: [(Release::Idle, self.releases); 2],
            begins: self.begins,
            is_wrong: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Step);
        actions.extend((state.begins > 0).then_some(Action::Begin));
        let works = |&(at, (next, rounds)): &(usize, &(Release, u8))| {
            (*next != Release::Idle || *rounds > 0).then_some(Action::Release(at))
        };
        actions.extend(state.releases.iter().enumerate().filter_map(|it| works(&it)));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Step => self.step(&mut next),
            Action::Release(who) => self.release(&mut next, who),
            Action::Begin => {
                next.keeps = true;
                next.begins -= 1;
            }
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(HELD, |_, state: &State| {
                !state.is_wrong && (state.next != Next::Step || state.word)
            }),
            Property::always(FREE, |_, state: &State| {
                let is_idle = state.releases.iter().all(|(next, _)| *next == Release::Idle);
                let is_over = state.next == Next::Over && !state.keeps && is_idle;
                !is_over || !state.word
            }),
        ]
    }
}

const HELD: &str = "a step has the lock, and no store finds another word than it expects";
const FREE: &str = "what is kept is released";

const ALL: Kept = Kept { steps: 3, releases: 2, begins: 3, bug: Bug::None };

#[test]
fn a_kept_lock_is_released_once_and_never_under_a_step() {
    let checker = ALL.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn every_rule_is_needed() {
    let finds = |bug, property| {
        let checker = Kept { bug, ..ALL }.checker().threads(2).spawn_bfs().join();
        assert!(checker.discovery(property).is_some(), "{bug:?} breaks nothing?");
    };
    finds(Bug::NoLook, FREE);
    finds(Bug::NoClaim, HELD);
    finds(Bug::NoWait, HELD);
    finds(Bug::Believes, HELD);
}

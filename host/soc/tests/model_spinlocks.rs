//! Model check of the hardware spinlocks: `arch::shared::HwLock` access by access, played here, and
//! the shipped `soc::spinlocks` with one access per step. Domains stop, die and boot again at any
//! access. At most one living domain has the lock, and every schedule ends with a free lock.

use soc::spinlocks::{Bank, Look, Seen};
use stateright::{Checker, Model, Property};
use std::cell::Cell;
use std::convert::Infallible;

/// The access that a domain does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Next {
    /// Count, and then swap.
    Count,
    Swap,
    /// It has the lock: free it.
    Free,
    /// Count; true: it had the lock.
    CountAgain(bool),
    /// Load the word until it is free.
    Load,
    /// Nothing.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Domain {
    next: Next,
    /// How often it still takes the lock.
    rounds: u8,
    count: u64,
    is_dead: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    word: u64,
    domains: Vec<Domain>,
    /// Domains that have died and were not fenced.
    unfenced: Vec<usize>,
    /// The soc's look, with the number of its accesses, if there is a doubt.
    look: Option<(Look, usize)>,
    /// The counts that the soc read first.
    read: Vec<u64>,
    deaths: u8,
    /// The soc freed a lock that a living domain had.
    is_stolen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Step(usize),
    Die(usize),
    Fence(usize),
    Boot(usize),
    Look,
}

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// The soc does not compare the counts with those before.
    OneRound,
    /// The soc does not read the word.
    NoWord,
    /// A domain does not count before it swaps, only when it has the lock.
    LateCount,
    /// A domain counts before it frees the lock.
    EarlyCount,
    /// The soc frees no lock.
    NoLook,
}

#[derive(Clone, Copy)]
struct Board {
    domains: usize,
    rounds: u8,
    deaths: u8,
    bug: Bug,
}

/// The words as the soc accesses them.
struct Words<'a> {
    state: &'a State,
    bug: Bug,
    /// Whether this access belongs to the second round.
    is_second: bool,
    freed: Cell<bool>,
}

impl Bank for Words<'_> {
    type Error = Infallible;

    fn word(&self, _: usize) -> Result<u64, Infallible> {
        Ok(if self.bug == Bug::NoWord { 1 } else { self.state.word })
    }

    fn attempts(&self, _: usize, domain: usize) -> Result<u64, Infallible> {
        let before = self.is_second && self.bug == Bug::OneRound;
        Ok(if before { self.state.read[domain] } else { self.state.domains[domain].count })
    }

    fn free(&self, _: usize) -> Result<(), Infallible> {
        self.freed.set(true);
        Ok(())
    }
}

impl Domain {
    fn fresh(rounds: u8) -> Domain {
        Domain { next: Next::Count, rounds, count: 0, is_dead: false }
    }

    fn has_it(&self) -> bool {
        !self.is_dead && self.next == Next::Free
    }
}

impl Board {
    fn step(&self, state: &mut State, d: usize) {
        let (late, early) = (self.bug == Bug::LateCount, self.bug == Bug::EarlyCount);
        let this = &mut state.domains[d];
        this.next = match this.next {
            Next::Count if late => Next::Swap,
            Next::Count => {
                this.count += 1;
                Next::Swap
            }
            Next::Swap => {
                let has_it = std::mem::replace(&mut state.word, 1) == 0;
                match (has_it, late) {
                    (true, false) => Next::Free,
                    (false, false) => Next::CountAgain(false),
                    (false, true) => Next::Load,
                    // It has the lock, and counts now.
                    (true, true) => Next::CountAgain(true),
                }
            }
            // With the bugs, the lock is freed in this step after it was counted in the last one.
            Next::Free if early && !this.count.is_multiple_of(2) => {
                this.count += 1;
                Next::Free
            }
            Next::Free => {
                state.word = 0;
                if early { self.round_ended(this) } else { Next::CountAgain(true) }
            }
            Next::CountAgain(true) if late && this.count.is_multiple_of(2) => {
                this.count += 1;
                Next::Free
            }
            Next::CountAgain(had_it) => {
                this.count += 1;
                if had_it { self.round_ended(this) } else { Next::Load }
            }
            Next::Load if state.word == 0 => Next::Count,
            Next::Load | Next::End => return,
        };
    }

    fn round_ended(&self, this: &mut Domain) -> Next {
        this.rounds -= 1;
        if this.rounds == 0 { Next::End } else { Next::Count }
    }

    fn look(&self, state: &mut State) {
        let Some((mut look, done)) = state.look else { return };
        let is_second = done > self.domains;
        let words = Words { state, bug: self.bug, is_second, freed: Cell::new(false) };
        let Ok(seen) = look.step(&words, 0, self.domains);
        let freed = words.freed.get();
        if done < self.domains {
            state.read[done] = state.domains[done].count;
        }
        state.look = match seen {
            Seen::More => Some((look, done + 1)),
            Seen::Busy => Some((Look::default(), 0)),
            Seen::Settled | Seen::Freed => None,
        };
        if state.look.is_none_or(|(_, done)| done == 0) {
            state.read.fill(0);
        }
        if freed {
            state.is_stolen |= state.domains.iter().any(Domain::has_it);
            state.word = 0;
        }
    }

    fn fence(&self, state: &mut State, d: usize) {
        state.unfenced.retain(|&other| other != d);
        state.domains[d].count = 0;
        if self.bug != Bug::NoLook {
            state.look = Some((Look::default(), 0));
        }
    }

    fn act(&self, state: &mut State, action: Action) {
        match action {
            Action::Step(d) => self.step(state, d),
            Action::Die(d) => {
                state.domains[d].is_dead = true;
                state.unfenced.push(d);
                state.deaths += 1;
            }
            Action::Fence(d) => self.fence(state, d),
            Action::Boot(d) => state.domains[d] = Domain::fresh(self.rounds),
            Action::Look => self.look(state),
        }
    }

    /// The next states.
    fn moves(&self, state: &State) -> Vec<(Action, State)> {
        let mut actions = vec![Action::Look];
        // The soc does one thing at a time.
        let between = state.look.is_none_or(|(_, done)| done == 0);
        for (d, domain) in state.domains.iter().enumerate() {
            match (domain.is_dead, state.unfenced.contains(&d)) {
                (false, _) => {
                    actions.push(Action::Step(d));
                    actions.extend((state.deaths < self.deaths).then_some(Action::Die(d)));
                }
                (true, true) => actions.extend(between.then_some(Action::Fence(d))),
                (true, false) => actions.push(Action::Boot(d)),
            }
        }
        let moved = actions.into_iter().map(|action| {
            let mut next = state.clone();
            self.act(&mut next, action);
            (action, next)
        });
        moved.filter(|(_, next)| next != state).collect()
    }
}

impl Model for Board {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            word: 0,
            domains: vec![Domain::fresh(self.rounds); self.domains],
            unfenced: vec![],
            look: None,
            read: vec![0; self.domains],
            deaths: 0,
            is_stolen: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(self.moves(state).into_iter().map(|(action, _)| action));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.act(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE, |_, state: &State| {
                let holders = state.domains.iter().filter(|domain| domain.has_it());
                holders.count() <= 1 && !state.is_stolen
            }),
            Property::always(END, |board: &Board, state: &State| {
                let over = |domain: &Domain| domain.next == Next::End;
                let ended = state.word == 0 && state.domains.iter().all(over);
                ended || !board.moves(state).is_empty()
            }),
        ]
    }
}

const ONE: &str = "one domain has the lock";
const END: &str = "every schedule ends with a free lock";

const DUO: Board = Board { domains: 2, rounds: 3, deaths: 2, bug: Bug::None };
const TRIO: Board = Board { domains: 3, rounds: 1, deaths: 2, bug: Bug::None };

fn check(board: Board) {
    let checker = board.checker().threads(2).spawn_bfs().join();
    println!("{} domains: {} states", board.domains, checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn two_domains_die_twice() {
    check(DUO);
}

#[test]
fn three_domains_of_which_one_dies() {
    check(TRIO);
}

#[test]
fn every_rule_is_needed() {
    let finds = |bug, property| {
        let checker = Board { bug, ..TRIO }.checker().threads(2).spawn_bfs().join();
        assert!(checker.discovery(property).is_some(), "{bug:?} breaks nothing?");
    };
    finds(Bug::OneRound, ONE);
    finds(Bug::NoWord, ONE);
    finds(Bug::LateCount, ONE);
    finds(Bug::EarlyCount, ONE);
    finds(Bug::NoLook, END);
}

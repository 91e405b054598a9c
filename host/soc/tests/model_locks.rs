//! Model check of the locks between domains: `arch::domain_lock` access by access, played here,
//! over the words of `abi::lock`, with the soc's part. Domains stop, die and boot again at any
//! access, and keep the lock after their steps until they hear that others run. At most one living
//! domain has the lock, one that gets it after a death with the lock knows of it, and every
//! schedule can end.

use abi::lock::{Known, LockWord};
use stateright::{Checker, Model, Property};
use std::collections::{HashMap, HashSet};

/// The access that a domain does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Next {
    Attempt,
    /// Look at a domain's word.
    Look(usize),
    GiveUp,
    /// Give way to a domain that waits.
    Yield(usize),
    Want,
    /// Wait until a domain before this one does not block.
    Before(usize),
    AttemptAgain,
    LookAgain(usize),
    GiveUpAgain,
    /// Wait until a domain after this one does not block.
    After(usize),
    Learn(usize),
    Enter,
    /// It has the lock: write the life that it knows.
    Know,
    Change,
    Finish,
    Free,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Domain {
    next: Next,
    /// How often it still takes the lock.
    rounds: u8,
    life: u32,
    broken: u32,
    /// It has had the lock, and gives way if another one waits.
    yields: bool,
    /// Its steps keep the lock, which one of them has done.
    keeps: bool,
    has_kept: bool,
    is_dead: bool,
    is_fenced: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    words: Vec<LockWord>,
    domains: Vec<Domain>,
    /// The life of the guarded state, and whether a domain is changing it, or died doing so.
    life: u32,
    is_torn: bool,
    /// A domain has used a torn state.
    is_misled: bool,
    deaths: u8,
    /// How often a domain still may begin to keep the lock.
    begins: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Step(usize),
    /// It believes that no other domain runs.
    Keep(usize),
    /// It hears that one does.
    Hear(usize),
    Die(usize),
    Fence(usize),
    Boot(usize),
}

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// A domain looks before it blocks.
    LookFirst,
    /// One that has waited does not look a second time at the domains before it.
    NoSecondLook,
    /// It does not wait for those after it.
    NoAfter,
    /// It does not write that it has the lock.
    StillWaits,
    /// A domain does not write which life it knows.
    OldLife,
    /// It frees the lock before it has finished.
    EarlyFree,
    /// A domain that hears of others does not release what it keeps.
    Deaf,
    /// It releases it, also under a step.
    EarlyLeave,
    /// It takes the lock as kept which it has released.
    ForgetLeave,
    /// The soc does not end the attempts of the dead.
    NoFence,
    /// It ends them, and marks none as broken.
    NoBroken,
}

#[derive(Clone, Copy)]
struct Board {
    domains: usize,
    rounds: u8,
    deaths: u8,
    /// How often domains begin to keep the lock.
    begins: u8,
    /// Whether the dead boot again.
    boots: bool,
    bug: Bug,
}

/// Only the parity of a count matters, and the number of states must be finite.
fn plain(word: LockWord) -> LockWord {
    let one = LockWord::default().attempt().0;
    LockWord(word.0 & (2 * one - 1))
}

impl Domain {
    fn fresh(rounds: u8) -> Domain {
        let next = Next::Attempt;
        Domain {
            next,
            rounds,
            life: 0,
            broken: 0,
            yields: false,
            keeps: false,
            has_kept: false,
            is_dead: false,
            is_fenced: false,
        }
    }

    fn has_it(&self) -> bool {
        !self.is_dead && matches!(self.next, Next::Change | Next::Finish)
    }

    fn learn(&mut self, word: LockWord) {
        let known = Known { life: self.life, broken: self.broken }.with(word);
        (self.life, self.broken) = (known.life, known.broken);
    }
}

impl Board {
    /// The domain after `at` that `me` looks at.
    fn other(&self, me: usize, at: usize) -> Option<usize> {
        (at..self.domains).find(|&other| other != me)
    }

    fn look(&self, me: usize, at: usize) -> Next {
        self.other(me, at).map_or(Next::Know, Next::Look)
    }

    fn before(me: usize, at: usize, wait: bool) -> Next {
        match (at < me, wait) {
            (true, true) => Next::Before(at),
            (true, false) => Next::LookAgain(at),
            (false, true) => Next::AttemptAgain,
            (false, false) => Next::After(me + 1),
        }
    }

    fn step(&self, state: &mut State, me: usize) {
        let blocks = |at: usize| state.words[at].blocks();
        let own = state.words[me];
        let mut word = own;
        let this = &mut state.domains[me];
        this.next = match this.next {
            Next::Attempt if self.bug == Bug::LookFirst && !own.blocks() => self.look(me, 0),
            // What the words tell has not changed since.
            Next::Attempt if this.has_kept => {
                this.has_kept = false;
                Next::Know
            }
            Next::Attempt => {
                word = own.attempt();
                (this.life, this.broken) = (own.life(), own.broken());
                self.look(me, 0)
            }
            Next::Look(at) if blocks(at) || state.words[at].wants() && this.yields => Next::GiveUp,
            Next::Look(at) => {
                this.learn(state.words[at]);
                self.look(me, at + 1)
            }
            Next::GiveUp => {
                word = if own.blocks() { own.ended() } else { own };
                Next::Yield(0)
            }
            // For how long, if that one does not block, is left open.
            Next::Yield(at) => match self.other(me, at) {
                Some(other) if blocks(other) => return,
                Some(other) => Next::Yield(other + 1),
                None => Next::Want,
            },
            Next::Want => {
                word = own.wanting();
                Self::before(me, 0, true)
            }
            Next::Before(at) if blocks(at) => return,
            Next::Before(at) => Self::before(me, at + 1, true),
            Next::AttemptAgain => {
                word = own.attempt();
                let skips = self.bug == Bug::NoSecondLook;
                Self::before(me, if skips { me } else { 0 }, false)
            }
            Next::LookAgain(at) if blocks(at) => Next::GiveUpAgain,
            Next::LookAgain(at) => Self::before(me, at + 1, false),
            Next::GiveUpAgain => {
                word = own.ended();
                Next::Want
            }
            Next::After(at) if at < self.domains && self.bug != Bug::NoAfter && blocks(at) => {
                return;
            }
            Next::After(at) if at < self.domains => Next::After(at + 1),
            Next::After(_) => {
                (this.life, this.broken) = (own.life(), own.broken());
                Next::Learn(0)
            }
            Next::Learn(at) => match self.other(me, at) {
                Some(other) => {
                    this.learn(state.words[other]);
                    Next::Learn(other + 1)
                }
                None => Next::Enter,
            },
            Next::Enter => {
                word = if self.bug == Bug::StillWaits { own } else { own.entered() };
                Next::Know
            }
            Next::Know => {
                // A broken state is replaced by that of the next life.
                let is_good = this.broken < this.life;
                if is_good && state.is_torn {
                    state.is_misled = true;
                }
                let life = if is_good { this.life } else { this.life + 1 };
                word = if self.bug == Bug::OldLife && is_good { own } else { own.in_life(life) };
                (state.life, this.life) = (life, life);
                // With the bug it has not blocked yet.
                word = if word.blocks() { word } else { word.attempt() };
                Next::Change
            }
            Next::Change => {
                state.is_torn = true;
                if self.bug == Bug::EarlyFree { Next::Free } else { Next::Finish }
            }
            Next::Finish => {
                state.is_torn = false;
                if self.bug == Bug::EarlyFree { Self::round_ended(this) } else { Next::Free }
            }
            Next::Free => {
                this.has_kept = this.keeps;
                word = if this.has_kept { own } else { own.ended() };
                if self.bug == Bug::EarlyFree { Next::Finish } else { Self::round_ended(this) }
            }
            Next::End => return,
        };
        state.words[me] = plain(word);
    }

    fn round_ended(this: &mut Domain) -> Next {
        if !this.has_kept {
            (this.life, this.broken) = (0, 0);
        }
        this.rounds -= 1;
        this.yields = true;
        if this.rounds == 0 { Next::End } else { Next::Attempt }
    }

    fn fence(&self, state: &mut State, d: usize) {
        state.domains[d].is_fenced = true;
        let word = state.words[d];
        state.words[d] = match self.bug {
            Bug::NoFence => word,
            Bug::NoBroken if word.blocks() => word.ended(),
            _ => word.fenced(),
        };
        state.words[d] = plain(state.words[d]);
    }

    /// A domain releases what it keeps.
    fn hear(&self, state: &mut State, d: usize) {
        let (this, word) = (&mut state.domains[d], state.words[d]);
        this.keeps = false;
        let is_early = self.bug == Bug::EarlyLeave && this.has_it();
        if (this.has_kept || is_early) && self.bug != Bug::Deaf {
            state.words[d] = plain(word.ended());
            this.has_kept &= self.bug == Bug::ForgetLeave;
            (this.life, this.broken) =
                if this.has_kept { (this.life, this.broken) } else { (0, 0) };
        }
    }

    fn act(&self, state: &mut State, action: Action) {
        match action {
            Action::Step(d) => self.step(state, d),
            Action::Keep(d) => {
                state.domains[d].keeps = true;
                state.begins -= 1;
            }
            Action::Hear(d) => self.hear(state, d),
            Action::Die(d) => {
                state.domains[d].is_dead = true;
                state.deaths += 1;
            }
            Action::Fence(d) => self.fence(state, d),
            Action::Boot(d) => state.domains[d] = Domain::fresh(self.rounds),
        }
    }

    /// The next states.
    fn moves(&self, state: &State) -> Vec<(Action, State)> {
        let mut actions = vec![];
        for (d, domain) in state.domains.iter().enumerate() {
            match (domain.is_dead, domain.is_fenced) {
                (false, _) => {
                    actions.push(Action::Step(d));
                    actions.extend((state.begins > 0).then_some(Action::Keep(d)));
                    actions.extend(domain.keeps.then_some(Action::Hear(d)));
                    actions.extend((state.deaths < self.deaths).then_some(Action::Die(d)));
                }
                (true, false) => actions.push(Action::Fence(d)),
                (true, true) => actions.extend(self.boots.then_some(Action::Boot(d))),
            }
        }
        let moved = actions.into_iter().map(|action| {
            let mut next = state.clone();
            self.act(&mut next, action);
            (action, next)
        });
        moved.filter(|(_, next)| next != state).collect()
    }

    fn first(&self) -> State {
        State {
            words: vec![LockWord::default(); self.domains],
            domains: vec![Domain::fresh(self.rounds); self.domains],
            life: 0,
            is_torn: false,
            is_misled: false,
            deaths: 0,
            begins: self.begins,
        }
    }

    /// Returns a state from which no schedule ends with a free lock.
    fn stuck(&self) -> Option<State> {
        let mut numbers = HashMap::from([(self.first(), 0)]);
        let (mut states, mut sources, mut at) = (vec![self.first()], vec![vec![]], 0);
        while at < states.len() {
            for (_, next) in self.moves(&states[at]) {
                let number = *numbers.entry(next.clone()).or_insert(states.len());
                if number == states.len() {
                    states.push(next);
                    sources.push(vec![]);
                }
                sources[number].push(at);
            }
            at += 1;
        }
        let is_over = |state: &State| {
            let is_over = |domain: &Domain| domain.is_dead || domain.next == Next::End;
            state.domains.iter().all(is_over) && state.words.iter().all(|word| !word.blocks())
        };
        let mut open: Vec<_> = (0..states.len()).filter(|&at| is_over(&states[at])).collect();
        let mut ends: HashSet<_> = open.iter().copied().collect();
        while let Some(at) = open.pop() {
            open.extend(sources[at].iter().copied().filter(|&source| ends.insert(source)));
        }
        (0..states.len()).find(|at| !ends.contains(at)).map(|at| states[at].clone())
    }
}

impl Model for Board {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.first()]
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
                state.domains.iter().filter(|domain| domain.has_it()).count() <= 1
            }),
            Property::always(KNOWN, |_, state: &State| !state.is_misled),
        ]
    }
}

const ONE: &str = "one domain has the lock";
const KNOWN: &str = "a death with the lock is known to the next";

const DUO: Board =
    Board { domains: 2, rounds: 3, deaths: 2, begins: 0, boots: true, bug: Bug::None };
const TRIO: Board =
    Board { domains: 3, rounds: 2, deaths: 1, begins: 0, boots: true, bug: Bug::None };
const WITH_KEPT: Board = Board { deaths: 1, begins: 2, ..DUO };

fn check(board: Board) {
    let checker = board.checker().threads(2).spawn_bfs().join();
    println!("{} domains: {} states", board.domains, checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn two_domains_die_twice() {
    check(DUO);
    assert_eq!(DUO.stuck(), None);
    assert_eq!(Board { boots: false, ..DUO }.stuck(), None);
}

#[test]
fn three_domains_of_which_one_dies() {
    check(TRIO);
    assert_eq!(Board { boots: false, rounds: 1, ..TRIO }.stuck(), None);
}

#[test]
fn two_domains_that_keep_the_lock() {
    check(WITH_KEPT);
    assert_eq!(WITH_KEPT.stuck(), None);
    assert_eq!(Board { boots: false, ..WITH_KEPT }.stuck(), None);
}

#[test]
fn three_domains_of_which_one_keeps_the_lock() {
    check(Board { begins: 1, rounds: 2, deaths: 0, ..TRIO });
}

#[test]
fn every_rule_is_needed() {
    let finds = |bug, property| {
        let checker = Board { bug, ..TRIO }.checker().threads(2).spawn_bfs().join();
        assert!(checker.discovery(property).is_some(), "{bug:?} breaks nothing?");
    };
    finds(Bug::LookFirst, ONE);
    finds(Bug::NoSecondLook, ONE);
    finds(Bug::NoAfter, ONE);
    finds(Bug::EarlyFree, ONE);
    finds(Bug::StillWaits, KNOWN);
    finds(Bug::OldLife, KNOWN);
    finds(Bug::NoBroken, KNOWN);
    assert!(Board { bug: Bug::NoFence, boots: false, ..DUO }.stuck().is_some());
    let finds_kept = |bug| {
        let checker = Board { bug, ..WITH_KEPT }.checker().threads(2).spawn_bfs().join();
        assert!(checker.discovery(ONE).is_some(), "{bug:?} breaks nothing?");
    };
    finds_kept(Bug::EarlyLeave);
    finds_kept(Bug::ForgetLeave);
    assert!(Board { bug: Bug::Deaf, deaths: 0, ..WITH_KEPT }.stuck().is_some());
}

//! Deliberate mistakes of the protocol, and the models that find them.

use super::checks::*;
use super::models::{NONE, graph, setup};
use super::world::{Budget, Setup, World};
use crate::channels::Channels;
use crate::end::{End, Place};
use crate::name::Lives;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// An end stays when it leaves.
    Copy,
    /// Messages that reach a stand-in are dropped.
    NoForward,
    /// A stand-in passes no news on.
    NoRelay,
    /// Stand-ins are retired before the peer knows of the move.
    RetireUnheard,
    /// Stand-ins are retired before what went through them has arrived.
    RetireEarly,
    /// Messages are received in the order in which they arrive.
    AnyOrder,
    /// A peer counts as closed before its last messages have arrived.
    ClosedAtOnce,
    /// A closed end does not tell its peer.
    SilentClose,
    /// Ends in dropped messages are not closed.
    KeepCarried,
    /// Reserved room is not returned when a message is dropped.
    KeepRoom,
    /// A stand-in does not report that the kernel of its end has died.
    SilentLoss,
    /// News is taken although newer news is known.
    OldNews,
    /// The stand-in of a closed or broken end is retired without a word to the peer.
    SilentRetire,
    /// A stand-in that is retired does not retire earlier ones.
    KeepTrail,
    /// A stand-in is retired although the end has been there again since.
    LateRetire,
    /// The death of a kernel with a stand-in breaks nothing.
    ForgetTrail,
    /// The death of a kernel through which messages are still to come breaks nothing.
    ForgetAwaited,
    /// An end that arrives does not look whether the peer's kernel has died.
    ArriveBlind,
    /// Lives of a kernel are not told apart.
    AnyEpoch,
    /// Programs are not woken.
    NoWake,
    /// A pair stays one, whatever happens to its ends.
    KeepPair,
}

impl Mutant {
    /// All that the models find; `OldNews` has a test of its own ([`super::calls`]).
    const ALL: [Mutant; 20] = [
        Mutant::Copy,
        Mutant::NoForward,
        Mutant::NoRelay,
        Mutant::RetireUnheard,
        Mutant::RetireEarly,
        Mutant::AnyOrder,
        Mutant::ClosedAtOnce,
        Mutant::SilentClose,
        Mutant::KeepCarried,
        Mutant::KeepRoom,
        Mutant::SilentLoss,
        Mutant::SilentRetire,
        Mutant::KeepTrail,
        Mutant::LateRetire,
        Mutant::ForgetTrail,
        Mutant::ForgetAwaited,
        Mutant::ArriveBlind,
        Mutant::AnyEpoch,
        Mutant::NoWake,
        Mutant::KeepPair,
    ];

    /// Makes a peer that is closed finished at once.
    pub fn hurries<B>(end: &mut End<B>, mutant: Option<Mutant>) -> &mut End<B> {
        let is_early = end.queue.is_empty() && end.record.peer.closed.is_some();
        if mutant == Some(Mutant::ClosedAtOnce) && is_early {
            end.record.peer.closed = Some(end.record.read);
        }
        end
    }

    pub fn forgets(awaited: Lives, trail: Lives, mutant: Option<Mutant>) -> (Lives, Lives) {
        match mutant {
            Some(Mutant::ForgetTrail) => (awaited, Lives::NONE),
            Some(Mutant::ForgetAwaited) => (Lives::NONE, trail),
            _ => (awaited, trail),
        }
    }
}

impl<B> End<B> {
    pub fn may_retire_or(&self, mutant: Option<Mutant>) -> bool {
        let peer = &self.record.peer;
        match mutant {
            Some(Mutant::RetireUnheard) => true,
            Some(Mutant::RetireEarly) => self.may_retire() || peer.heard >= self.record.moves,
            _ => self.may_retire(),
        }
    }
}

impl<B> Channels<B> {
    /// Lets the stand-in of an end that was lost say nothing.
    pub fn silence(&mut self, index: u16) {
        let is_silent = self.is_mutant(Mutant::SilentLoss);
        if let Some(end) = self.table.get_mut(index) {
            end.has_news &= !is_silent;
        }
    }

    /// Lets a stand-in that is retired leave earlier ones.
    pub fn keep_trail(&mut self, index: u16) {
        let keeps = self.is_mutant(Mutant::KeepTrail);
        if let Some(end) = self.table.get_mut(index).filter(|_| keeps) {
            end.to_retire = Lives::NONE;
        }
    }

    pub fn forgets_to_forward(&self, index: u16) -> bool {
        let place = self.table.get(index).map(|end| end.place);
        self.is_mutant(Mutant::NoForward) && matches!(place, Some(Place::Away(_)))
    }
}

/// A model in which this mistake does harm.
fn world(mutant: Mutant) -> World {
    let pair = |at| -> [Setup; 2] { [setup(1, [0, 1], [1, 1]), setup(0, at, [1, 1])] };
    let quiet = Budget { sends: 3, moves: 1, closes: 1, ..NONE };
    let death = Budget { sends: 3, moves: 1, deaths: 1, ..NONE };
    let two = World::new(2, &pair([0, 0]), quiet);
    match mutant {
        Mutant::RetireEarly | Mutant::RetireUnheard => World::new(3, &pair([0, 2]), quiet),
        Mutant::AnyOrder => {
            let channels = [setup(1, [0, 1], [1, 0]), setup(0, [0, 2], [0, 2])];
            World::new(3, &channels, Budget { closes: 0, ..quiet })
        }
        Mutant::KeepRoom => World { ring: 1, ..two },
        Mutant::ClosedAtOnce => World::new(3, &pair([0, 2]), quiet),
        Mutant::SilentLoss
        | Mutant::SilentRetire
        | Mutant::ForgetTrail
        | Mutant::ForgetAwaited
        | Mutant::ArriveBlind => World::new(3, &pair([0, 2]), Budget { closes: 1, ..death }),
        Mutant::KeepTrail => {
            let there = [setup(1, [1, 0], [1, 0]), setup(1, [0, 2], [1, 0])];
            let channels = [there[0], there[1], setup(0, [1, 1], [0, 0])];
            World::new(3, &channels, Budget { moves: 2, ..death })
        }
        Mutant::LateRetire => {
            let there = [setup(1, [1, 2], [2, 0]), setup(1, [2, 1], [1, 0])];
            let channels = [there[0], there[1], setup(0, [0, 1], [1, 0])];
            let budget = Budget { sends: 4, moves: 3, ..NONE };
            World { ring: 1, ..World::new(3, &channels, budget) }
        }
        Mutant::AnyEpoch => {
            let budget = Budget { sends: 1, restarts: 1, ..death };
            World::new(3, &pair([0, 2]), budget)
        }
        _ => two,
    }
}

#[test]
fn every_mistake_is_found() {
    let (known, mut missed) = (ALL, vec![]);
    for mutant in Mutant::ALL {
        let start = std::time::Instant::now();
        let found = graph(&World { mutant: Some(mutant), ..world(mutant) });
        let (wrong, steps) = (found.wrong, found.path.len());
        println!("{mutant:?}: {wrong:?} {} states, {:?}", found.states, start.elapsed());
        if found.is_fine() {
            missed.push(mutant);
        }
        assert!(wrong.is_none_or(|wrong| known.contains(&wrong)), "{steps}");
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// What the models find is the mistake, and nothing else.
#[test]
#[ignore = "a million states"]
fn the_same_models_without_a_mistake_are_fine() {
    // One for each model.
    let mutants = [
        Mutant::Copy,
        Mutant::RetireEarly,
        Mutant::AnyOrder,
        Mutant::KeepRoom,
        Mutant::SilentRetire,
        Mutant::KeepTrail,
        Mutant::LateRetire,
        Mutant::AnyEpoch,
    ];
    for mutant in mutants {
        let start = std::time::Instant::now();
        let graph = graph(&world(mutant));
        println!("without {mutant:?}: {} states, {:?}", graph.states, start.elapsed());
        assert!(graph.is_fine(), "without {mutant:?}: {graph:#?}");
    }
}

//! Random walks through models that are too large to explore completely.
//!
//! A walk prefers some steps and neglects others, as its seed says. So one domain may read the chip
//! page late throughout a walk, and the messages of one link may all arrive late.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use base::prng::Prng;
use stateright::{Expectation, Model};

use super::model::World;
use super::steps::Action;

/// Limit on the steps of a walk, more than any needs.
const STEPS: usize = 2_000;

/// What a walk found, and the steps that led to it.
#[derive(Debug)]
pub struct Defect {
    /// The violated property, or that the walk does not end, or not well.
    pub wrong: &'static str,
    pub path: Vec<Action>,
}

/// Walks once through the model. Returns the first defect.
pub fn walk<const D: usize, const C: usize>(world: &World<D, C>, seed: u64) -> Result<(), Defect> {
    let mut prng = Prng::new(seed);
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let salt = prng.next();
    let weight = |action: &Action| [1, 8, 64, 256][hasher.hash_one((salt, action)) as usize % 4];
    let properties = world.properties();
    let mut state = world.init_states().remove(0);
    let (mut path, mut actions) = (vec![], vec![]);
    loop {
        let fails = |p: &&stateright::Property<World<D, C>>| {
            p.expectation == Expectation::Always && !(p.condition)(world, &state)
        };
        if let Some(property) = properties.iter().find(fails) {
            return Err(Defect { wrong: property.name, path });
        }
        if path.len() == STEPS {
            return Err(Defect { wrong: "no end", path });
        }
        actions.clear();
        world.actions(&state, &mut actions);
        let next = loop {
            let Some(action) = pick(&mut prng, &mut actions, weight) else { break None };
            if let Some(next) = world.next_state(&state, action) {
                path.push(action);
                break Some(next);
            }
        };
        match next {
            Some(next) => state = next,
            None if world.is_done(&state) => return Ok(()),
            None => return Err(Defect { wrong: "stuck", path }),
        }
    }
}

/// Removes one of the actions, at random with these weights, and returns it.
fn pick(
    prng: &mut Prng,
    actions: &mut Vec<Action>,
    weight: impl Fn(&Action) -> u64,
) -> Option<Action> {
    let total = actions.iter().map(&weight).sum::<u64>();
    let mut rest = if total > 0 { prng.below(total) } else { return None };
    let at = actions.iter().position(|action| {
        let weight = weight(action);
        let found = rest < weight;
        rest = rest.saturating_sub(weight);
        found
    });
    at.map(|at| actions.swap_remove(at))
}

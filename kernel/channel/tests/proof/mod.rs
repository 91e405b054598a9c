//! Exhaustive models of several tables and their links, random histories, and mutants that they
//! must find.

mod actions;
mod calls;
mod checks;
mod direct;
#[path = "../../../dsm/src/proof/graph.rs"]
mod graph;
mod histories;
mod hostile;
mod models;
mod mutants;
mod world;

use crate::channels::Effects;
use crate::name::EndId;
pub use mutants::Mutant;

/// Nothing follows from a call.
pub struct Nothing;

impl<B> Effects<B> for Nothing {
    fn wake(&mut self, _: EndId) {}
    fn arrived(&mut self, _: u64, _: EndId) {}
    fn free(&mut self, _: B) {}
}

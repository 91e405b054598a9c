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

pub use mutants::Mutant;

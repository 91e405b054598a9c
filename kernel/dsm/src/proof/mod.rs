//! The proofs: exhaustive models of the machine, and mutants that they find.

mod checks;
mod graph;
mod litmus;
mod model;
mod node;
mod program;

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Written pages are handed over without cleaning.
    NoClean,
    /// Lines stay behind in the cache of who gave the page up.
    NoInvalidate,
    /// Pages can be taken before the instruction has used them.
    NoPin,
    /// Odd domains take the upper page first when an access crosses.
    Descending,
    /// A writer does not wait for readers.
    ForgetReaders,
}

//! The proofs: exhaustive models of the machine, and mutants that they find.

mod first;
mod graph;
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
    /// An access that crosses takes the upper page first.
    Descending,
    /// A writer does not wait for readers.
    ForgetReaders,
}

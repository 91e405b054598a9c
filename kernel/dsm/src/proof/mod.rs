//! Exhaustive models of the state machine, and mutants that they must find.

mod checks;
mod graph;
mod handover;
mod hang;
mod litmus;
mod losses;
mod model;
mod node;
mod program;
mod steps;
mod walks;

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Written pages are handed over without being cleaned.
    NoClean,
    /// Lines stay in the cache of the domain that gave up the page.
    NoInvalidate,
    /// Pages can be taken before the instruction has used them.
    NoPin,
    /// Odd domains request the upper page first when an access crosses.
    Descending,
    /// A writer does not wait for readers to give up the page.
    ForgetReaders,
    /// A core whose access is complete keeps the weaker TLB entry on which it faulted.
    KeepEntry,
    /// A domain takes the blame for a page that it has pinned while it waits for another domain.
    BlamePins,
}

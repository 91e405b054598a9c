//! Several kernels of the DSM protocol over weak memory: its links and the pages are words whose
//! stores are delayed and reordered until a barrier. Death, restart, sleep and slow cores come from
//! one seed. Every value that a core reads is compared with the last one that any core stored.

mod kernel;
mod losses;
mod op;
mod world;

pub use world::{Tally, simulate};

/// A barrier of the wire that can be omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// Between a message (and cleaned memory) and the header that publishes it.
    Publish,
    /// Between the header and the loads of the message.
    Consume,
}

impl Break {
    /// All barriers, with their names on the command line.
    pub const ALL: [(&'static str, Break); 2] =
        [("dsm-publish-barrier", Break::Publish), ("dsm-consume-barrier", Break::Consume)];
}

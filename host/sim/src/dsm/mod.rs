//! N kernels of the DSM protocol over weak memory: its links and the pages themselves are words
//! whose stores linger and reorder until a barrier. Death, restart, sleep and slow cores from one
//! seed; every value that a core reads is compared with the last one that any core stored.

mod kernel;
mod world;

pub use world::{Tally, simulate};

/// A barrier of the wire that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// A message (and cleaned memory), and the header that publishes it.
    Publish,
    /// The header, and the loads of the message.
    Consume,
}

impl Break {
    /// Both, with their names on the command line.
    pub const ALL: [(&'static str, Break); 2] =
        [("dsm-publish-barrier", Break::Publish), ("dsm-consume-barrier", Break::Consume)];
}

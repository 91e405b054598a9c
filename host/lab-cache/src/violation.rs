//! The contents of a report.

use crate::party::{Party, Site};

/// A kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The newest value may still be only in another domain's cache.
    MissingClean,
    /// The reader may see an old copy of its own.
    MissingInvalidate,
    /// A write is lost, or may be overwritten by older data.
    LostUpdate,
    /// Two domains have changed one line: one write-back would overwrite the other.
    TwoDirty,
    /// Instructions that may not have been cleaned to memory are fetched.
    FetchUncleaned,
    /// An atomic without effect on the other domain, whose cache does not take part.
    SharedAtomic,
    /// A store that another domain may see torn.
    WideStore,
    /// An uncached access to a line that a cache has changed.
    UncachedAlias,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 8] = [
        Kind::MissingClean,
        Kind::MissingInvalidate,
        Kind::LostUpdate,
        Kind::TwoDirty,
        Kind::FetchUncleaned,
        Kind::SharedAtomic,
        Kind::WideStore,
        Kind::UncachedAlias,
    ];

    /// Returns a description.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::MissingClean => "missing clean",
            Kind::MissingInvalidate => "missing invalidate",
            Kind::LostUpdate => "lost update",
            Kind::TwoDirty => "two dirty copies",
            Kind::FetchUncleaned => "fetch of uncleaned code",
            Kind::SharedAtomic => "atomic on a shared line",
            Kind::WideStore => "wide store to a shared line",
            Kind::UncachedAlias => "uncached access to a dirty line",
        }
    }
}

/// Cache maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Write changes back (DC CVAC, cbo.clean).
    Clean,
    /// Drop the copy (DC IVAC, cbo.inval).
    Invalidate,
}

impl Operation {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Clean => "clean",
            Operation::Invalidate => "invalidate",
        }
    }
}

/// The maintenance that would have made the access correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The party that should have done it.
    pub by: Party,
    /// The operation, before the reported access.
    pub operation: Operation,
}

/// How memory was accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A load through the cache.
    Read,
    /// A store through the cache.
    Write,
    /// An instruction fetch.
    Fetch,
    /// An uncached load.
    UncachedRead,
    /// An uncached store.
    UncachedWrite,
    /// A device read memory.
    DeviceRead,
    /// A device wrote memory.
    DeviceWrite,
    /// An exclusive, a read-modify-write, or a store of more than 64 bits.
    Atomic,
}

impl Event {
    /// Returns a verb for messages.
    pub const fn verb(self) -> &'static str {
        match self {
            Event::Read => "reads",
            Event::Write => "writes",
            Event::Fetch => "fetches code from",
            Event::UncachedRead => "reads, uncached,",
            Event::UncachedWrite => "writes, uncached,",
            Event::DeviceRead => "read",
            Event::DeviceWrite => "write",
            Event::Atomic => "changes atomically",
        }
    }
}

/// An access that is wrong for some choice of the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong.
    pub kind: Kind,
    /// Physical address of the line.
    pub line: u64,
    /// The kind of access.
    pub event: Event,
    /// The party and place of the access.
    pub access: Site,
    /// The other party: the dirty holder, the newest writer, or the other sharer.
    pub other: Party,
    /// The maintenance that would have made it correct; `None` for an atomic or a wide store.
    pub missing: Option<Missing>,
    /// The write of the newest value (the first in a series of writes by one domain).
    pub writer: Option<Site>,
    /// The read that last brought the line into a cache.
    pub reader: Option<Site>,
}

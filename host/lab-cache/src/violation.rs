//! What a report says.

use crate::party::{Party, Site};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The newest value may still be in another's cache only.
    MissingClean,
    /// The reader may see an old copy of its own.
    MissingInvalidate,
    /// A write is lost, or may be overwritten by older data.
    LostUpdate,
    /// Two domains have changed one line: one write-back overwrites the other.
    TwoDirty,
    /// Instructions may be fetched that were not cleaned to memory.
    FetchUncleaned,
    /// An atomic that is none: the other domain's cache does not take part.
    SharedAtomic,
    /// A store that another domain may see half of.
    WideStore,
    /// An access past the caches to a line that a cache has changed.
    UncachedAlias,
}

impl Kind {
    /// All of them.
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

    /// In words.
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
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Clean => "clean",
            Operation::Invalidate => "invalidate",
        }
    }
}

/// What would have made it right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Who should have done it.
    pub by: Party,
    /// What, before the reported access.
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
    /// A load past the cache.
    UncachedRead,
    /// A store past the cache.
    UncachedWrite,
    /// A device read memory.
    DeviceRead,
    /// A device wrote memory.
    DeviceWrite,
    /// An exclusive, a read-modify-write, or a store of more than 64 bits.
    Atomic,
}

impl Event {
    /// In words.
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

/// An access that is wrong under some choice of the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong.
    pub kind: Kind,
    /// Physical address of the line.
    pub line: u64,
    /// How it was accessed.
    pub event: Event,
    /// Who accessed it.
    pub access: Site,
    /// Who is at the other side: the dirty holder, the newest writer, the other sharer.
    pub other: Party,
    /// What would have made it right; nothing would for an atomic or a wide store.
    pub missing: Option<Missing>,
    /// The write that made the newest value (the first of a row of writes by one domain).
    pub writer: Option<Site>,
    /// The read that last brought the line into a cache.
    pub reader: Option<Site>,
}

//! The contents of a finding.

/// A core and an address of its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The core.
    pub core: usize,
    /// The instruction.
    pub pc: u64,
}

/// A kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An access succeeds only because the core has dropped an old entry.
    Lucky,
    /// An access is repeated after its fault, and the core may still hold the entry that caused it.
    Endless,
    /// Memory gets another use while a core may still access it through an old entry.
    EarlyReuse,
    /// An entry replaces a different one that a core may still hold (AArch64's break-before-make).
    NoBreak,
    /// A table is linked, and its entries may not be visible to walks yet.
    UnorderedTable,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] =
        [Kind::Lucky, Kind::Endless, Kind::EarlyReuse, Kind::NoBreak, Kind::UnorderedTable];

    /// Returns a description.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Lucky => "stale translation",
            Kind::Endless => "endless fault",
            Kind::EarlyReuse => "memory reused while translated",
            Kind::NoBreak => "translation replaced without a break",
            Kind::UnorderedTable => "table linked before its entries",
        }
    }

    /// Returns what would have made it correct.
    pub const fn missing(self) -> &'static str {
        match self {
            Kind::UnorderedTable => "barrier",
            _ => "TLB invalidate",
        }
    }
}

/// An access or a store that is wrong for some choice of the TLBs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub kind: Kind,
    /// The access, or the store.
    pub at: Site,
    /// Virtual address of the old entry, or of the table's range.
    pub va: u64,
    /// Physical address of the access or the reused memory; of the table.
    pub pa: u64,
    /// The store that changed the entry.
    pub writer: Option<Site>,
}

/// Callback for findings.
pub type Report<'r> = &'r mut dyn FnMut(&Finding);

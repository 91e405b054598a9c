//! The state of one line, in one word, and how events change it. Rules only: no memory, no pcs.
//!
//! ```text
//!     42       41         40      39..36   35..32   31..24   23..16   15..8    7..0
//!   saved | unified | discarded | reader | writer | polled | held   | stale  | dirty
//! ```
//! The low fields are sets of domains. `writer` wrote the newest value, `reader` last brought the
//! line into its cache. `discarded`: the newest value was invalidated before it was cleaned.
//! `unified`: the writes of the one dirty domain are visible to its own instruction fetches.
//! `saved`: the caller keeps a copy of what the writer last cleaned to memory. Invariants: dirty
//! and stale lines are held; a line with a dirty domain is not discarded.

use crate::party::{Domain, Party};
use crate::violation::{Kind, Missing, Operation};

const SET: u64 = 0xff;
const STALE: u32 = 8;
const HELD: u32 = 16;
const POLLED: u32 = 24;
const WRITER: u32 = 32;
const READER: u32 = 36;
const CODE: u64 = 0xf;
const DISCARDED: u64 = 1 << 40;
const UNIFIED: u64 = 1 << 41;
const SAVED: u64 = 1 << 42;

/// The state of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line(pub u64);

/// Why an access is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub kind: Kind,
    /// The other party involved.
    pub other: Party,
    /// The maintenance that would have made it correct.
    pub missing: Option<Missing>,
}

impl Fault {
    fn new(kind: Kind, other: Party, by: Party, operation: Operation) -> Fault {
        Fault { kind, other, missing: Some(Missing { by, operation }) }
    }

    fn uncleaned(kind: Kind, holder: Party) -> Fault {
        Fault::new(kind, holder, holder, Operation::Clean)
    }
}

impl Line {
    /// Returns the domains that may be dirty.
    pub fn dirty(self) -> u64 {
        self.0 & SET
    }

    /// Returns the domains whose copy may be old.
    pub fn stale(self) -> u64 {
        self.0 >> STALE & SET
    }

    /// Returns the domains that may hold a copy.
    pub fn held(self) -> u64 {
        self.0 >> HELD & SET
    }

    /// Returns the domains that have accessed it bypassing their cache.
    pub fn polled(self) -> u64 {
        self.0 >> POLLED & SET
    }

    /// Returns the writer of the newest value.
    pub fn writer(self) -> Option<Party> {
        Party::from_code(self.0 >> WRITER & CODE)
    }

    /// Returns the party that last brought it into a cache.
    pub fn reader(self) -> Option<Party> {
        Party::from_code(self.0 >> READER & CODE)
    }

    fn is_discarded(self) -> bool {
        self.0 & DISCARDED != 0
    }

    /// Returns the line as if the domains of `set` had never held it.
    pub fn without(self, set: u64) -> Line {
        Line(self.0 & !(set | set << STALE | set << HELD | set << POLLED))
    }

    /// Returns whether the caller keeps a copy of what the writer last cleaned to memory.
    pub fn is_saved(self) -> bool {
        self.0 & SAVED != 0
    }

    /// Sets whether the caller keeps such a copy.
    pub fn saved(self, saved: bool) -> Line {
        Line(if saved { self.0 | SAVED } else { self.0 & !SAVED })
    }

    fn written_by(self, party: Party) -> Line {
        // A copy saved by one writer is not what memory held before another one wrote.
        let outdated = if self.writer() == Some(party) { 0 } else { SAVED };
        let gone = CODE << WRITER | DISCARDED | UNIFIED | outdated;
        Line(self.0 & !gone | party.code() << WRITER)
    }

    fn make_stale(self, set: u64) -> Line {
        Line(self.0 | (set & self.held()) << STALE)
    }

    /// Returns whether a read is correct and changes no state.
    #[inline]
    pub fn read_is_settled(self, domain: Domain) -> bool {
        let own = domain.bit();
        let care = (SET & !own) | own << STALE | own << HELD | DISCARDED;
        self.0 & care == own << HELD
    }

    /// Returns the same for a write.
    #[inline]
    pub fn write_is_settled(self, domain: Domain) -> bool {
        let own = domain.bit();
        self.0 & (SET | own << STALE | UNIFIED) == own
    }

    /// Returns whether no other domain can see a torn store of more than 64 bits through the cache.
    #[inline]
    pub fn is_unpolled(self, domain: Domain) -> bool {
        self.polled() & !domain.bit() == 0
    }

    /// Returns whether no other party has a part in the line.
    #[inline]
    pub fn is_alone(self, domain: Domain) -> bool {
        (self.held() | self.polled()) & !domain.bit() == 0
    }

    /// Returns whether a device's read is correct; it never changes the state.
    #[inline]
    pub fn device_read_is_settled(self) -> bool {
        self.0 & (SET | DISCARDED) == 0
    }

    /// Returns the same for an instruction fetch.
    #[inline]
    pub fn fetch_is_settled(self, domain: Domain) -> bool {
        let own = domain.bit();
        self.0 & (SET | own << STALE | own << HELD | DISCARDED) == own << HELD
    }

    /// Returns the same for an uncached read.
    #[inline]
    pub fn uncached_read_is_settled(self, domain: Domain) -> bool {
        let own = domain.bit() << POLLED;
        self.0 & (SET | own | DISCARDED) == own
    }

    /// Returns the same for an uncached write.
    #[inline]
    pub fn uncached_write_is_settled(self, domain: Domain) -> bool {
        let own = domain.bit() << POLLED;
        let code = Party::from(domain).code() << WRITER;
        let fresh = self.held() & !self.stale();
        let care = SET | own | CODE << WRITER | DISCARDED | SAVED;
        self.0 & care == own | code && fresh == 0
    }

    /// Returns what is wrong with a cached read.
    pub fn fault_of_read(self, domain: Domain) -> Option<Fault> {
        if let Some(holder) = Party::first(self.dirty() & !domain.bit()) {
            return Some(Fault::uncleaned(Kind::MissingClean, holder));
        }
        self.fault_of_discard().or_else(|| self.fault_of_stale(Kind::MissingInvalidate, domain))
    }

    /// Returns what is wrong with a cached write.
    pub fn fault_of_write(self, domain: Domain) -> Option<Fault> {
        if let Some(holder) = Party::first(self.dirty() & !domain.bit()) {
            return Some(Fault::uncleaned(Kind::TwoDirty, holder));
        }
        self.fault_of_stale(Kind::LostUpdate, domain)
    }

    /// Returns what is wrong with an instruction fetch.
    pub fn fault_of_fetch(self, domain: Domain) -> Option<Fault> {
        let unified = self.0 & UNIFIED != 0 && self.dirty() == domain.bit();
        if let Some(holder) = Party::first(self.dirty()).filter(|_| !unified) {
            return Some(Fault::uncleaned(Kind::FetchUncleaned, holder));
        }
        self.fault_of_discard().or_else(|| self.fault_of_stale(Kind::MissingInvalidate, domain))
    }

    /// Returns what is wrong with reading memory itself.
    pub fn fault_of_memory_read(self, kind: Kind) -> Option<Fault> {
        let holder = Party::first(self.dirty());
        holder.map(|holder| Fault::uncleaned(kind, holder)).or_else(|| self.fault_of_discard())
    }

    /// Returns what is wrong with an uncached write.
    pub fn fault_of_uncached_write(self) -> Option<Fault> {
        Party::first(self.dirty()).map(|holder| Fault::uncleaned(Kind::UncachedAlias, holder))
    }

    /// Returns what is wrong with a device's write.
    pub fn fault_of_device_write(self) -> Option<Fault> {
        let holder = Party::first(self.dirty())?;
        Some(Fault::new(Kind::LostUpdate, holder, holder, Operation::Invalidate))
    }

    fn fault_of_stale(self, kind: Kind, domain: Domain) -> Option<Fault> {
        let own = Party::from(domain);
        let stale = self.stale() & domain.bit() != 0;
        stale.then(|| Fault::new(kind, self.writer().unwrap_or(own), own, Operation::Invalidate))
    }

    fn fault_of_discard(self) -> Option<Fault> {
        let writer = self.writer().filter(|_| self.is_discarded())?;
        Some(Fault::uncleaned(Kind::LostUpdate, writer))
    }

    /// Returns what is wrong with an exclusive or a read-modify-write.
    pub fn fault_of_atomic(self, domain: Domain) -> Option<Fault> {
        let other = Party::first((self.held() | self.polled()) & !domain.bit())?;
        Some(Fault { kind: Kind::SharedAtomic, other, missing: None })
    }

    /// Returns what is wrong with a store of more than 64 bits.
    pub fn fault_of_wide_store(self, domain: Domain, cached: bool) -> Option<Fault> {
        let others = if cached { self.polled() } else { self.polled() | self.held() };
        let other = Party::first(others & !domain.bit())?;
        Some(Fault { kind: Kind::WideStore, other, missing: None })
    }

    /// Returns the line after a cached read or a fetch: held, and stale if another domain has
    /// changes that memory lacks.
    pub fn after_read(self, domain: Domain) -> Line {
        let own = domain.bit();
        let held = Line(self.0 | own << HELD);
        let seen = Line(held.0 & !(CODE << READER) | Party::from(domain).code() << READER);
        if self.dirty() & !own != 0 { seen.make_stale(own) } else { seen }
    }

    /// Returns the line after a cached write: dirty, and all other copies are stale.
    pub fn after_write(self, domain: Domain) -> Line {
        let own = domain.bit();
        let dirty = Line(self.0 | own | own << HELD).written_by(domain.into());
        let lacks = if self.dirty() & !own != 0 { SET } else { SET & !own };
        dirty.make_stale(lacks)
    }

    /// Returns the line after an uncached read.
    pub fn after_uncached_read(self, domain: Domain) -> Line {
        Line(self.0 | domain.bit() << POLLED)
    }

    /// Returns the line after an uncached write: all copies are stale, the domain's own included.
    pub fn after_uncached_write(self, domain: Domain) -> Line {
        let polled = self.after_uncached_read(domain);
        // Memory no longer holds what was last cleaned to it.
        polled.written_by(domain.into()).saved(false).make_stale(SET)
    }

    /// Returns the line after a device's write: all copies are stale.
    pub fn after_device_write(self) -> Line {
        self.written_by(Party::DEVICES).saved(false).make_stale(SET)
    }

    /// Returns the line after a clean. Writing back an old copy makes it the newest value, unless
    /// another domain's write is still dirty.
    pub fn after_clean(self, domain: Domain) -> Line {
        let own = domain.bit();
        if self.dirty() & own == 0 {
            return self;
        }
        let clean = Line(self.0 & !own);
        if self.stale() & own == 0 || clean.dirty() != 0 {
            return clean;
        }
        Line(clean.0 & !(own << STALE)).make_stale(SET & !own)
    }

    /// Returns the line after the domain has made its changes visible to its own instruction
    /// fetches.
    pub fn after_unify(self, domain: Domain) -> Line {
        if self.dirty() == domain.bit() { Line(self.0 | UNIFIED) } else { self }
    }

    /// Returns the line after the domain has lost its power: its part is gone, and so are changes
    /// that only it had, unless the caller restores a saved copy.
    pub fn after_loss(self, domain: Domain) -> Line {
        if self.dirty() & domain.bit() == 0 {
            return self.without(domain.bit());
        }
        let line = self.after_invalidate(domain);
        if self.is_saved() { Line(line.0 & !DISCARDED) } else { line }
    }

    /// Returns the line after a cold boot of the domain: values that it lost or cleaned before are
    /// not expected any more.
    pub fn after_boot(self, domain: Domain) -> Line {
        let line = self.without(domain.bit());
        let own = self.writer() == Some(domain.into());
        if own { Line(line.0 & !(DISCARDED | SAVED)) } else { line }
    }

    /// Returns the line after an invalidate: the domain has no part in it any more.
    pub fn after_invalidate(self, domain: Domain) -> Line {
        let own = domain.bit();
        let loses = self.dirty() == own && self.stale() & own == 0;
        let line = self.without(own);
        if loses { Line(line.0 | DISCARDED) } else { line }
    }
}

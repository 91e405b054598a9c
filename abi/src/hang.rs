//! Waits for another domain that take too long: how a kernel reports them to the soc, and how the
//! soc asks kernels whether they are to blame. `docs/design/hangs.md` describes the procedure.
//!
//! A report is three words for each core ([`Wait`]). A demand is one word for each domain in the
//! chip page, its answer one word in the domain's page.

/// A wait is reported when it has lasted this long, in ns of the waiting domain's clock.
pub const REPORT_NS: u64 = 20_000_000;

/// What a core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// A page of the shared block. The number of its pages: this domain's leaving.
    Page(u32),
    /// A lock between domains.
    Lock(u8),
}

/// A core's report. Words are written in this order, each before the next.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The locks between domains that the core has, one bit each.
    pub locks: u64,
    /// Incremented from time to time while the core waits.
    pub beat: u64,
    /// [`pack_wait`]; 0: the core does not wait.
    pub what: u64,
}

const PAGE: u64 = 1;
const LOCK: u64 = 2;

const fn pack_item(item: Item) -> u64 {
    match item {
        Item::Page(page) => PAGE << 24 | page as u64 & 0xff_ffff,
        Item::Lock(lock) => LOCK << 24 | lock as u64,
    }
}

const fn unpack_item(word: u64) -> Option<Item> {
    let number = word & 0xff_ffff;
    match word >> 24 & 0xff {
        PAGE => Some(Item::Page(number as u32)),
        LOCK if number < 0x100 => Some(Item::Lock(number as u8)),
        _ => None,
    }
}

/// Packs a report: the `number`th of this core, about `item`, and for a page the domain that holds
/// it up as far as the reporting domain knows (possibly itself). Never 0.
pub const fn pack_wait(number: u32, item: Item, suspect: u8) -> u64 {
    (number as u64) << 40 | (suspect as u64) << 32 | pack_item(item)
}

/// Undoes [`pack_wait`], except for the number: the item, and the suspect.
pub const fn unpack_wait(word: u64) -> Option<(Item, u8)> {
    match unpack_item(word) {
        Some(item) => Some((item, (word >> 32) as u8)),
        None => None,
    }
}

/// Packs a demand: the `number`th to this domain. For a page: which domain holds it up? For a lock:
/// abandon the step that has it.
pub const fn pack_demand(number: u32, item: Item) -> u64 {
    (number as u64) << 32 | pack_item(item)
}

/// Undoes [`pack_demand`].
pub const fn unpack_demand(word: u64) -> Option<(u32, Item)> {
    match unpack_item(word) {
        Some(item) => Some(((word >> 32) as u32, item)),
        None => None,
    }
}

/// The domain that holds up a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// None, as far as this domain knows.
    Nothing,
    /// This domain.
    Here,
    /// Another domain.
    Peer(u8),
}

/// Packs the answer to the demand `number`.
pub const fn pack_answer(number: u32, blame: Blame) -> u64 {
    let blame = match blame {
        Blame::Nothing => 0,
        Blame::Here => 1 << 8,
        Blame::Peer(domain) => 2 << 8 | domain as u64,
    };
    (number as u64) << 32 | blame
}

/// Undoes [`pack_answer`].
pub const fn unpack_answer(word: u64) -> (u32, Blame) {
    let blame = match word >> 8 & 0xff {
        1 => Blame::Here,
        2 => Blame::Peer(word as u8),
        _ => Blame::Nothing,
    };
    ((word >> 32) as u32, blame)
}

const _: () = {
    let wait = pack_wait(0xff_ffff, Item::Page(0x1001), 7);
    assert!(matches!(unpack_wait(wait), Some((Item::Page(0x1001), 7))));
    assert!(matches!(unpack_demand(pack_demand(9, Item::Lock(31))), Some((9, Item::Lock(31)))));
    assert!(matches!(unpack_answer(pack_answer(3, Blame::Peer(5))), (3, Blame::Peer(5))));
    assert!(unpack_wait(0).is_none());
};

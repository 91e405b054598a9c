//! The page table of the protocol: a few bits per page, packed.
//!
//! | | two-state | three-state |
//! | --- | --- | --- |
//! | bits per page | 3 (up to 4 domains), 4 (up to 8) | 4 + domains |
//! | this domain's hold | None, Read, Write, Device | the same |
//! | directory, at the home | the owner | one bit per holder, and whether the holder may write |
//!
//! In the two-state protocol the code *is* either this domain's hold or, at the home, the other
//! owner. "This domain is the owner but holds nothing" needs no code of its own: the value is in
//! memory, as with no owner.

use base::id::DomainId;

use crate::config::Config;
use crate::types::{DomainSet, Hold, Page, Protocol};

/// Storage for the words: a static slice in a kernel, an array in a test.
pub trait Store: AsRef<[u64]> + AsMut<[u64]> {}
impl<T: AsRef<[u64]> + AsMut<[u64]>> Store for T {}

/// The unpacked state of one page. Only the home maintains all fields but `hold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// This domain's rights.
    pub hold: Hold,
    /// All domains with rights to the page.
    pub holders: DomainSet,
    /// The only holder may have written the page.
    pub exclusive: bool,
    /// The contents died with the owner.
    pub lost: bool,
}

impl Entry {
    /// No domain holds the page, and memory is up to date.
    pub const FREE: Entry =
        Entry { hold: Hold::None, holders: DomainSet::EMPTY, exclusive: false, lost: false };
}

/// A table of packed entries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table<T> {
    words: T,
    protocol: Protocol,
    me: DomainId,
    bits: u8,
    /// Pages per word; `mask` covers one page.
    per_word: u32,
    mask: u64,
    pages: u32,
    /// A word of free pages.
    free: u64,
}

/// Returns the number of bits per page.
pub const fn bits(protocol: Protocol, domains: u8) -> u8 {
    match protocol {
        Protocol::TwoState if domains <= 4 => 3,
        Protocol::TwoState => 4,
        Protocol::ThreeState => 4 + domains,
    }
}

/// Returns the number of words that a table needs.
pub const fn words(protocol: Protocol, domains: u8, pages: u32) -> usize {
    (pages as usize).div_ceil(64 / bits(protocol, domains) as usize)
}

/// Codes of the two-state table. Lower ones are this domain's hold; from [`OTHERS`] on, the other
/// owner.
const UNHELD: u64 = 3;
const LOST: u64 = 4;
const OTHERS: u64 = 5;

const fn hold_of(code: u64) -> Hold {
    match code & 3 {
        0 => Hold::None,
        1 => Hold::Read,
        2 => Hold::Write,
        _ => Hold::Device,
    }
}

impl<T: Store> Table<T> {
    /// Creates a table of free pages; `None` if there are too few words.
    pub fn new(words_of: T, config: &Config) -> Option<Table<T>> {
        let bits = bits(config.protocol, config.domains);
        let need = words(config.protocol, config.domains, config.pages);
        if words_of.as_ref().len() < need {
            return None;
        }
        let Config { protocol, me, pages, .. } = *config;
        let (per_word, mask) = (64 / u32::from(bits), (1 << bits) - 1);
        let mut table =
            Table { words: words_of, protocol, me, bits, per_word, mask, pages, free: 0 };
        let code = table.code_for(Entry::FREE);
        table.free = (0..per_word).fold(0, |word, at| word | code << (at * u32::from(bits)));
        table.words.as_mut()[..need].fill(table.free);
        Some(table)
    }

    /// Returns the first page from `from` on that is not [`Entry::FREE`]. Most pages are free: a
    /// domain that powers down looks at all of them several times.
    pub fn next_used(&self, from: Page) -> Option<Page> {
        let mut page = from;
        while page < self.pages {
            let (word, _) = self.place(page);
            if self.words.as_ref()[word] == self.free {
                page = (word as u32 + 1) * self.per_word;
            } else if self.code_of(page) != self.free & self.mask {
                return Some(page);
            } else {
                page += 1;
            }
        }
        None
    }

    /// Returns the pages from `base` on that are not [`Entry::FREE`], in order.
    pub fn used(&self, base: Page) -> impl Iterator<Item = Page> {
        let next = |page: &Page| self.next_used(page + 1);
        core::iter::successors(self.next_used(base), next)
    }

    /// Returns the number of pages in the region.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    fn place(&self, page: Page) -> (usize, u32) {
        ((page / self.per_word) as usize, page % self.per_word * u32::from(self.bits))
    }

    fn code_of(&self, page: Page) -> u64 {
        let (word, shift) = self.place(page);
        self.words.as_ref()[word] >> shift & self.mask
    }

    /// Returns this domain's rights to `page`, which must be below [`Table::pages`].
    #[inline]
    pub fn hold(&self, page: Page) -> Hold {
        match (self.protocol, self.code_of(page)) {
            (Protocol::ThreeState, code) => hold_of(code),
            (Protocol::TwoState, code @ 0..UNHELD) => hold_of(code + 1),
            (Protocol::TwoState, _) => Hold::None,
        }
    }

    /// Returns the entry of `page`, which must be below [`Table::pages`].
    pub fn get(&self, page: Page) -> Entry {
        let code = self.code_of(page);
        match self.protocol {
            Protocol::TwoState => self.decode_two_state(code),
            Protocol::ThreeState => Entry {
                hold: hold_of(code),
                exclusive: code & 4 != 0,
                lost: code & 8 != 0,
                holders: DomainSet((code >> 4) as u8),
            },
        }
    }

    /// Sets the entry of `page`, which must be below [`Table::pages`].
    pub fn set(&mut self, page: Page, entry: Entry) {
        let (word, shift) = self.place(page);
        let code = self.code_for(entry);
        let word = &mut self.words.as_mut()[word];
        *word = *word & !(self.mask << shift) | code << shift;
    }

    fn code_for(&self, entry: Entry) -> u64 {
        match self.protocol {
            Protocol::TwoState => self.two_state_code(entry),
            Protocol::ThreeState => {
                entry.hold as u64
                    | u64::from(entry.exclusive) << 2
                    | u64::from(entry.lost) << 3
                    | u64::from(entry.holders.0) << 4
            }
        }
    }

    /// Sets this domain's rights to `page`.
    pub fn set_hold(&mut self, page: Page, hold: Hold) {
        let entry = self.get(page);
        self.set(page, Entry { hold, ..entry });
    }

    fn decode_two_state(&self, code: u64) -> Entry {
        let one = |hold, domain| Entry {
            hold,
            holders: DomainSet::only(domain),
            exclusive: true,
            lost: false,
        };
        match code {
            0 => one(Hold::Read, self.me),
            1 => one(Hold::Write, self.me),
            2 => one(Hold::Device, self.me),
            UNHELD => Entry::FREE,
            LOST => Entry { lost: true, ..Entry::FREE },
            other => {
                let skipped = (other - OTHERS) as u8;
                let domain = skipped + u8::from(skipped >= self.me.0);
                one(Hold::None, DomainId(domain))
            }
        }
    }

    fn two_state_code(&self, entry: Entry) -> u64 {
        let other = entry.holders.without(self.me).iter().next();
        match (entry.hold, other) {
            (Hold::Read, _) => 0,
            (Hold::Write, _) => 1,
            (Hold::Device, _) => 2,
            (Hold::None, _) if entry.lost => LOST,
            (Hold::None, None) => UNHELD,
            (Hold::None, Some(domain)) => OTHERS + domain.0 as u64 - u64::from(domain > self.me),
        }
    }
}

//! The block table: which kernel has which block of the global region. The layout is in
//! `abi::memory`.
//!
//! ```text
//!            claim by k [v+1, LOCAL]                     change [v+1, kind]
//!   +------+ -----------------------> +------------+ ------------------> +----------------+
//!   | FREE |                          | LOCAL of k |                     | coherent, ...; |
//!   +------+ <----------------------- +------------+ <------------------ | owner k        |
//!      ^      release by k [v+1, FREE]       |                           +----------------+
//!      |                                     | k died                            | k died
//!      +---- recover by anyone [v+1, FREE] --+                  adopt by j [v+1, kind]: owner j
//! ```
//! Each kernel stores to its own page only. The word with the highest version `v` determines the
//! state of a block, so every change is **one store**: a kernel dies before it or after it, and
//! both are states of the diagram. Words carry their writer's epoch; a block whose epoch has ended
//! has no owner, and any survivor may record that.
//!
//! Simultaneous claims detect each other: a claim stores its word, executes a barrier and then
//! reads all other words. Of two claims that store the same version at least one sees the other,
//! and a claim that sees another withdraws by restoring its previous word. So a block never has two
//! owners, with or without a lock. The lock [`abi::memory::BLOCKS_LOCK`] ensures that
//! *one* of two claims succeeds: hold it across [`Blocks::claim`] and [`Blocks::recover`].
//!
//! Callers keep the order that [`crate::transfer`] defines: a block is mapped after it is claimed,
//! and is clean and unmapped on all cores before it is released. `host/sim/tests/model_blocks.rs`
//! model-checks this protocol.

use abi::boot::MAX_DOMAINS;
use abi::memory::{BlockPage, LAST_VERSION, MAX_BLOCKS, block, pack_block, unpack_block};
use base::id::{DomainId, Epoch};
use base::port::Words;

/// The use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Cacheable memory of one kernel.
    Local,
    /// Shared through the coherence protocol.
    Coherent,
    /// Uncached in every kernel that maps it.
    Uncached,
    /// Used by a device.
    Device,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Kind::Local => block::LOCAL,
            Kind::Coherent => block::COHERENT,
            Kind::Uncached => block::UNCACHED,
            Kind::Device => block::DEVICE,
        }
    }

    fn from_code(code: u8) -> Option<Kind> {
        let all = [Kind::Local, Kind::Coherent, Kind::Uncached, Kind::Device];
        all.into_iter().find(|kind| kind.code() == code)
    }
}

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Free,
    /// Owned by a kernel, for itself or on behalf of all kernels that share the block.
    Held(DomainId, Kind),
    /// The owner is dead: [`Blocks::recover`] ends this state.
    Orphan(DomainId, Kind),
    /// Two claims have met. The block is taken; the owner will be known in a moment.
    Contended,
    /// The words are invalid: a writer broke the protocol. No kernel uses the block again.
    Broken,
}

/// Why a block was not claimed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimError {
    /// It is not free.
    Taken,
    /// Another claim happened at the same time; try again.
    Contended,
    /// There is no such block, or its versions are used up.
    NoSuchBlock,
}

/// The block does not belong to this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NotMine;

/// The result of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recovered {
    /// The block is not an orphan.
    Nothing,
    /// The block is free now.
    Freed,
    /// This kernel is its owner now.
    Adopted,
    /// Another kernel is recovering it; look again.
    Contended,
}

/// Which epochs have ended.
pub trait Lives {
    /// Returns the lowest epoch of `domain` that may still run: all earlier ones have been fenced,
    /// so that no store of theirs can follow. Never decreases.
    fn floor(&self, domain: DomainId) -> u32;
}

/// An end of the global region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Lowest blocks first.
    Low,
    /// Highest blocks first.
    High,
}

impl End {
    pub const fn other(self) -> End {
        match self {
            End::Low => End::High,
            End::High => End::Low,
        }
    }
}

/// One kernel's view of the table. Copies are equivalent: all state is in the words.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<W> {
    words: W,
    me: DomainId,
    epoch: Epoch,
    domains: usize,
    count: usize,
}

/// The words of one block, indexed by domain.
type Row = [u64; MAX_DOMAINS];

impl<W: Words> Blocks<W> {
    /// Creates the view of domain `me` in `epoch` on `words`, the whole table of a chip with
    /// `domains` domains and `count` blocks.
    pub fn new(words: W, me: DomainId, epoch: Epoch, domains: usize, count: usize) -> Self {
        let (domains, count) = (domains.min(MAX_DOMAINS), count.min(MAX_BLOCKS));
        Blocks { words, me, epoch, domains, count }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the kind of block `index` if it is this kernel's. Only this kernel changes that.
    pub fn mine(&self, index: usize) -> Option<Kind> {
        if index >= self.count {
            return None;
        }
        let (_, epoch, code) = unpack_block(self.words.load(word(self.me, index)));
        Kind::from_code(code).filter(|_| epoch == self.epoch.0)
    }

    /// Returns the state of a block. Unless the block is this kernel's, it may change at any time.
    pub fn state(&self, index: usize, lives: &impl Lives) -> State {
        let floors = self.floors(lives);
        self.state_of(&self.row(index), &floors)
    }

    /// Returns the free block nearest to `end` at this moment.
    pub fn find_free(&self, end: End) -> Option<usize> {
        let free = |index: &usize| free_version(&self.row(*index)).is_some();
        match end {
            End::Low => (0..self.count).find(free),
            End::High => (0..self.count).rev().find(free),
        }
    }

    /// Claims a free block. After success, all accesses of this kernel to the block are ordered
    /// after those of its previous owner.
    pub fn claim(&self, index: usize, kind: Kind) -> Result<(), ClaimError> {
        if index >= self.count {
            return Err(ClaimError::NoSuchBlock);
        }
        let row = self.row(index);
        let version = free_version(&row).ok_or(ClaimError::Taken)?;
        self.store_claim(index, &row, version, kind)
    }

    /// Stores this kernel's word with the version after `version`, and restores the old word if
    /// another kernel did the same.
    fn store_claim(
        &self,
        index: usize,
        row: &Row,
        version: u64,
        kind: Kind,
    ) -> Result<(), ClaimError> {
        if version == LAST_VERSION {
            return Err(ClaimError::NoSuchBlock);
        }
        let at = word(self.me, index);
        self.words.store(at, pack_block(version + 1, self.epoch.0, kind.code()));
        // Orders the store before the loads: of two claims at least one sees the other.
        self.words.barrier();
        let met = self.others().any(|domain| {
            let (theirs, _, _) = unpack_block(self.words.load(word(domain, index)));
            theirs > version
        });
        if met {
            self.words.store(at, row[self.me.index()]);
        }
        // Orders those loads before any access to the block.
        self.words.barrier();
        if met { Err(ClaimError::Contended) } else { Ok(()) }
    }

    /// Releases a block of this kernel. It must be neither mapped nor cached in this domain.
    pub fn release(&self, index: usize) -> Result<(), NotMine> {
        self.rewrite(index, block::FREE)
    }

    /// Changes the kind of a block of this kernel. It must be clean, and have no mapping that the
    /// new kind forbids.
    pub fn change(&self, index: usize, kind: Kind) -> Result<(), NotMine> {
        self.rewrite(index, kind.code())
    }

    fn rewrite(&self, index: usize, code: u8) -> Result<(), NotMine> {
        self.mine(index).ok_or(NotMine)?;
        let at = word(self.me, index);
        let (version, _, _) = unpack_block(self.words.load(at));
        // Orders all accesses to the block before the store that hands it on.
        self.words.barrier();
        self.words.store(at, pack_block(version + 1, self.epoch.0, code));
        self.words.barrier();
        Ok(())
    }

    /// Frees an orphan, or makes this kernel its owner if other kernels may share it.
    pub fn recover(&self, index: usize, lives: &impl Lives) -> Recovered {
        if index >= self.count {
            return Recovered::Nothing;
        }
        let floors = self.floors(lives);
        let row = self.row(index);
        let version = row.iter().map(|&word| unpack_block(word).0).max().unwrap_or(0);
        match self.state_of(&row, &floors) {
            State::Orphan(_, Kind::Local) if version < LAST_VERSION => {
                // Several survivors may store this; they all store the same state.
                let word_free = pack_block(version + 1, self.epoch.0, block::FREE);
                self.words.store(word(self.me, index), word_free);
                self.words.barrier();
                Recovered::Freed
            }
            State::Orphan(_, kind) => match self.store_claim(index, &row, version, kind) {
                Ok(()) => Recovered::Adopted,
                Err(_) => Recovered::Contended,
            },
            State::Contended => Recovered::Contended,
            State::Free | State::Held(..) | State::Broken => Recovered::Nothing,
        }
    }

    fn others(&self) -> impl Iterator<Item = DomainId> + use<W> {
        let me = self.me;
        (0..self.domains).map(|index| DomainId(index as u8)).filter(move |&domain| domain != me)
    }

    fn row(&self, index: usize) -> Row {
        let mut row = [0; MAX_DOMAINS];
        for (domain, slot) in row[..self.domains].iter_mut().enumerate() {
            *slot = self.words.load(word(DomainId(domain as u8), index));
        }
        row
    }

    /// Reads the epochs that may still run. The barriers ensure that a death known to the caller is
    /// visible here, and that words loaded later are the last words of the dead.
    fn floors(&self, lives: &impl Lives) -> [u32; MAX_DOMAINS] {
        self.words.barrier();
        let mut floors = [0; MAX_DOMAINS];
        for (domain, slot) in floors[..self.domains].iter_mut().enumerate() {
            *slot = lives.floor(DomainId(domain as u8));
        }
        self.words.barrier();
        floors
    }

    fn state_of(&self, row: &Row, floors: &[u32; MAX_DOMAINS]) -> State {
        if free_version(row).is_some() {
            return State::Free;
        }
        let top = row.iter().map(|&word| unpack_block(word).0).max().unwrap_or(0);
        let mut state = None;
        for (domain, &word) in row.iter().enumerate() {
            let (version, epoch, code) = unpack_block(word);
            if version != top {
                continue;
            }
            let Some(kind) = Kind::from_code(code) else { return State::Broken };
            let id = DomainId(domain as u8);
            let over = u32::from(epoch) < floors[domain];
            state = Some(match (state, over) {
                (None, true) => State::Orphan(id, kind),
                // A dead claimant has either lost to the living one or owned the block before it.
                (None | Some(State::Orphan(..)), false) => State::Held(id, kind),
                (Some(before), true) => before,
                (Some(_), false) => State::Contended,
            });
        }
        state.unwrap_or(State::Free)
    }
}

/// Returns the offset of the word of `index` in the page of `domain`.
const fn word(domain: DomainId, index: usize) -> usize {
    domain.index() * size_of::<BlockPage>() + index * 8
}

/// Returns the highest version if all words of that version say that the block is free.
fn free_version(row: &Row) -> Option<u64> {
    let top = row.iter().map(|&word| unpack_block(word).0).max().unwrap_or(0);
    let free = |&word: &u64| unpack_block(word).2 == block::FREE;
    row.iter().filter(|&&word| unpack_block(word).0 == top).all(free).then_some(top)
}

#[cfg(test)]
mod tests;

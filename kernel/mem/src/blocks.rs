//! The block table: who has which block of the global region (`abi::memory`).
//!
//! ```text
//!            claim by k [v+1, LOCAL]                     change [v+1, kind]
//!   +------+ -----------------------> +------------+ ------------------> +----------------+
//!   | FREE |                          | LOCAL of k |                     | coherent, ...; |
//!   +------+ <----------------------- +------------+ <------------------ | keeper k       |
//!      ^      release by k [v+1, FREE]       |                           +----------------+
//!      |                                     | k is over                         | k is over
//!      +---- recover by anybody [v+1, FREE] -+                  adopt by j [v+1, kind]: keeper j
//! ```
//! Each kernel stores into its own page only. What holds for a block is its word of the highest
//! version `v`, so that every change is **one store**: whoever dies, dies before it or after it,
//! and both are states of the diagram. Words carry their writer's epoch; what belongs to an epoch
//! that is over belongs to nobody, and any survivor may say so.
//!
//! Two claims at once are found out by themselves: a claim stores its word, and behind a barrier
//! looks at all others; of two that store the same version at least one sees the other, and who
//! sees another withdraws (its page says again what it said before). So no block ever has two
//! owners, with or without a lock. That of two claims *one* succeeds is what the hardware spinlock
//! [`abi::memory::BLOCKS_LOCK`] is for: hold it across [`Blocks::claim`] and [`Blocks::recover`].
//!
//! Callers keep this order, which [`crate::transfer`] walks through: a block is mapped after its
//! claim; it is clean and unmapped everywhere in the domain before its release. Model-checked in
//! `host/sim/tests/model_blocks.rs`.

use abi::boot::MAX_DOMAINS;
use abi::memory::{BlockPage, LAST_VERSION, MAX_BLOCKS, block, pack_block, unpack_block};
use base::id::{DomainId, Epoch};
use base::port::Words;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Cacheable in one kernel.
    Local,
    /// Shared by the DSM.
    Coherent,
    /// Uncached wherever it is mapped.
    Uncached,
    /// A device's.
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

/// What holds for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nobody's.
    Free,
    /// A kernel has it, or keeps it for all who share it.
    Held(DomainId, Kind),
    /// The same of a kernel that is over: [`Blocks::recover`] ends this.
    Orphan(DomainId, Kind),
    /// Two claims meet; it is taken, and one moment later it is known by whom.
    Contended,
    /// The words make no sense: a writer broke the protocol. Nobody touches the block again.
    Broken,
}

/// Why a block was not claimed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimError {
    /// It is not free.
    Taken,
    /// Another claim met this one; try again.
    Contended,
    /// There is no such block, or its versions are used up.
    NoSuchBlock,
}

/// The block is not this kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NotMine;

/// What a recovery found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recovered {
    /// No orphan.
    Nothing,
    /// It is free now.
    Freed,
    /// This kernel is its keeper now.
    Adopted,
    /// Somebody else is at it; look again.
    Contended,
}

/// Which kernels are over.
pub trait Lives {
    /// All epochs of `domain` below this one are over: they are fenced, no store of theirs comes
    /// any more. Never goes down.
    fn floor(&self, domain: DomainId) -> u32;
}

/// From which end of the global region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The lowest block first.
    Low,
    /// The highest block first.
    High,
}

impl End {
    /// The other one.
    pub const fn other(self) -> End {
        match self {
            End::Low => End::High,
            End::High => End::Low,
        }
    }
}

/// One kernel's view of the table, which may be copied: all of its state is in the words.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<W> {
    words: W,
    me: DomainId,
    epoch: Epoch,
    domains: usize,
    count: usize,
}

/// The words of one block, by domain.
type Row = [u64; MAX_DOMAINS];

impl<W: Words> Blocks<W> {
    /// Over `words`, the whole table; for the kernel of domain `me` in `epoch`, on a chip of
    /// `domains` domains and `count` blocks.
    pub fn new(words: W, me: DomainId, epoch: Epoch, domains: usize, count: usize) -> Self {
        let (domains, count) = (domains.min(MAX_DOMAINS), count.min(MAX_BLOCKS));
        Blocks { words, me, epoch, domains, count }
    }

    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Is `index` this kernel's? Only this kernel can change the answer.
    pub fn mine(&self, index: usize) -> Option<Kind> {
        if index >= self.count {
            return None;
        }
        let (_, epoch, code) = unpack_block(self.words.load(word(self.me, index)));
        Kind::from_code(code).filter(|_| epoch == self.epoch.0)
    }

    /// What holds for a block. Unless it is this kernel's, it may change at any time.
    pub fn state(&self, index: usize, lives: &impl Lives) -> State {
        let floors = self.floors(lives);
        self.judge(&self.row(index), &floors)
    }

    /// The free block nearest to an end, as it looks now.
    pub fn find_free(&self, end: End) -> Option<usize> {
        let free = |index: &usize| free_version(&self.row(*index)).is_some();
        match end {
            End::Low => (0..self.count).find(free),
            End::High => (0..self.count).rev().find(free),
        }
    }

    /// Takes a free block. On success it is this kernel's, and what it does with the block from now
    /// on comes after everything that its last owner did.
    pub fn claim(&self, index: usize, kind: Kind) -> Result<(), ClaimError> {
        if index >= self.count {
            return Err(ClaimError::NoSuchBlock);
        }
        let row = self.row(index);
        let version = free_version(&row).ok_or(ClaimError::Taken)?;
        self.raise(index, &row, version, kind)
    }

    /// Stores this kernel's word with the version behind `version`, and takes it back when another
    /// has done so as well.
    fn raise(&self, index: usize, row: &Row, version: u64, kind: Kind) -> Result<(), ClaimError> {
        if version == LAST_VERSION {
            return Err(ClaimError::NoSuchBlock);
        }
        let at = word(self.me, index);
        self.words.store(at, pack_block(version + 1, self.epoch.0, kind.code()));
        // Our word before the look at theirs: of two that meet, one sees the other at least.
        self.words.barrier();
        let met = self.others().any(|domain| {
            let (theirs, _, _) = unpack_block(self.words.load(word(domain, index)));
            theirs > version
        });
        if met {
            self.words.store(at, row[self.me.index()]);
        }
        // That look before anything done with the block.
        self.words.barrier();
        if met { Err(ClaimError::Contended) } else { Ok(()) }
    }

    /// Gives a block of this kernel away. Nothing of it is mapped or dirty in this domain.
    pub fn release(&self, index: usize) -> Result<(), NotMine> {
        self.rewrite(index, block::FREE)
    }

    /// Makes a block of this kernel another kind. It is clean, and mapped in no way that the new
    /// kind forbids.
    pub fn change(&self, index: usize, kind: Kind) -> Result<(), NotMine> {
        self.rewrite(index, kind.code())
    }

    fn rewrite(&self, index: usize, code: u8) -> Result<(), NotMine> {
        self.mine(index).ok_or(NotMine)?;
        let at = word(self.me, index);
        let (version, _, _) = unpack_block(self.words.load(at));
        // What was done with the block before the word that hands it on.
        self.words.barrier();
        self.words.store(at, pack_block(version + 1, self.epoch.0, code));
        self.words.barrier();
        Ok(())
    }

    /// Makes an orphan free, or this kernel its keeper when others may share it.
    pub fn recover(&self, index: usize, lives: &impl Lives) -> Recovered {
        if index >= self.count {
            return Recovered::Nothing;
        }
        let floors = self.floors(lives);
        let row = self.row(index);
        let version = row.iter().map(|&word| unpack_block(word).0).max().unwrap_or(0);
        match self.judge(&row, &floors) {
            State::Orphan(_, Kind::Local) if version < LAST_VERSION => {
                // Any number of survivors may say so: they all say the same.
                let word_free = pack_block(version + 1, self.epoch.0, block::FREE);
                self.words.store(word(self.me, index), word_free);
                self.words.barrier();
                Recovered::Freed
            }
            State::Orphan(_, kind) => match self.raise(index, &row, version, kind) {
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

    /// Who is over. The barriers: whoever heard of a death sees it here, and the words that are
    /// loaded behind this are the last ones of those who are over.
    fn floors(&self, lives: &impl Lives) -> [u32; MAX_DOMAINS] {
        self.words.barrier();
        let mut floors = [0; MAX_DOMAINS];
        for (domain, slot) in floors[..self.domains].iter_mut().enumerate() {
            *slot = lives.floor(DomainId(domain as u8));
        }
        self.words.barrier();
        floors
    }

    fn judge(&self, row: &Row, floors: &[u32; MAX_DOMAINS]) -> State {
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
                // Who is over has either lost to the living, or had it before.
                (None | Some(State::Orphan(..)), false) => State::Held(id, kind),
                (Some(before), true) => before,
                (Some(_), false) => State::Contended,
            });
        }
        state.unwrap_or(State::Free)
    }
}

/// Offset of the word of `index` in the page of `domain`.
const fn word(domain: DomainId, index: usize) -> usize {
    domain.index() * size_of::<BlockPage>() + index * 8
}

/// The highest version, when all who wrote it say that the block is free.
fn free_version(row: &Row) -> Option<u64> {
    let top = row.iter().map(|&word| unpack_block(word).0).max().unwrap_or(0);
    let free = |&word: &u64| unpack_block(word).2 == block::FREE;
    row.iter().filter(|&&word| unpack_block(word).0 == top).all(free).then_some(top)
}

#[cfg(test)]
mod tests;

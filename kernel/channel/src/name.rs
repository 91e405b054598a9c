//! Names: of kernels in one life, of channels and ends on all kernels, of ends on this kernel.

use abi::boot::MAX_DOMAINS;
pub use base::id::Life;
use base::id::{DomainId, Epoch};

/// A channel, on all kernels and for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelName {
    /// The kernel that created it.
    pub creator: Life,
    /// Rises with each channel of that life.
    pub number: u64,
    /// A random number: a kernel that never had the channel cannot name it, and a damaged word
    /// names no channel.
    pub secret: u64,
}

/// The two ends of a channel are equal but for what the contract says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    First,
    Second,
}

impl Side {
    pub const fn other(self) -> Side {
        match self {
            Side::First => Side::Second,
            Side::Second => Side::First,
        }
    }

    pub const fn index(self) -> usize {
        self as usize
    }
}

/// An end of a channel, on all kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndName {
    pub channel: ChannelName,
    pub side: Side,
}

impl EndName {
    pub const fn peer(self) -> EndName {
        EndName { channel: self.channel, side: self.side.other() }
    }
}

/// An end in the table of this kernel, as descriptors hold it. It means nothing any more when the
/// end has been closed or sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndId {
    pub(crate) index: u16,
    pub(crate) generation: u32,
}

impl EndId {
    /// Returns the slot, which no other end of this kernel has at the same time.
    pub const fn slot(self) -> usize {
        self.index as usize
    }

    /// Returns the name as a word below 2^48.
    pub const fn word(self) -> u64 {
        (self.generation as u64) << 16 | self.index as u64
    }

    /// Undoes [`EndId::word`]. A word that is none names no end.
    pub const fn of_word(word: u64) -> EndId {
        EndId { index: word as u16, generation: (word >> 16) as u32 }
    }
}

/// The contract of a channel, as all kernels name it: the hash of its automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContractId(pub [u64; 2]);

/// A set of kernels, each in one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Lives {
    /// 0: it is not in the set.
    epochs: [Epoch; MAX_DOMAINS],
    /// How many are in the set, which each message asks several sets.
    count: u8,
}

impl Lives {
    pub(crate) const NONE: Lives = Lives { epochs: [Epoch(0); MAX_DOMAINS], count: 0 };

    /// Makes a set of the epochs of all kernels.
    pub(crate) fn of_epochs(epochs: [Epoch; MAX_DOMAINS]) -> Lives {
        let count = epochs.iter().filter(|epoch| epoch.0 != 0).count() as u8;
        Lives { epochs, count }
    }

    /// Returns the epochs of all kernels, 0 for those that are not in the set.
    pub(crate) const fn epochs(&self) -> &[Epoch; MAX_DOMAINS] {
        &self.epochs
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn contains(&self, life: Life) -> bool {
        self.epochs.get(life.kernel.index()).is_some_and(|it| it.0 != 0 && *it == life.epoch)
    }

    pub(crate) fn add(&mut self, life: Life) {
        self.set(life.kernel, life.epoch);
    }

    pub(crate) fn remove(&mut self, life: Life) {
        if self.contains(life) {
            self.remove_kernel(life.kernel);
        }
    }

    /// Removes a kernel in whatever life.
    pub(crate) fn remove_kernel(&mut self, kernel: DomainId) {
        self.set(kernel, Epoch(0));
    }

    fn set(&mut self, kernel: DomainId, epoch: Epoch) {
        let Some(place) = self.epochs.get_mut(kernel.index()) else { return };
        let before = core::mem::replace(place, epoch);
        self.count = self.count + u8::from(epoch.0 != 0) - u8::from(before.0 != 0);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Life> + '_ {
        let lives = self.epochs.iter().enumerate().filter(|(_, epoch)| epoch.0 != 0);
        lives.map(|(kernel, epoch)| Life { kernel: DomainId(kernel as u8), epoch: *epoch })
    }
}

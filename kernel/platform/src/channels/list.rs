//! Channels as people see them: the monitor, `/proc`, `lsof`.
//!
//! Contract: each end is copied in a critical section of its own, and formatted outside of it. A
//! list is therefore not of one moment: an end that moves meanwhile may be missing.

use super::contracts::hash_of;
use super::{Channels, ENDS, Payload, State, doors};

/// An end of this kernel's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    pub end: kernel_channel::Listed,
    /// The hash of its contract.
    pub contract: [u8; 16],
    /// The process tree that holds it, by its first process; 0: no program does.
    pub tree: u32,
}

impl Listed {
    /// Returns whether it is an end of a door, at which new channels arrive.
    pub fn is_door(&self) -> bool {
        self.end.contract == doors::CONTRACT
    }
}

/// What the channels of a kernel add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Ends in the table, stand-ins included.
    pub ends: usize,
    /// The most there can be.
    pub most: usize,
    /// Cells of memory for messages that are free.
    pub free_cells: usize,
    /// Blocks that this kernel's programs have sent and no program has received, and their bytes.
    pub blocks: (usize, usize),
    /// Messages that programs have sent since the kernel booted.
    pub sent: u64,
}

impl Channels {
    pub fn totals(&self) -> Totals {
        let State { table, rest } = &*self.state.lock();
        let (free_cells, blocks, sent) = (rest.cells.left(), rest.blocks.used(), rest.sent);
        Totals { ends: table.used(), most: ENDS.into(), free_cells, blocks, sent }
    }

    /// Returns all ends, one after the other.
    pub fn list(&self) -> impl Iterator<Item = Listed> + '_ {
        (0..ENDS).filter_map(|slot| self.listed(|table| table.listed(slot)))
    }

    /// Returns what the table has of an end that descriptors hold.
    pub fn listed_end(&self, handle: u64) -> Option<Listed> {
        let id = self.id(handle).ok()?;
        self.listed(|table| table.listed_end(id))
    }

    fn listed(
        &self,
        find: impl FnOnce(&kernel_channel::Channels<Payload>) -> Option<kernel_channel::Listed>,
    ) -> Option<Listed> {
        let state = self.state.lock();
        let end = find(&state.table)?;
        drop(state);
        Some(Listed { end, contract: hash_of(end.contract).0, tree: end.owner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::{DomainId, Epoch};
    use kernel_channel::{Place, Side};
    use std::vec::Vec;

    #[test]
    fn ends_are_listed_with_the_tree_that_holds_them() {
        let channels = Channels::new(DomainId(0), Epoch(2), 1, None);
        let before = channels.totals();
        assert_eq!((before.ends, before.sent, channels.list().count()), (0, 0, 0));
        let Ok((end, _)) = channels.open_door(7, 1) else { panic!("there is room") };
        let all: Vec<(Side, u32, bool)> =
            channels.list().map(|it| (it.end.side, it.tree, it.is_door())).collect();
        assert_eq!(all, [(Side::First, 7, true), (Side::Second, 7, true)]);
        assert_eq!(channels.totals(), Totals { ends: 2, ..before });
        let listed = channels.listed_end(end).map(|it| (it.end.side, it.end.place, it.tree));
        assert_eq!(listed, Some((Side::Second, Place::Held { descriptors: 1 }, 7)));
        assert_eq!(channels.listed_end(end + 1), None);
    }
}

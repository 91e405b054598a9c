//! The node with its drivers: everything that services need to run.

use crate::balloon::Balloons;
use crate::channels::Channels;
use crate::coherence::Coherence;
use crate::devices::Devices;
use crate::peers::Peers;
use crate::twins::Others;
use core::ops::Deref;
use kernel_mem::mapping::{Audit, Violation, audit, audit_held};
use kernel_node::Node;
use kernel_node::memory;

/// A node with its drivers.
pub struct Platform {
    pub node: Node,
    /// Messages to and from the other kernels.
    pub peers: Peers,
    /// This kernel's balloon; `None` if the board has no global region.
    pub balloons: Option<Balloons>,
    /// The shared block; `None` if the board has no shadowed service.
    pub coherence: Option<Coherence>,
    /// The devices that this kernel may use.
    pub devices: Devices,
    /// Ends of channels that programs of this kernel hold.
    pub channels: Channels,
    /// Images of the other kernels.
    pub others: Others,
}

impl Deref for Platform {
    type Target = Node;

    #[inline]
    fn deref(&self) -> &Node {
        &self.node
    }
}

impl Platform {
    /// Checks that the page table maps only what this kernel may access: its own regions and
    /// blocks, and those pages of the shared block that the coherence protocol says it holds.
    pub fn audit(&self) -> Result<Audit, Violation> {
        let table = memory::TABLE.get().ok_or(Violation::NoSuchDomain)?;
        // With the table locked: a block is owned from before it is mapped until after it is
        // unmapped.
        let shared = self.coherence.as_ref().map_or(usize::MAX, |it| it.index());
        let blocks = || {
            let Some(balloons) = &self.balloons else { return Default::default() };
            let mut blocks = balloons.pure().local();
            // Memory of processes that run on two kernels: `kernel_programs::lights`.
            let all = 0..balloons.pure().blocks().count();
            let lent = all.filter(|&index| balloons.is_lendable(self, shared, index));
            lent.for_each(|index| blocks.insert(index));
            blocks
        };
        let Some(coherence) = &self.coherence else {
            let table = table.lock();
            return audit(&table, self.blob, self.me, &blocks());
        };
        coherence.with_pages_fixed(|held| {
            let table = table.lock();
            let mut blocks = blocks();
            // Of the shared block, those pages that are held.
            blocks.insert(coherence.index());
            audit_held(&table, self.blob, self.me, &blocks, held)
        })
    }
}

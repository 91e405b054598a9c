//! What services stand on: the node, and the parts that drive what belongs to it.

use crate::balloon::Balloons;
use crate::coherence::Coherence;
use crate::devices::Devices;
use crate::memory;
use crate::node::Node;
use crate::peers::Peers;
use crate::twins::Others;
use alloc::boxed::Box;
use core::ops::Deref;
use kernel_mem::mapping::{Audit, Violation};

/// A node with its drivers.
pub struct Platform {
    /// The kernel itself.
    pub node: Node,
    /// Other kernels.
    pub peers: Peers,
    /// Its balloon, where the board has memory for one.
    pub balloons: Option<Balloons>,
    /// Memory that it shares with other kernels, where the board has any.
    pub coherence: Option<Coherence>,
    /// Devices whose home is here; not in place, for the boot stack's sake.
    pub devices: Box<Devices>,
    /// Images of other kernels.
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
    /// The page-table invariant, as of now.
    pub fn audit(&self) -> Result<Audit, Violation> {
        let table = memory::TABLE.get().ok_or(Violation::NoSuchDomain)?;
        let balloons = self.balloons.as_ref();
        let mut blocks = balloons.map(|balloons| balloons.pure().local()).unwrap_or_default();
        let Some(coherence) = &self.coherence else {
            return kernel_mem::mapping::audit(&table.lock(), self.blob, self.me, &blocks);
        };
        // Cacheable of the shared block is what the protocol says that this kernel holds.
        blocks.insert(coherence.index());
        coherence.still(|held| {
            let table = table.lock();
            let mut result = kernel_mem::mapping::audit(&table, self.blob, self.me, &blocks);
            table.walk(&mut |leaf| {
                if result.is_ok() && !held(&leaf) {
                    result = Err(Violation::ForeignCached(leaf));
                }
            });
            result
        })
    }
}

//! Coherent blocks besides the shared block: for the memory of processes with light threads.
//!
//! Frames of such a block may be mapped on another kernel when its owner dies. So it is not freed
//! with the owner's other blocks, but by [`Balloons::free_coherent`], which is called when all
//! living kernels have unmapped them.

use super::{BLOCK_FRAMES, Balloons, Chip, Hardware, LIMITS, unpromised};
use alloc::vec::Vec;
use kernel_mem::balloon::Machine;
use kernel_mem::blocks::{ClaimError, Kind, Recovered, State};
use kernel_node::Node;

/// Blocks of the pool that are left to the kernels.
const KEPT: usize = 1;
/// Attempts to claim one block, while other kernels claim, too.
const TRIES: usize = 8;

impl Balloons {
    /// Claims a block of the pool, which keeps one for the kernels. If that leaves none, gives the
    /// pool one of this kernel's blocks first, unless the kernel needs it. The caller must be a
    /// thread and hold no lock.
    pub fn claim_coherent(&self, node: &'static Node) -> Option<usize> {
        if self.pool(node) <= KEPT {
            let can_spare = unpromised() >= BLOCK_FRAMES + LIMITS.reserve;
            can_spare.then(|| self.inflate(node).ok())??;
        }
        self.claim_free(node)
    }

    fn claim_free(&self, node: &'static Node) -> Option<usize> {
        let machine = Hardware { node, lock: &self.lock };
        for _ in 0..TRIES {
            let index = self.balloon.blocks().find_free(super::end(node.blob, node.me))?;
            let mut claimed = Err(ClaimError::Contended);
            machine.alone(&mut || claimed = self.balloon.blocks().claim(index, Kind::Coherent));
            if claimed.is_ok() {
                return Some(index);
            }
        }
        None
    }

    /// Returns a block of [`Balloons::claim_coherent`] to the pool. None of it may be mapped.
    pub fn release_coherent(&self, index: usize) {
        // It is this kernel's.
        let _ = self.balloon.blocks().release(index);
    }

    /// Returns whether a block is coherent, of a kernel that lives or that has died, and not the
    /// shared block, whose index is `shared`.
    pub fn is_lendable(&self, node: &Node, shared: usize, index: usize) -> bool {
        let is_coherent = || {
            let state = self.state(node, index);
            matches!(state, State::Held(_, Kind::Coherent) | State::Orphan(_, Kind::Coherent))
        };
        index != shared && index < self.balloon.blocks().count() && is_coherent()
    }

    /// Returns the coherent blocks whose owners are dead, but the shared block.
    pub fn coherent_orphans(&self, node: &Node, shared: usize) -> Vec<usize> {
        let is_orphan = |&index: &usize| {
            index != shared && matches!(self.state(node, index), State::Orphan(_, Kind::Coherent))
        };
        (0..self.balloon.blocks().count()).filter(is_orphan).collect()
    }

    /// Frees a coherent block whose owner is dead.
    pub fn free_coherent(&self, node: &'static Node, index: usize) {
        let machine = Hardware { node, lock: &self.lock };
        let blocks = self.balloon.blocks();
        machine.alone(&mut || {
            if blocks.recover(index, &Chip(node.soc)) == Recovered::Adopted {
                // It is this kernel's now.
                let _ = blocks.release(index);
            }
        });
    }
}

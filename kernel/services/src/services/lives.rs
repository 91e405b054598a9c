//! The lives of the other kernels, and which of them have ended.

use super::Services;
use abi::soc::state;
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};
use core::sync::atomic::Ordering;
use kernel_msg::endpoint::peer_epoch;
use kernel_node::Node;
use kernel_platform::Platform;

impl Services {
    /// Returns the lives of other kernels that have ended since the previous call.
    pub(super) fn ended(&self, platform: &Platform) -> impl Iterator<Item = (DomainId, Epoch)> {
        let ended = platform.others().filter_map(|id| {
            let now = life(platform, id);
            let before = self.known[id.index()].swap(now.into(), Ordering::Relaxed) as u16;
            (before != 0 && before != now).then_some((id, Epoch(before)))
        });
        ended.collect::<Vec<_>>().into_iter()
    }

    /// Returns whether the life of another kernel has ended, and the thread of [`Services::keep`]
    /// has not noticed it.
    pub fn has_unseen_end(&self, platform: &Platform) -> bool {
        platform.others().any(|id| {
            let known = self.known[id.index()].load(Ordering::Relaxed);
            known != 0 && known != u64::from(life(platform, id))
        })
    }
}

/// Returns the present epoch of a kernel; 0 if it does not run.
fn life(node: &Node, id: DomainId) -> u16 {
    peer_epoch(node.soc.state_word(id)).map_or(0, |epoch| epoch.0)
}

/// Returns the life of this kernel before the present one, if no other kernel is awake that has
/// noticed its end. (A kernel that has just started should not take the pages of all services: they
/// would be lost if it died again.)
pub(super) fn former_life(node: &Node) -> Option<(DomainId, Epoch)> {
    let is_awake = |id| node.soc.state(id).1 == state::RUNNING;
    let is_first = node.epoch.0 > 1 && !node.others().any(is_awake);
    is_first.then(|| (node.me, Epoch(node.epoch.0 - 1)))
}

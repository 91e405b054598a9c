//! Which services exist on the board; how one starts that this kernel has alone, and whether it has
//! the device of that.

use super::guard::ArenaGuard;
use super::share_of;
use abi::boot::{Blob, device};
use base::id::{DomainId, Epoch};
use kernel_node::arenas;
use kernel_node::memory::CoreHeap;
use share::{Instance, Mode, Service, Shareable};

/// Returns the kind of device that a service drives, and whether it works without one.
pub(super) fn device_of(service: &str) -> (Option<u32>, bool) {
    let found = abi::service::ALL.into_iter().find(|kind| kind.name == service);
    found.map_or((None, true), |kind| (kind.drives, kind.drives.is_none() || kind.works_without))
}

/// Returns whether a service exists on this board.
pub(super) fn exists(blob: &Blob, service: &str) -> bool {
    let (drives, works_without) = device_of(service);
    let on_board = |kind| works_without || blob.devices().iter().any(|found| found.kind == kind);
    drives.is_none_or(on_board) && share_of(blob, service).is_some()
}

/// Returns whether domain `me` can drive a device of this kind alone. The DMA engine has a part for
/// each.
pub(super) fn has_device(blob: &Blob, kind: u32, me: DomainId) -> bool {
    let is_ours = |home| kind == device::DMA || home == u32::from(me.0);
    blob.devices().iter().any(|found| found.kind == kind && is_ours(found.home))
}

/// Starts a service in an arena of local memory. Returns `None` without memory, if the service's
/// state is shared, or if the service exists only where it is shared.
pub(super) fn start<S: Service + Shareable>(
    blob: &Blob,
    mode: Mode,
    epoch: Epoch,
) -> Option<Instance<S, ArenaGuard, CoreHeap>> {
    if mode.is_shared() {
        return None;
    }
    let Some((_, bytes)) = share_of(blob, S::NAME) else {
        // It exists only where it is shared.
        return None;
    };
    let Some(arena) = arenas::local(bytes) else {
        kernel_node::log!("service {} not started: no memory for its arena", S::NAME);
        return None;
    };
    let instance = Instance::new(ArenaGuard::alone(epoch, arena));
    arch::hold::begin();
    let started = instance.start();
    let _ = arch::hold::end();
    started.is_ok().then_some(instance)
}

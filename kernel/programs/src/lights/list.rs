//! The turns of this kernel.

use super::turn::Turn;
use abi::light::LightNotice;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::lock::Lock;
use base::addr::VirtAddr;
use base::id::DomainId;
use kernel_node::ranks;
use kernel_platform::Platform;

/// Most processes of a kernel that have light threads.
const MOST: usize = 64;

static TURNS: Lock<Vec<Arc<Turn>>> = Lock::new(ranks::TURNS, Vec::new());

/// Returns all turns; `None` without memory.
pub fn all() -> Option<Vec<Arc<Turn>>> {
    let mut copies = Vec::new();
    copies.try_reserve_exact(MOST).ok()?;
    copies.extend(TURNS.lock().iter().take(MOST).cloned());
    Some(copies)
}

/// Returns whether this kernel has any turn. In any context.
pub fn exist() -> bool {
    !TURNS.lock().is_empty()
}

/// Returns the turn of the process whose memory has this address.
pub fn of_memory(address: VirtAddr) -> Option<Arc<Turn>> {
    TURNS.lock().iter().find(|turn| turn.memory.holds(address)).cloned()
}

/// Adds a turn to those of this kernel. Returns false if there are too many, or without memory.
pub fn add(turn: &Arc<Turn>) -> bool {
    let mut room = Vec::new();
    if room.try_reserve_exact(MOST).is_err() {
        return false;
    }
    let mut turns = TURNS.lock();
    if turns.capacity() == 0 {
        *turns = room;
    }
    let has_room = turns.len() < MOST;
    if has_room {
        turns.push(turn.clone());
    }
    has_room
}

/// Removes a turn. Its process has ended here.
pub fn remove(turn: &Arc<Turn>) {
    let mut turns = TURNS.lock();
    let found = turns.iter().position(|other| Arc::ptr_eq(other, turn));
    let removed = found.map(|at| turns.swap_remove(at));
    drop(turns);
    drop(removed);
}

/// Publishes how many processes have had light threads on another kernel.
pub fn publish(platform: &Platform) {
    let turns = TURNS.lock();
    let count = turns.iter().filter(|turn| !turn.is_weak() && turn.has_peer()).count();
    // Under the lock: of two callers, the later one has counted later.
    platform.soc.set_lights(count as u64);
}

/// Handles a notice of kernel `from`. From any context.
pub fn heard(platform: &Platform, from: DomainId, notice: &LightNotice) {
    let turns = TURNS.lock();
    let found = turns.iter().find(|turn| turn.pid == notice.pid && turn.peer == from);
    if let Some(turn) = found {
        turn.hear(platform, notice);
    }
}

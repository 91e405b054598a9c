//! The cores of this domain: how each is started and set up.

use crate::interrupts;
use arch::types::StartError;
use base::addr::PhysAddr;
use base::id::CoreId;
use kernel_node::memory;
use kernel_services::hooks;

/// Sets up a secondary core that was started, or started again after a power-off.
pub fn enter() {
    arch::trap::install(&interrupts::HANDLERS);
    arch::irq::init_core();
    hooks::up();
}

/// Starts a core of this domain that is off.
pub fn start(
    core: usize,
    stack: usize,
    entry: extern "C" fn(usize) -> !,
) -> Result<(), StartError> {
    let root = memory::TABLE.get().map_or(PhysAddr(0), |table| table.lock().root());
    arch::smp::start(CoreId(core as u8), entry, stack, core, root)
}

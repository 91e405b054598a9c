//! The domain's own UART, polled, for the early log and panics.

use super::mmio::{UART, read32, write32};

const FLAGS: u64 = UART + 0x18;
const CONTROL: u64 = UART + 0x30;
const FULL: u32 = 1 << 5;
/// Bound on the wait for the FIFO: a dead UART must not hang a kernel.
const PATIENCE: u32 = 1 << 16;

/// Enables the transmitter. Called at every boot.
pub(super) fn init() {
    write32(CONTROL, 0x101);
}

pub fn put(byte: u8) {
    let mut tries = 0;
    while read32(FLAGS) & FULL != 0 && tries < PATIENCE {
        tries += 1;
    }
    write32(UART, byte.into());
}

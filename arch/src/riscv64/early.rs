//! The domain's own UART (16550), polled, for the early log and panics.

use super::mmio::{self, UART};

/// Transmit holding register.
const DATA: u64 = UART;
/// Line status; bit 5: the holding register is empty.
const STATUS: u64 = UART + 5;
const EMPTY: u8 = 1 << 5;
/// Maximum polls of a UART that does not drain.
const PATIENCE: u32 = 1 << 20;

/// Drops the byte if the UART does not take it for a long time.
pub fn put(byte: u8) {
    for _ in 0..PATIENCE {
        if mmio::read8(STATUS) & EMPTY != 0 {
            mmio::write8(DATA, byte);
            return;
        }
    }
}

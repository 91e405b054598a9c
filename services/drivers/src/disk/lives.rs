//! The order between the lives of the file service.
//!
//! A disk thread may take a write in one life of the file service and be slow. Meanwhile a kernel
//! dies, the service starts its next life, and another thread mounts the file system and uses the
//! same blocks again. The old write must not land then. So each request carries its life:
//! - The device's word `life` has the newest one. A request of an older life is refused.
//! - A request of a newer life waits until the device has no write of an older one.
//!
//! The word outlives the driver's state. It needs no barrier of its own: one comes before the next
//! submission, and the lock's release before any answer.

use abi::soc::DeviceRegisters;
use core::mem::offset_of;
use share::Device;
use virtio::transport::Registers;

/// Faults that tests plant, to see that they find them.
pub mod mutant {
    pub const NONE: u8 = 0;
    /// Requests of older lives are carried out.
    pub const NO_CHECK: u8 = 1;
    /// A newer life does not wait for writes in flight.
    pub const NO_WAIT: u8 = 2;
    /// The newest life is not recorded in the device's word.
    pub const NO_WORD: u8 = 3;
}

/// Records the life of a request. Returns false if there is a newer one.
pub fn record<const MUTANT: u8>(device: &Device<'_>, life: u64) -> bool {
    let (registers, word) = (Registers(device), offset_of!(DeviceRegisters, life));
    let newest = registers.load(word);
    if life > newest && MUTANT != mutant::NO_WORD {
        registers.store(word, life);
    }
    life == 0 || life >= newest || MUTANT == mutant::NO_CHECK
}

//! The driver's side of virtio, for services that drive a device: `services/drivers`, and the
//! network service.
//!
//! On this chip registers cannot trap and caches are not coherent. So a device consists of words in
//! the uncached window, and a doorbell in each direction. The state of a driver holds offsets into
//! the window, never pointers into it. **Nothing here waits**: not even the handshake that opens a
//! device, which is a state machine as well.
//!
//! - [`transport`] the registers, and the opening of a device
//! - [`queue`]     virtqueues
//! - `fake`        a simulated device, for tests (feature `fake`)
#![cfg_attr(not(any(test, feature = "fake")), no_std)]

#[cfg(feature = "fake")]
pub mod fake;
pub mod queue;
pub mod transport;

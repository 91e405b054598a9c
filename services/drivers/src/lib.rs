//! The virtio drivers as services, in every mode: console, disk, random numbers, and streams with
//! the host. `docs/design/host.md` describes the streams, decision 028 why drivers are services.
//!
//! On this chip registers cannot trap and caches are not coherent. So a device consists of words in
//! the uncached window, and a doorbell in each direction. A driver is a state and a step, as any
//! service; each step is lent the device, and any kernel may execute it. The state holds offsets
//! into the window, never pointers into it; large buffers are on the service's heap. **A step never
//! waits**: not even for the handshake that opens a device, which is a state machine as well.
//!
//! `services/virtio` has the registers and the queues.
//!
//! Interrupts are edges, wired to every domain and latched at a hand-over. So a step looks at
//! memory and counts completions, never interrupts.
//!
//! - [`request`]   requests and replies, the same for all drivers
//! - [`console`], [`disk`], [`host`], [`random`]: the services
//! - [`driver`]    what their steps have in common
//! - [`waiters`]   parked callers, and which of them to wake
//! - [`slots`]     the callers of requests in flight
//! - [`streams`]   streams as a state machine over packets; [`vsock`]: packets
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod console;
pub mod disk;
mod driver;
pub mod host;
pub mod random;
pub mod request;
mod slots;
pub mod streams;
pub mod vsock;
mod waiters;

pub use console::Console;
pub use disk::Disk;
pub use driver::Driven;
pub use host::Host;
pub use random::Random;
pub use virtio::queue;
pub use virtio::transport::Problem;

const fn is_shareable<T: share::Shareable>() {}
const _: () = is_shareable::<Console>();
const _: () = is_shareable::<Disk>();
const _: () = is_shareable::<Host>();
const _: () = is_shareable::<Random>();

/// Maximum size of a state: it begins on the stack of a kernel's thread.
const STATE: usize = 6 * 1024;
const _: () = assert!(size_of::<Console>() <= STATE);
const _: () = assert!(size_of::<Disk>() <= STATE);
const _: () = assert!(size_of::<Host>() <= STATE);
const _: () = assert!(size_of::<Random>() <= STATE);

#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

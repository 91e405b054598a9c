//! The lab's one clock. On an exact board every domain (one core, one QEMU) and the soc have a
//! *seat* at one table; only the holder of the *turn* runs and only it writes the shared page, so
//! that a board's run is one sequence of events, the same every time.
//!
//! - [`clock`]: cycles become picoseconds, at a frequency that may change.
//! - [`seats`]: who is next, and how far he may run. Pure.
//! - [`page`]: the file that all processes of a board map: seats, doorbells under way, residency.
//! - [`turn`]: handing the turn over and waiting for it.
//! - [`model`]: costs and powers as `lab.json` tells them; the hash that every record carries.
//! - [`energy`]: residency times power.
//! - [`watch`]: the coherence sanitizer's state, which all processes of a board share; [`report`]:
//!   what it says.
//! - [`marks`]: what a domain had used when its guest said where it was.

pub mod clock;
pub mod energy;
pub mod marks;
pub mod model;
pub mod page;
pub mod report;
pub mod seats;
pub mod turn;
pub mod watch;
mod words;

/// Picoseconds since the board's start. Overflows after 213 days.
pub type Ps = u64;
/// A time that does not come.
pub const NEVER: Ps = u64::MAX;

//! The lab's clock. On an exact board every domain (one core, one QEMU) and the soc have a *seat*
//! at one table. Only the holder of the *turn* runs, and only it writes the shared page, so a
//! board's run is one sequence of events, the same every time.
//!
//! - [`clock`]: cycles become picoseconds, at a frequency that may change.
//! - [`seats`]: which seat is next, and how far it may run. Pure.
//! - [`page`]: the file that all processes of a board map: seats, doorbells in flight, residency.
//! - [`turn`]: passing the turn and waiting for it.
//! - [`model`]: costs and powers, read from `lab.json`; the hash that every record carries.
//! - [`energy`]: residency times power.
//! - [`points`]: a domain dies or is stopped at one of its accesses to others.
//! - [`profile`]: how often each block of a guest's code was executed.
//! - [`watch`]: the coherence sanitizer's state, which all processes of a board share; [`report`]:
//!   its reports.
//! - [`marks`]: what a domain had used when its guest executed a mark.

pub mod clock;
pub mod energy;
pub mod marks;
pub mod model;
pub mod page;
pub mod points;
pub mod profile;
pub mod report;
pub mod seats;
pub mod turn;
pub mod watch;
mod words;

/// Picoseconds since the board's start. Overflows after 213 days.
pub type Ps = u64;
/// A time that is never reached.
pub const NEVER: Ps = u64::MAX;

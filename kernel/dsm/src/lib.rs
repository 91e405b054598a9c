//! Coherence of pages between kernels whose caches are not coherent: which domain may hold which
//! page of the coherent region, and how pages move between domains.
//!
//! A pure state machine per domain: no I/O, clock, allocation, lock, static or `unsafe`. A driver
//! passes events in and performs the [`Effect`]s. `docs/design/dsm.md` describes the protocol.
#![cfg_attr(not(test), no_std)]

mod blame;
mod claim;
mod client;
pub mod config;
mod dsm;
pub mod effect;
mod fast;
mod grid;
mod home;
pub mod instruction;
mod leave;
mod life;
pub mod losses;
pub mod message;
mod peers;
pub mod pin;
#[cfg(test)]
mod proof;
pub mod table;
mod takeover;
pub mod thrash;
pub mod types;
pub mod wire;

pub use config::Config;
pub use dsm::Dsm;
pub use effect::{Effect, Out, Perform, Rights};
pub use message::Message;
pub use types::{
    Access, AccessError, DomainSet, Down, Handled, Hold, Keep, LeaveError, Page, PeerFault,
    PeerStatus, Protocol, RequestId, Start, Want,
};

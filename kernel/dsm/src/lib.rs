//! The coherence of pages between kernels whose caches are not coherent: who may have which page
//! of the coherent region, and how it gets from one to the other. Pure: no I/O, clock, allocation,
//! lock, static or `unsafe`; the driver brings events and performs [`Effect`]s. The concept is in
//! `docs/design/dsm.md`.
#![cfg_attr(not(test), no_std)]

mod claim;
mod client;
mod dsm;
pub mod effect;
mod grid;
mod home;
pub mod instruction;
mod leave;
mod lives;
pub mod message;
pub mod pin;
#[cfg(test)]
mod proof;
mod quick;
mod seat;
pub mod table;
pub mod thrash;
pub mod wire;
pub mod word;

pub use dsm::Dsm;
pub use effect::{Effect, Out, Perform, Rights};
pub use message::Message;
pub use word::{
    Access, AccessError, Config, Down, Handled, Hold, Keep, LeaveError, News, Page, PeerFault,
    Protocol, RequestId, Set, Start, Want,
};

//! The coherence of pages between kernels whose caches are not coherent: who may have which page
//! of the coherent region, and how it gets from one to the other. Pure: no I/O, clock, allocation,
//! lock, static or `unsafe`; the driver brings events and performs [`Effect`]s. The concept is in
//! `docs/dsm.md`.
#![cfg_attr(not(test), no_std)]

mod client;
mod dsm;
pub mod effect;
mod grid;
mod home;
mod leave;
pub mod message;
pub mod pin;
#[cfg(test)]
mod proof;
mod seat;
pub mod service;
pub mod table;
pub mod thrash;
pub mod wire;
pub mod word;

pub use dsm::Dsm;
pub use effect::{Effect, Out, Rights};
pub use message::Message;
pub use word::{
    Access, AccessError, Config, Down, Handled, Hold, Keep, LeaveError, News, Page, PeerFault,
    Protocol, RequestId, Set, Start, Want,
};

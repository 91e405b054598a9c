//! The driver of the DMA engine as a service: which kernel has which channels, in every mode. The
//! concept is in `docs/design/dma.md`, the device in `abi::dma`.
//!
//! ```text
//!   submit: one step --> room on a channel, or an idle one taken over; descriptors; announces
//!      | a ticket
//!   interrupt --> watch: the engine's words say how the batch ended; no step
//!      | outcome
//!   books: "taken" --> descriptors are free, whoever looks for some; somebody waits? one step
//! ```
//! - [`port`]     the engine's words, as a step or a waiting thread reaches them
//! - [`service`]  the state that kernels share, and its steps
//! - [`watch`]    how a batch ended, from the engine's words alone; which outcomes were read
//! - [`request`]  what can be asked
//! - [`transfer`] one transfer, and how it can end
//!
//! **A batch that has ended is not touched by the engine any more.** Caches are the caller's
//! business, and so is whose memory it is; the engine refuses what is neither local nor global.
#![cfg_attr(not(test), no_std)]

pub mod port;
pub mod request;
pub mod service;
pub mod transfer;
pub mod watch;

pub use request::{Reply, Request};
pub use service::Dma;
pub use transfer::{BATCH, Outcome, Refusal, Transfer};
pub use watch::{Books, Seen, Ticket};

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

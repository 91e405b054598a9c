//! The driver of the DMA engine as a service, in every mode: it assigns channels to kernels and
//! submits transfers. `docs/design/dma.md` describes it; `abi::dma` defines the device.
//!
//! ```text
//!   submit: one step --> finds or takes over a channel; writes descriptors; announces them
//!      | ticket
//!   interrupt --> watch: the engine's words tell how the batch ended; no step
//!      | outcome
//!   books: writes "taken" --> the descriptors are free for any kernel; one step if a caller waits
//! ```
//! - [`port`]     access to the engine's words, from a step or from a waiting thread
//! - [`service`]  the shared state, and its steps
//! - [`watch`]    the outcome of a batch, read from the engine's words; which outcomes were read
//! - [`request`]  requests and replies
//! - [`pace`]     how a kernel other than the home spaces its transfers
//! - [`transfer`] a transfer, and how it can end
//!
//! **The engine does not touch a batch after it has ended.** The caller is responsible for caches
//! and for owning the memory. The engine refuses addresses that are neither local nor global
//! memory.
#![cfg_attr(not(test), no_std)]

pub mod pace;
pub mod port;
pub mod request;
pub mod service;
pub mod transfer;
pub mod watch;

pub use pace::Pace;
pub use request::{Reply, Request};
pub use service::Dma;
pub use transfer::{BATCH, Outcome, Refusal, Transfer};
pub use watch::{Books, Seen, Ticket};

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

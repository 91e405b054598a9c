//! The network of a board's user. The program `pen-gateway` is the other end of the soc's network
//! device; this library is what others must know to talk to it.
//!
//! ```text
//!   soc  <--frames--  pen-gateway  <--sockets-->  the host's network
//!                        ^   libslirp
//!   pen  --requests------+
//! ```
//! - [`frames`]  Ethernet frames in a stream: the protocol of QEMU and passt
//! - [`forward`]  a published port
//! - [`control`]  requests to a gateway that runs

#![forbid(unsafe_code)]

pub mod control;
pub mod forward;
pub mod frames;

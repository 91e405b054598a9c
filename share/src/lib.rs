//! The one idea: a service is written once, and shared in one of five ways. The concept is in
//! `docs/design/services.md`.
//!
//! - [`form`]       what a service is: a state and its `step`
//! - [`plain`]      what may go between kernels: data, and nothing but
//! - [`shareable`]  what a state may be made of
//! - [`mode`]       the five ways, and where each executes a request
//! - [`instance`]   a service in one kernel: its arena, its lock, its steps
//! - [`custody`]  who has the arena, and what is known of its memory when a kernel dies
//! - [`carry`]      requests and answers as bytes, for a service that is executed elsewhere
//! - [`outbox`]     what a step asks of its kernel
//! - [`parked`]     who waits for what, in the state of a service
//! - [`given`]      what is given to who waits, with the wake
//! - [`table`]      bounded tables with generations, and the handles that a service gives out
//! - [`twins`]      which function of this image is which of another kernel's
//! - [`raw`]        arenas as memory, and the allocator that routes to them: the home of `unsafe`
#![cfg_attr(not(test), no_std)]
#![feature(auto_traits, negative_impls)]

extern crate alloc;

pub mod carry;
pub mod custody;
pub mod form;
pub mod given;
pub mod instance;
pub mod mode;
pub mod outbox;
pub mod parked;
pub mod plain;
pub mod raw;
pub mod shareable;
pub mod table;
pub mod twins;

pub use custody::{Custody, Marks};
pub use form::{Answer, Device, Effects, Event, Service, Token};
pub use given::Given;
pub use instance::{Instance, StepError};
pub use mode::{Mode, Place};
pub use outbox::Outbox;
pub use parked::Parked;
pub use plain::Plain;
pub use raw::{Arena, Current, Routed};
pub use shareable::Shareable;
pub use table::{Stale, Table};

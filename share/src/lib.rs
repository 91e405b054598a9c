//! Services that are written once and shared in one of five ways; `docs/design/services.md`
//! describes the concept.
//!
//! *Private* and *independent* differ in what callers may expect: a private service's instances are
//! unrelated by design, while those of an independent one are parts of one system-wide resource
//! that a manager above them may rebalance; this crate runs both alike, one local state per kernel.
//!
//! - [`service`]    the [`Service`] trait: a state and its `step`
//! - [`plain`]      data that may cross kernels
//! - [`shareable`]  types that a service's state may contain
//! - [`mode`]       the five modes, and where each executes a request
//! - [`instance`]   one service in one kernel: its arena, its lock, its steps
//! - [`custody`]    access to an arena, and detection of state lost with a dead kernel
//! - [`codec`]      encoding of requests and answers for a service executed by another kernel
//! - [`outbox`]     effects of a step, collected until it returns
//! - [`parked`]     wait queues inside a service's state
//! - [`mailbox`]    mailboxes for short answers delivered together with a wake
//! - [`table`]      bounded tables with generations, and the handles made from them
//! - [`twins`]      the function in this image that corresponds to one in another kernel's image
//! - [`raw`]        arena memory and the allocator that routes to it: the home of `unsafe`
#![cfg_attr(not(test), no_std)]
#![feature(auto_traits, negative_impls)]

extern crate alloc;

pub mod codec;
pub mod custody;
pub mod instance;
pub mod mailbox;
pub mod mode;
pub mod outbox;
pub mod parked;
pub mod plain;
pub mod raw;
pub mod service;
pub mod shareable;
pub mod table;
pub mod twins;

pub use custody::Custody;
pub use instance::{Instance, StepError};
pub use mailbox::Mailboxes;
pub use mode::{Mode, Route};
pub use outbox::Outbox;
pub use parked::Parked;
pub use plain::Plain;
pub use raw::{Arena, Current, Routed};
pub use service::{Answer, Device, Effects, Event, Service, Token};
pub use shareable::Shareable;
pub use table::{Stale, Table};

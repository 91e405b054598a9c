//! The coherence sanitizer's model: what the caches of up to 8 domains may hold of one shared RAM,
//! and which accesses are wrong on a chip whose domains are not coherent. No I/O, no clock, no
//! allocation. The state is a slice of words that the caller supplies, so it can be in a file that
//! several processes map. The callers of a [`Model`] serialize the events of all processes: by
//! turns, or by a lock. A [`Glance`] needs neither.
//!
//! # State
//! Per line of 64 bytes and domain: may the domain's cache hold the line (**held**)? May it hold
//! changes that memory lacks (**dirty**)? May its copy be older than the newest value (**stale**)?
//! Has the domain accessed the line bypassing its cache (**polled**)? The newest value is that of
//! the last write in the order of the calls, by any party.
//!
//! The model answers for **every** choice a cache has: a dirty line may have been written back at
//! any time since the write, or not yet; any line may have been dropped, or may be held for ever
//! until its domain invalidates it. So a report means: there is a choice with which this program
//! reads an old value or loses a write. No report means: there is none, among what is modelled.
//!
//! ```text
//!              read                     write                    clean
//!   none  ------------->  held  ------------------>  dirty  ------------->  held
//!     ^                    |  another writes           |  another writes      |
//!     |                    v                           v                      |
//!     +--- invalidate -- stale                   dirty + stale                |
//!     +-----------------------------------------------------------------------+
//! ```
//!
//! # What is reported
//! | event | while | kind | missing |
//! | --- | --- | --- | --- |
//! | cached or device read | another domain is dirty | `MissingClean` | its clean |
//! | cached read, fetch | own copy is stale | `MissingInvalidate` | own invalidate |
//! | cached write | own copy is stale | `LostUpdate` | own invalidate |
//! | cached write | another domain is dirty | `TwoDirty` | its clean |
//! | device write | a domain is dirty | `LostUpdate` | its invalidate |
//! | any read | the newest value was invalidated, not cleaned | `LostUpdate` | that clean |
//! | any read | it went with its writer's power, not cleaned | `LostUpdate` | that clean |
//! | fetch | a domain is dirty, itself too | `FetchUncleaned` | that clean |
//! | uncached read, write | a domain is dirty, itself too | `UncachedAlias` | that clean |
//! | exclusive, read-modify-write | another domain holds or polls it | `SharedAtomic` | |
//! | store of more than 64 bits | see below | `WideStore` | |
//!
//! - Lines are not divided: two domains that use different bytes of a line share it, and are
//!   reported.
//! - A copy whose write-back would overwrite newer data is reported when it comes into existence
//!   (at the write, or at the other domain's write), not when it is written back.
//! - Invalidating an own dirty line drops the changes. That is how a buffer is handed to a device,
//!   so it is not an error. Reading the line before it is written again is. A write of a few bytes
//!   counts as a new value of the whole line.
//! - A wide store is torn only for a concurrent reader. It is reported if another domain has polled
//!   the line, or if the store itself bypasses the cache and another domain holds the line. Caches
//!   exchange whole lines, and every rule above applies to a wide store as to any other.
//! - Atomics are judged by the domains that hold or poll the line **now**: an invalidate (a page
//!   transfer, a balloon move) ends a domain's part in a line, so memory that is handed over
//!   properly may hold locks of its new owner.
//! - A device never counts as a party of an atomic, because nothing tells when it has let go of a
//!   line.
//! - Each combination of kind, line, accessing pc and writer's pc is reported once. Reports beyond
//!   what a model remembers are only counted ([`Model::untold`]).
//!
//! # After a report
//! The model continues as the hardware would: two dirty copies remain two dirty copies. A copy that
//! is written back becomes the newest value, because memory then holds it.
//!
//! # Limits
//! - **Speculation.** Real caches may fetch a line at any time while a cacheable mapping of it
//!   exists. Here only accesses bring lines in. So an invalidate before a DMA transfer suffices,
//!   where a chip also needs one after it; and an invalidate before the other domain's clean is
//!   accepted, where a chip needs it after the clean.
//! - **Evictions.** No particular choice is modelled: all are assumed possible.
//! - **Instruction caches.** A fetch must find the newest bytes at the point of unification (see
//!   [`Model::unify`]). Whether the core then invalidates old instructions (IC IVAU) is not
//!   checked.
//! - **Order.** Barriers are checked by the litmus tests; an operation is complete when it is
//!   called.
//! - **Attributes.** The caller decides which accesses are cached. With the MMU off, AArch64 data
//!   accesses are uncached.
//! - Page-table walks, unless the caller reports them as reads; and unreported writes of RAM (for
//!   which the caller uses [`Model::forget`]).
//! - Which bytes of a line are dirty, and cache levels or cores inside a domain.

#![cfg_attr(not(test), no_std)]

mod glance;
mod layout;
mod line;
mod model;
mod party;
mod seen;
mod sweep;
mod violation;

pub use glance::Glance;
pub use layout::{AttachError, CHUNK, LINE, words_for};
pub use model::{Atomic, Model, Path};
pub use party::{Access, Domain, Party, Site};
pub use sweep::{Dirty, Lost};
pub use violation::{Event, Kind, Missing, Operation, Violation};

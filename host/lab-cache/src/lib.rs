//! The coherence sanitizer's brain: what the caches of up to 8 domains may hold of one shared RAM,
//! and which accesses are wrong on a chip whose domains are not coherent. No I/O, no clock, no
//! allocation; the state is a slice of words that the caller supplies, so that it can lie in a file
//! which several processes map. Whoever calls a [`Model`] orders the events of all processes: by
//! turns, or by a lock. A [`Glance`] needs neither.
//!
//! # What it knows
//! Per line of 64 bytes and domain: does the domain's cache perhaps hold the line (**held**)? May
//! it hold changes that memory lacks (**dirty**)? May its copy be older than the newest value
//! (**stale**)? Has the domain accessed the line past its cache (**polled**)? The newest value is
//! that of the last write in the order of the calls, whoever made it.
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
//! - A line is one thing: two domains that use different bytes of it share it, and are reported.
//! - A copy whose write-back would overwrite newer data is reported when it comes to be (at the
//!   write, or at the other's write), not when it is written back.
//! - Invalidating an own dirty line throws the changes away. That is how a buffer is given to a
//!   device, so it is no fault by itself; reading the line before anyone has written it again is.
//!   A write of a few bytes counts as a new value of the whole line.
//! - A wide store is torn only for one who looks meanwhile. It is reported when another domain has
//!   polled the line, or when the store itself goes past the cache to a line another domain holds.
//!   Between caches, whole lines move, and every rule above applies to it as to any store.
//! - Atomics are judged by who holds or polls the line **now**: an invalidate (a page handed over,
//!   a balloon move) ends a domain's part in a line, so memory that changes hands properly may hold
//!   locks of whoever has it. Ranges given to [`Model::allow`] (hardware spinlocks) are exempt.
//! - A device is no second party of an atomic: nothing ever says that it has let go of a line.
//! - Each combination of kind, line, accessing pc and writer's pc is reported once; those
//!   beyond what a model remembers are only counted ([`Model::untold`]).
//!
//! # After a report
//! The model goes on as the hardware would: two dirty copies stay two dirty copies. A copy written
//! back becomes the newest value, as memory then holds it.
//!
//! # What it does not see
//! - **Speculation.** Real caches may fetch a line at any time while a cacheable mapping of it
//!   exists. Here only accesses bring lines in: an invalidate before a DMA transfer suffices, where
//!   a chip also needs one behind it; one made before the other's clean passes, where a chip needs
//!   it after.
//! - **Evictions**, exactly: all choices are assumed possible.
//! - **Instruction caches.** A fetch must find the newest bytes at the point of unification (see
//!   [`Model::unify`]); that the core then threw away old instructions (IC IVAU) is not checked.
//! - **Order.** Barriers are the litmus tests' concern; an operation is complete when it is called.
//! - **Attributes.** The caller says which accesses are cached. With the MMU off, AArch64 data
//!   accesses are uncached.
//! - Page-table walks, unless the caller reports them as reads; whatever wrote RAM unreported (tell
//!   it with [`Model::forget`]).
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
pub use model::{Atomic, Model, Path, TooManyRanges};
pub use party::{Access, Domain, Party, Site};
pub use sweep::{Dirty, Lost};
pub use violation::{Event, Kind, Missing, Operation, Violation};

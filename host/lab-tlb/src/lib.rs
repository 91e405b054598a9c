//! The sanitizer's model of TLBs: what the cores of one domain may still hold of their kernel's
//! page table, and which accesses and stores are wrong because of it. No I/O and no clock. The
//! emulator has no TLB that keeps anything which the page table no longer has, so a missing
//! invalidation never shows in it.
//!
//! The state is of one process, because a domain's cores share one, and grows with the number of
//! entries that have changed. The model of caches (`lab-cache`) is a fixed number of words that all
//! processes of a board map. Hence the two crates.
//!
//! # State
//! The model copies all tables that are reachable from the root. A store to one of them shows an
//! entry's old and new value. From then on every core **may hold** the old one, because hardware
//! walks the table whenever it likes, until the architecture forces it out:
//!
//! ```text
//!            store to a table             DSB (AArch64)           TLBI         DSB (AArch64)
//!   present ------------------> stale ------------------> seen ----------> leaving -------> gone
//!                                          RV64: at once, of the hart that executes sfence.vma
//! ```
//! - AArch64 holds no invalid entries. RV64 does, so there a new mapping leaves a stale "nothing".
//! - A TLBI counts for a store that its core has completed with a DSB before, and is complete with
//!   the next DSB of loads and stores, whose domain includes the cores concerned.
//! - `sfence.vma` of an address leaves cached walks alone, as does a TLBI of the last level.
//! - Any address of a larger mapping invalidates all of it.
//!
//! # What is reported
//! | kind | event |
//! | --- | --- |
//! | [`Kind::Lucky`] | an access that an old entry denies or leads elsewhere succeeds |
//! | [`Kind::Endless`] | it is repeated after its fault, and the page was not invalidated |
//! | [`Kind::EarlyReuse`] | memory to which an old entry leads is written or maintained |
//! | [`Kind::NoBreak`] | AArch64: a mapping replaces another one that is still held |
//! | [`Kind::UnorderedTable`] | a table is linked with no barrier after its entries |
//!
//! A core that stores through an old entry before that is invalidated uses the memory as before.
//! Maintenance of lines hands their memory over, or takes it back. Replacing rights only is no
//! [`Kind::NoBreak`]; other memory, another size and another type are.
//!
//! Kernels add rights without an invalidation and handle the fault (decision 022). An access that
//! only an old, *weaker* entry denies is therefore correct where the kernel handles its fault:
//! - on AArch64 in the shared block, whose driver drops the page before it repeats the instruction;
//! - on RV64 everywhere but through the stack pointer: the trap handler needs the stack first.
//!
//! Such accesses are counted ([`Model::repeated`]), and the core has then dropped the entry.
//! *Stronger* entries are not seen in accesses, because the emulator faults. They are reported when
//! their memory gets another use: a store through another address, a clean while an old entry may
//! still write, an invalidate while one may still read. A downgrade of rights alone is no use.
//!
//! # Which cores
//! A core takes part from its second whole flush in the upper half on (the first belongs to turning
//! its MMU on, and shootdowns wait for it from the second on; core 0 boots alone and takes part
//! from the first) to its power-off. On RV64 a hart that stops is not waited for; a reuse that only
//! other harts' entries concern is therefore reported when such a hart next executes an
//! `sfence.vma` or notices a fault.
//!
//! # Limits
//! - One root at a time: entries of the boot table are not tracked.
//! - ASIDs: every entry is global, as our kernels' are.
//! - A TLBI of a range, and RV64's Svinval, count as nothing.
//! - A fault within a handler replaces the one that it handles, for `Endless`.

mod entry;
mod filter;
mod model;
mod report;
mod stale;
mod tables;

pub use entry::{Access, ENTRIES, Isa, PAGE};
pub use filter::Filter;
pub use model::{Fault, Model, Scope, What};
pub use report::{Finding, Kind, Report, Site};
pub use stale::Reach;
pub use tables::Memory;

//! Is a history of overlapping calls one that some order of them explains? (Linearizability.)
//!
//! - [`check`](check())  the checker
//! - [`files`]  what the file service's replies must be, as a specification for it
//!
//! Contract: a call took effect at one moment between its `invoked` and its `returned`. The checker
//! looks for an order of such moments in which a [`Spec`] accepts every reply (Wing and Gong, with
//! Lowe's memory of what was tried). It cuts the history where nothing is under way, and carries
//! every state that explains one piece into the next; so its work grows with how much overlaps, not
//! with how long it lasts. A call without a reply has happened at any moment since, or never.

pub mod check;
pub mod files;

pub use check::{Call, Failure, Spec, Tally, check};

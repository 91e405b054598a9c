//! Checks whether a history of overlapping calls is linearizable: whether some order explains it.
//!
//! - [`check`](check())  the checker
//! - [`files`]  the file service's model as a specification
//! - [`lives`]  the same where kernels die and the service restarts
//! - [`processes`]  the process table, where kernels die and the table restarts
//!
//! Contract: a call takes effect at one moment between its `invoked` and its `returned`. The
//! checker searches an order of such moments in which a [`Spec`] accepts every reply (Wing and
//! Gong's algorithm, with Lowe's cache of visited configurations). It splits the history where no
//! call is in progress, and carries every state that explains one part into the next; so its work
//! grows with the overlap, not with the length of the history. A call without a reply takes effect
//! at any moment after its invocation, or never; if its caller is known to have died, until then.

pub mod check;
pub mod files;
pub mod lives;
pub mod processes;

pub use check::{Call, Failure, Spec, Tally, check};

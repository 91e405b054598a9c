//! Contracts of channels: the files in `contracts/`, their checks, and what is generated from them.
//!
//! ```text
//!   contracts/NAME.vN.toml --file--> keys --read--> names, references --check--> rules
//!                                                                                  |
//!      automaton (kernel-contract) <--encode--+------+------+------ Contract <-----+
//!                                             |      |      |
//!                                           rust     c    page (svg)
//! ```
//! [`Contract::read`] returns a contract that satisfies every rule, so the generators cannot fail.
//! The format is in `docs/reference/contracts.md`, the ideas in `docs/design/channels.md`.
//!
//! This crate writes no files.

mod c;
mod check;
mod encode;
mod error;
mod file;
mod model;
mod names;
mod page;
mod read;
mod rust;
mod svg;

pub use c::header;
pub use error::{ContractError, Reason, side_name};
pub use model::{Contract, Endpoint, Field, Message, State, Type};
pub use names::contract as name_and_version;
pub use page::{page, summary};
pub use rust::module;
pub use svg::drawing;

/// The folder of contracts, in the root of a tree and beside a manifest.
pub const FOLDER: &str = "contracts";

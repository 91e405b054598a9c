//! The one idea: a service is written once, and shared in one of five ways. The concept is in
//! `docs/services.md`.
//!
//! - [`form`]   what a service is: a state and its `step`
//! - [`plain`]  what may go between kernels: data, and nothing but
//! - [`mode`]   the five ways, and where each executes a request
#![cfg_attr(not(test), no_std)]

pub mod form;
pub mod mode;
pub mod plain;

pub use form::{Answer, Effects, Event, Service, Token};
pub use mode::{Mode, Place};
pub use plain::Plain;

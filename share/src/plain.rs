//! Plain data, from which requests, replies and tokens are made.
//!
//! Contract: every bit pattern is a value; there is no padding, pointer or destructor; the layout
//! is the same for every ISA. So a request may be copied into a message or into shared memory, and
//! bytes from an untrusted kernel still form a value.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Data that may cross kernels. Implemented for every type that derives `zerocopy`'s four traits,
/// is `Copy` and borrows nothing.
pub trait Plain: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + 'static {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + 'static> Plain for T {}

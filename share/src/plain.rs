//! Plain data: what requests, replies and tokens are made of.
//!
//! Contract: every bit pattern is a value, there is no padding, no pointer and no destructor, and
//! the layout is the same for every ISA. So a request may be copied into a message or into memory
//! that kernels share, and what comes back from a kernel that is not trusted is still a value.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Data that may cross kernels. Implemented for whatever derives the four traits of `zerocopy`, is
/// `Copy` and borrows nothing.
pub trait Plain: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + 'static {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + 'static> Plain for T {}

//! The contracts, as `./pen contract rust` prints them. A test of `host/contract` compares.
#![allow(dead_code, reason = "the program uses a part of each")]

#[rustfmt::skip]
pub mod echo_v1;
#[rustfmt::skip]
pub mod give_v1;
#[rustfmt::skip]
pub mod large_v1;
#[rustfmt::skip]
pub mod piece_v1;
#[rustfmt::skip]
pub mod ping_v1;

//! Pictures in PNG files, and the contract by which programs let others decode theirs.
//!
//! - [`picture`]: a file, decoded strip by strip
//! - [`pixels`]: rows of a file in the format that a client wants
//! - [`png_v1`]: the contract, as `./pen contract rust` prints it; a test of `host/contract`
//!   compares

pub mod picture;
pub mod pixels;
#[rustfmt::skip]
pub mod png_v1;

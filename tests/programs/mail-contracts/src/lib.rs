//! The contracts of the mail server's programs, as `./pen contract rust` prints them. A test of
//! `host/contract` compares.
#![no_std]

#[rustfmt::skip]
pub mod mail_store_v1;
#[rustfmt::skip]
pub mod scan_v1;

//! Ext2, on images that e2fsprogs makes and judges.

mod cuts;
pub mod disk;
mod faults;
mod plain;
pub mod tools;

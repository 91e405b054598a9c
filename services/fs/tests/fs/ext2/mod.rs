//! Ext2, on images that e2fsprogs makes and judges.

mod cuts;
pub mod disk;
pub mod driver;
mod faults;
mod plain;
mod served;
pub mod tools;

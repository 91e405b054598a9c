//! Ext2, on images that e2fsprogs creates and checks.

mod checkpoints;
mod cuts;
pub mod disk;
pub mod driver;
mod drivers;
mod faults;
mod linux;
mod plain;
mod planted;
mod served;
pub mod tools;
mod torn;
mod tree;

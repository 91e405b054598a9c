//! Tests over the real file service. Only clocks, randomness and the process table are simulated.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod accepts;
mod authority;
mod begin;
mod blocks;
mod channels;
mod children;
mod common;
mod data;
mod descriptors;
mod hostile;
mod listing;
mod moves;
mod opening;
mod paths;
mod polling;
mod renewal;
mod shared;
mod simple;
mod sockets;
mod windows;
mod world;

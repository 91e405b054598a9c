//! What an attacker or a broken peer controls, as bytes, against the code that reads it.
//!
//! Contract: a [`Target`] takes any bytes and panics if a rule is broken; its module lists the
//! rules. It returns which outcomes it had, so that a test notices when inputs become too dull to
//! reach anything. The same target runs daily over a few seeds (`tests/seeds.rs`), nightly over
//! many (`main.rs`), and under libFuzzer (`fuzz/`).
//!
//! | module | attacker |
//! | --- | --- |
//! | [`wasi`] | a program |
//! | [`net`] | a network, and programs with sockets |
//! | [`ext2`] | a disk image |
//! | [`streams`], [`vsock`] | the device under a kernel's driver; a driver under the soc's device |
//! | [`carry`] | a peer's request to a service, and its answer |
//! | [`control`] | a client of the soc's control socket |
//! | [`channels`] | programs with channels, and a peer that sends any words about them |
//! | [`rpc`], [`dsm`] | a peer that writes anything into its links |
//! | [`seal`] | a file that claims to be a program |
//! | [`manifest`], [`board`] | a text file |
//!
//! [`bytes`] reads inputs; [`mutate`] makes them, from valid ones where random bytes would be
//! refused at once.
#![allow(clippy::unwrap_used, reason = "what cannot be is what it looks for")]

pub mod board;
pub mod bytes;
pub mod carry;
pub mod channels;
pub mod control;
pub mod dsm;
pub mod ext2;
pub mod manifest;
pub mod mutate;
pub mod net;
pub mod rpc;
pub mod seal;
pub mod streams;
pub mod vsock;
pub mod wasi;
mod words;

pub use ext2::{Allocator, allocator};

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: Allocator = allocator();

/// Something that reads bytes from outside.
pub struct Target {
    pub name: &'static str,
    /// What is attacked, in a few words.
    pub about: &'static str,
    /// Number of inputs of a daily run.
    pub daily: u64,
    /// Number of inputs of a nightly run.
    pub nightly: u64,
    /// Does what the bytes encode. Returns its outcomes, one bit each.
    pub run: fn(&[u8]) -> u64,
    /// Returns the input of a seed.
    pub seed: fn(u64) -> Vec<u8>,
    /// Bits and names of the outcomes that a daily run must have had.
    pub outcomes: fn() -> Vec<(u32, &'static str)>,
}

/// All targets.
pub const TARGETS: [&Target; 13] = [
    &wasi::TARGET,
    &ext2::TARGET,
    &streams::TARGET,
    &vsock::TARGET,
    &carry::TARGET,
    &control::TARGET,
    &rpc::TARGET,
    &dsm::TARGET,
    &seal::TARGET,
    &manifest::TARGET,
    &board::TARGET,
    &net::TARGET,
    &channels::TARGET,
];

/// Returns the target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

impl Target {
    /// Runs seeds from 0 on. Returns the names of the outcomes that none of them had. A panic is
    /// reported with its seed.
    pub fn run_seeds(&self, count: u64) -> Vec<&'static str> {
        let mut had = 0;
        for seed in 0..count {
            let one = std::panic::AssertUnwindSafe(|| (self.run)(&(self.seed)(seed)));
            match std::panic::catch_unwind(one) {
                Ok(outcomes) => had |= outcomes,
                Err(panic) => {
                    eprintln!("abuse: {} seed {seed}", self.name);
                    std::panic::resume_unwind(panic);
                }
            }
        }
        let missing = (self.outcomes)().into_iter().filter(|(bit, _)| had & 1 << bit == 0);
        missing.map(|(_, name)| name).collect()
    }
}

//! The chip that a simulation puts around the kernel of this process (`host/assembled`). Without
//! one, the functions of this directory are those of a test's machine.

use std::sync::OnceLock;

use crate::types::{Interrupt, Rights};

/// What a simulated chip does for the one core of its kernel. Addresses are virtual.
pub trait Chip: Sync {
    /// Loads a word between domains, of 4 or 8 bytes.
    fn load(&self, at: usize, bytes: usize) -> u64;
    /// Stores one. Other domains may see stores in another order, until [`Chip::barrier`].
    fn store(&self, at: usize, bytes: usize, value: u64);
    fn barrier(&self);
    fn ring(&self, slot: u32, vector: u32);
    /// Returns the local counter, in ns.
    fn clock(&self) -> u64;
    fn relax(&self);
    /// Sets the one-shot timer; `u64::MAX` stops it.
    fn set_deadline(&self, ticks: u64);
    fn mask(&self, vector: u8, unmasked: bool);
    fn send(&self, kind: u8);
    /// Sleeps until an interrupt is pending.
    fn wait(&self);
    /// Takes a pending interrupt.
    fn take(&self) -> Interrupt;
    /// Prepares `[virt, virt + bytes)`, whose pages are mapped one by one.
    fn pages(&self, virt: u64, bytes: u64);
    fn set_page(&self, virt: u64, rights: Option<Rights>);
    fn clean(&self, at: usize, bytes: usize);
    fn invalidate(&self, at: usize, bytes: usize);
    /// Sends a byte to the log.
    fn put(&self, byte: u8);
}

static CHIP: OnceLock<&'static dyn Chip> = OnceLock::new();

/// Puts the kernel of this process, which has one core, on `chip`. Call once.
pub fn install(chip: &'static dyn Chip) {
    let _ = CHIP.set(chip);
}

#[inline]
pub(super) fn chip() -> Option<&'static dyn Chip> {
    CHIP.get().copied()
}

/// Returns whether this process is a kernel on a simulated chip.
pub fn is_simulated() -> bool {
    chip().is_some()
}

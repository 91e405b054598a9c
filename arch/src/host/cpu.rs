//! The executing core: a thread of the host.

use base::id::CoreId;

use super::chip::chip;
pub use super::{chip, delivery, machine};

/// None of the boards' ISAs.
pub const ISA: u32 = 0;

/// The index that the thread entered its machine with.
pub fn core() -> CoreId {
    machine::core_index()
}

pub fn irqs_off() -> bool {
    machine::set_irqs(false)
}

/// Unmasking delivers pending interrupts.
pub fn irqs_restore(on: bool) {
    if on {
        machine::unmask();
    }
}

/// Unmasking does.
pub fn take_interrupts() {}

pub fn irqs_on() -> bool {
    machine::irqs_on()
}

pub fn wait() {
    match chip() {
        Some(chip) => chip.wait(),
        None => machine::here().wait(),
    }
}

pub fn relax() {
    match chip() {
        Some(chip) => chip.relax(),
        None => machine::here().relax(),
    }
}

pub fn halt() -> ! {
    irqs_off();
    loop {
        match chip() {
            Some(chip) => chip.wait(),
            None => std::thread::park(),
        }
    }
}

pub fn set_local(word: usize) {
    machine::set_local(word);
}

pub fn local() -> usize {
    machine::local()
}

/// Ticks are ns.
pub fn clock() -> u64 {
    chip().map_or_else(|| machine::here().clock(), |chip| chip.clock())
}

pub fn clock_hz() -> u64 {
    1_000_000_000
}

#[inline]
pub fn clock_ns() -> u64 {
    crate::ticks::to_ns(clock(), clock_hz())
}

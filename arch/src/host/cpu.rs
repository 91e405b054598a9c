//! The executing core: a thread of the host.

use base::id::CoreId;

use super::machine as chip;
pub use super::machine;

/// None of the boards' ISAs.
pub const ISA: u32 = 0;

/// The index that the thread entered its machine with.
pub fn core() -> CoreId {
    chip::core_index()
}

pub fn irqs_off() -> bool {
    chip::set_irqs(false)
}

/// Unmasking delivers pending interrupts.
pub fn irqs_restore(on: bool) {
    if on {
        chip::unmask();
    }
}

pub fn irqs_on() -> bool {
    chip::irqs_on()
}

pub fn wait() {
    chip::here().wait();
}

pub fn relax() {
    chip::here().relax();
}

pub fn halt() -> ! {
    irqs_off();
    loop {
        std::thread::park();
    }
}

pub fn set_local(word: usize) {
    chip::set_local(word);
}

pub fn local() -> usize {
    chip::local()
}

/// Ticks are ns.
pub fn clock() -> u64 {
    chip::here().clock()
}

pub fn clock_hz() -> u64 {
    1_000_000_000
}

#[inline]
pub fn clock_ns() -> u64 {
    crate::ticks::to_ns(clock(), clock_hz())
}

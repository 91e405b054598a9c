//! The executing core: a thread of the host.

use base::id::CoreId;

use super::machine as chip;
pub use super::machine;

/// Not a board's ISA.
pub const ISA: u32 = 0;

/// This core's index, as the test set it.
pub fn core() -> CoreId {
    chip::core_index()
}

/// Masks interrupts; were they unmasked?
pub fn irqs_off() -> bool {
    chip::set_irqs(false)
}

/// Unmasks when `on`, and delivers what pends.
pub fn irqs_restore(on: bool) {
    if on {
        chip::unmask();
    }
}

/// Are interrupts unmasked?
pub fn irqs_on() -> bool {
    chip::irqs_on()
}

/// Waits until an interrupt pends.
pub fn wait() {
    chip::here().wait();
}

/// In spin loops.
pub fn relax() {
    chip::here().relax();
}

/// For ever.
pub fn halt() -> ! {
    irqs_off();
    loop {
        std::thread::park();
    }
}

/// Sets this core's own word.
pub fn set_local(word: usize) {
    chip::set_local(word);
}

/// This core's own word.
pub fn local() -> usize {
    chip::local()
}

/// Raw ticks: ns.
pub fn clock() -> u64 {
    chip::here().clock()
}

/// Ticks a second.
pub fn clock_hz() -> u64 {
    1_000_000_000
}

/// [`clock`] in ns.
#[inline]
pub fn clock_ns() -> u64 {
    crate::time::to_ns(clock(), clock_hz())
}

//! Per-core state of a kernel object: no lock, only interrupts masked.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

use abi::boot::MAX_CORES;

use crate::cpu;

/// One `T` per core of the domain.
pub struct CoreLocal<T>([Slot<T>; MAX_CORES]);

#[repr(align(64))]
struct Slot<T> {
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` gives a core only its own element, and to one borrower at a time (`busy`), so one
// core accesses a value; this requires `T: Send`.
unsafe impl<T: Send> Sync for CoreLocal<T> {}

impl<T> CoreLocal<T> {
    pub const fn new(value: T) -> Self
    where
        T: Copy,
    {
        let mut slots = [const { MaybeUninit::<Slot<T>>::uninit() }; MAX_CORES];
        let mut core = 0;
        while core < MAX_CORES {
            let (busy, value) = (AtomicBool::new(false), UnsafeCell::new(value));
            slots[core].write(Slot { busy, value });
            core += 1;
        }
        // SAFETY: every slot was written above, and both arrays have one layout.
        CoreLocal(unsafe { core::mem::transmute_copy(&slots) })
    }

    /// Runs `f` on this core's value, with interrupts masked. Panics if `f` calls it again.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let on = cpu::irqs_off();
        let slot = &self.0[cpu::core().index() % MAX_CORES];
        // Relaxed suffices: only this core gets here, and it is not interrupted.
        assert!(!slot.busy.load(Ordering::Relaxed), "core-local state is borrowed already");
        slot.busy.store(true, Ordering::Relaxed);
        // SAFETY: `busy` was false, so no code of this core has a borrow; other cores use other
        // elements. Interrupts stay masked until the borrow ends.
        let result = f(unsafe { &mut *slot.value.get() });
        slot.busy.store(false, Ordering::Relaxed);
        cpu::irqs_restore(on);
        result
    }
}

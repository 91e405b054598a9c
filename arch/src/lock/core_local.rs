//! State of a kernel object that belongs to one core at a time: no lock, interrupts masked.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

use abi::boot::MAX_CORES;

use crate::cpu;

/// One `T` a core of the domain.
pub struct CoreLocal<T>([Slot<T>; MAX_CORES]);

#[repr(align(64))]
struct Slot<T> {
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` gives a core its own element only, to one borrower at a time (`busy`), so a value
// is reached by one core; that asks for `T: Send`.
unsafe impl<T: Send> Sync for CoreLocal<T> {}

impl<T> CoreLocal<T> {
    /// `value` for each core.
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

    /// This core's, with interrupts masked. `f` must not come back here: that is a panic.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let on = cpu::irqs_off();
        let slot = &self.0[cpu::core().index() % MAX_CORES];
        // Plain accesses: only this core gets here, and it is not interrupted.
        assert!(!slot.busy.load(Ordering::Relaxed), "core-local state is borrowed already");
        slot.busy.store(true, Ordering::Relaxed);
        // SAFETY: `busy` was false, so nobody on this core has a borrow; other cores take other
        // elements. Interrupts stay masked, so this core does nothing else until the end.
        let result = f(unsafe { &mut *slot.value.get() });
        slot.busy.store(false, Ordering::Relaxed);
        cpu::irqs_restore(on);
        result
    }
}

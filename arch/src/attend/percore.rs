//! State of this crate that belongs to one core, and hooks that image installs.
//!
//! On a board: an array over cores, and one word a hook. On a host, where a thread stands for a
//! core and several kernels live in one process: the thread's own.

#[cfg(target_os = "none")]
mod place {
    use abi::boot::MAX_CORES;
    use core::cell::UnsafeCell;
    use core::marker::PhantomData;
    use core::sync::atomic::{AtomicUsize, Ordering};

    use crate::cpu;

    /// One `T` a core.
    pub(crate) struct PerCore<T>(pub(crate) [Slot<T>; MAX_CORES]);

    /// One core's.
    pub(crate) struct Slot<T>(pub(crate) UnsafeCell<T>);

    // SAFETY: an element is reached only by its own core and with interrupts masked (`with`).
    unsafe impl<T> Sync for PerCore<T> {}

    impl<T> PerCore<T> {
        /// This core's; `f` must not come back here for the same value.
        #[inline]
        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            let on = cpu::irqs_off();
            // SAFETY: only this core reaches its element, nothing interrupts it, and `f` is a
            // closure of this crate that does not recur.
            let result = f(unsafe { &mut *self.0[cpu::core().index()].0.get() });
            cpu::irqs_restore(on);
            result
        }
    }

    /// A function pointer of type `F`, or nothing yet.
    pub(crate) struct Hook<F>(AtomicUsize, PhantomData<F>);

    impl<F: Copy> Hook<F> {
        pub(crate) const fn new() -> Self {
            const { assert!(size_of::<F>() == size_of::<usize>()) };
            Hook(AtomicUsize::new(0), PhantomData)
        }
        pub(crate) fn set(&self, hook: F) {
            // SAFETY: `F` has the size of a `usize` (asserted in `new`) and is a function pointer.
            self.0.store(unsafe { core::mem::transmute_copy(&hook) }, Ordering::Release);
        }
        #[inline]
        pub(crate) fn get(&self) -> Option<F> {
            let word = self.0.load(Ordering::Acquire);
            // SAFETY: a word that is not 0 was stored by `set` from an `F`.
            (word != 0).then(|| unsafe { core::mem::transmute_copy(&word) })
        }
    }

    macro_rules! per_core {
        (static $name:ident: $type:ty = $init:expr;) => {
            static $name: $crate::attend::percore::PerCore<$type> =
                $crate::attend::percore::PerCore(
                    [const { $crate::attend::percore::Slot(core::cell::UnsafeCell::new($init)) };
                        abi::boot::MAX_CORES],
                );
        };
    }
    macro_rules! hook {
        (static $name:ident: $type:ty;) => {
            static $name: $crate::attend::percore::Hook<$type> =
                $crate::attend::percore::Hook::new();
        };
    }
    pub(crate) use {hook, per_core};
}

#[cfg(not(target_os = "none"))]
mod place {
    use std::cell::{Cell, RefCell};
    use std::thread::LocalKey;

    /// One `T` a thread.
    pub(crate) struct PerCore<T: 'static>(pub(crate) &'static LocalKey<RefCell<T>>);

    impl<T> PerCore<T> {
        /// This thread's. Never inlined: a context may move to another thread in a switch, and the
        /// address of a thread-local must not be kept across it.
        #[inline(never)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            self.0.with(|value| f(&mut value.borrow_mut()))
        }
    }

    /// A function pointer of type `F`, or nothing yet.
    pub(crate) struct Hook<F: 'static>(pub(crate) &'static LocalKey<Cell<Option<F>>>);

    impl<F: Copy> Hook<F> {
        #[inline(never)]
        pub(crate) fn set(&self, hook: F) {
            self.0.set(Some(hook));
        }
        #[inline(never)]
        pub(crate) fn get(&self) -> Option<F> {
            self.0.get()
        }
    }

    macro_rules! per_core {
        (static $name:ident: $type:ty = $init:expr;) => {
            static $name: $crate::attend::percore::PerCore<$type> = {
    std::thread_local!(static LOCAL: std::cell::RefCell<$type> =
                    const { std::cell::RefCell::new($init) });
                $crate::attend::percore::PerCore(&LOCAL)
            };
        };
    }
    macro_rules! hook {
        (static $name:ident: $type:ty;) => {
            static $name: $crate::attend::percore::Hook<$type> = {
    std::thread_local!(static LOCAL: std::cell::Cell<Option<$type>> =
                    const { std::cell::Cell::new(None) });
                $crate::attend::percore::Hook(&LOCAL)
            };
        };
    }
    pub(crate) use {hook, per_core};
}

#[cfg(target_os = "none")]
pub(crate) use place::Slot;
pub(crate) use place::{Hook, PerCore, hook, per_core};

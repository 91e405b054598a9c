//! Per-core state of this crate, and hooks that the kernel installs.
//!
//! On a board: an array indexed by core, and one word per hook. On a host, where threads stand for
//! cores and several kernels share a process: thread-local variables.

#[cfg(target_os = "none")]
mod imp {
    use abi::boot::MAX_CORES;
    use core::cell::UnsafeCell;
    use core::marker::PhantomData;
    use core::sync::atomic::{AtomicUsize, Ordering};

    use crate::cpu;

    /// A word of each core, which interrupt handlers leave as it was.
    pub(crate) struct Words(pub(crate) [AtomicUsize; MAX_CORES]);

    impl Words {
        #[inline]
        fn own(&self) -> &AtomicUsize {
            &self.0[cpu::core().index() % MAX_CORES]
        }

        /// Returns this core's word; if the caller is preempted meanwhile, perhaps that of the core
        /// on which it was.
        #[inline]
        pub(crate) fn glance(&self) -> usize {
            self.own().load(Ordering::Relaxed)
        }

        /// Returns this core's word.
        #[cold]
        #[inline(never)]
        pub(crate) fn get(&self) -> usize {
            let on = cpu::irqs_off();
            let word = self.glance();
            cpu::irqs_restore(on);
            word
        }

        /// Sets this core's word, for a caller that is not preempted. Returns the previous one.
        #[inline]
        pub(crate) fn set_held(&self, word: usize) -> usize {
            let own = self.own();
            let before = own.load(Ordering::Relaxed);
            own.store(word, Ordering::Relaxed);
            before
        }
    }

    pub(crate) struct PerCore<T>(pub(crate) [Slot<T>; MAX_CORES]);

    pub(crate) struct Slot<T>(pub(crate) UnsafeCell<T>);

    // SAFETY: an element is reached only by its own core: with interrupts masked (`with`), or where
    // interrupt handlers leave it as it was and the caller stays on its core (the others).
    unsafe impl<T> Sync for PerCore<T> {}

    // So that the index of a core needs no check.
    const _: () = assert!(MAX_CORES.is_power_of_two());

    impl<T> PerCore<T> {
        #[inline]
        fn slot(&self) -> &Slot<T> {
            &self.0[cpu::core().index() % MAX_CORES]
        }

        /// Runs `f` on this core's value. `f` must not access the same variable again.
        #[inline]
        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            let on = cpu::irqs_off();
            // SAFETY: only this core accesses its element, nothing interrupts it, and `f` is a
            // closure of this crate that does not recurse.
            let result = f(unsafe { &mut *self.slot().0.get() });
            cpu::irqs_restore(on);
            result
        }
    }

    /// For a value that interrupt handlers leave as it was. A caller that is not preempted need not
    /// mask interrupts then.
    impl<T: Copy> PerCore<T> {
        #[inline]
        pub(crate) fn get_held(&self) -> T {
            // SAFETY: the core's own element, for the whole call; no reference to it exists.
            unsafe { self.slot().0.get().read() }
        }
        #[inline]
        pub(crate) fn set_held(&self, value: T) {
            // SAFETY: as above.
            unsafe { self.slot().0.get().write(value) }
        }
        /// Returns where this core's value is.
        #[inline]
        pub(crate) fn place(&self) -> *mut T {
            self.slot().0.get()
        }
    }

    /// A function pointer of type `F`, or none.
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
    macro_rules! word_per_core {
        (static $name:ident;) => {
            static $name: $crate::attend::percore::Words = $crate::attend::percore::Words(
                [const { core::sync::atomic::AtomicUsize::new(0) }; abi::boot::MAX_CORES],
            );
        };
    }
    macro_rules! hook {
        (static $name:ident: $type:ty;) => {
            static $name: $crate::attend::percore::Hook<$type> =
                $crate::attend::percore::Hook::new();
        };
    }
    pub(crate) use {hook, per_core, word_per_core};
}

#[cfg(not(target_os = "none"))]
mod imp {
    use std::cell::{Cell, RefCell};
    use std::thread::LocalKey;

    /// A word of each thread.
    pub(crate) struct Words(pub(crate) &'static LocalKey<Cell<usize>>);

    impl Words {
        #[inline(never)]
        pub(crate) fn glance(&self) -> usize {
            self.0.get()
        }
        pub(crate) fn get(&self) -> usize {
            self.glance()
        }
        #[inline(never)]
        pub(crate) fn set_held(&self, word: usize) -> usize {
            self.0.replace(word)
        }
    }

    pub(crate) struct PerCore<T: 'static>(pub(crate) &'static LocalKey<RefCell<T>>);

    impl<T> PerCore<T> {
        /// Runs `f` on this thread's value. Not inlined: a context may move to another thread in a
        /// switch, and the address of a thread-local must not be kept across it.
        #[inline(never)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            self.0.with(|value| f(&mut value.borrow_mut()))
        }
    }

    impl<T: Copy> PerCore<T> {
        pub(crate) fn get_held(&self) -> T {
            self.with(|own| *own)
        }
        pub(crate) fn set_held(&self, value: T) {
            self.with(|own| *own = value);
        }
        pub(crate) fn place(&self) -> *mut T {
            self.with(|own| &raw mut *own)
        }
    }

    /// A function pointer of type `F`, or none.
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
    macro_rules! word_per_core {
        (static $name:ident;) => {
            static $name: $crate::attend::percore::Words = {
    std::thread_local!(static LOCAL: std::cell::Cell<usize> =
                    const { std::cell::Cell::new(0) });
                $crate::attend::percore::Words(&LOCAL)
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
    pub(crate) use {hook, per_core, word_per_core};
}

#[cfg(target_os = "none")]
pub(crate) use imp::Slot;
pub(crate) use imp::{Hook, PerCore, Words, hook, per_core, word_per_core};

impl<T: Copy> PerCore<T> {
    /// Runs `work` with another value, for a caller as [`PerCore::set_held`]'s. What `work` changes
    /// it changes back.
    #[inline]
    pub(crate) fn during<R>(&self, change: impl FnOnce(T) -> T, work: impl FnOnce() -> R) -> R {
        let before = self.get_held();
        self.set_held(change(before));
        let result = work();
        self.set_held(before);
        result
    }
}

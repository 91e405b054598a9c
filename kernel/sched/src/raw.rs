//! The unsafe steps of scheduling: switching from one thread's context to another's, and the first
//! step of a new thread. A home of `unsafe`; holding the scheduler's lock makes both sound.
#![allow(unsafe_code)]

use crate::{PerThread, per_thread};
use arch::context::{Context, switch};
use arch::lock::Lock;
use core::cell::UnsafeCell;

/// The scheduler as a new thread sees it.
pub trait FirstStep: Sync {
    type Threads;

    /// The lock that is held when contexts are switched.
    fn lock(&self) -> &Lock<Self::Threads>;

    /// First function of a new thread. The lock is released and interrupts are masked.
    fn run_current(&self) -> !;
}

pub struct Contexts(PerThread<UnsafeCell<Context>>);

// SAFETY: a context is accessed only with the scheduler's lock held (`prepare`, `switch`), or by
// the core that runs its thread.
unsafe impl Sync for Contexts {}
// SAFETY: a context is only register values.
unsafe impl Send for Contexts {}

impl Contexts {
    pub fn new() -> Self {
        Contexts(per_thread(|| UnsafeCell::new(Context::empty())))
    }

    /// Makes thread `index` start on the stack that ends at `top`. The caller holds the scheduler's
    /// lock, and the thread is new, so no core runs in this context.
    pub fn prepare<S: FirstStep>(&self, index: usize, top: usize, scheduler: &'static S) {
        let argument = core::ptr::from_ref(scheduler) as usize;
        // SAFETY: `top` is the top of a mapped stack of its own (port `Stacks`), and `first_step`
        // never returns.
        let context = unsafe { Context::new(top, first_step::<S>, argument) };
        // SAFETY: the lock is held, and no core runs in this context.
        unsafe { *self.0[index].get() = context };
    }

    /// Switches from thread `from` to thread `to`; returns when another thread switches back to
    /// `from`. The caller holds the scheduler's lock; the thread that continues releases it.
    #[inline]
    pub fn switch(&self, from: usize, to: usize) {
        // SAFETY: the lock is held, so interrupts are masked and no other core accesses these two
        // contexts; `to` was saved by an earlier switch or made by `prepare`.
        unsafe { switch(self.0[from].get(), self.0[to].get()) };
    }
}

extern "C" fn first_step<S: FirstStep>(argument: usize) -> ! {
    // SAFETY: `prepare` passes a `&'static S`.
    let scheduler = unsafe { &*(argument as *const S) };
    // SAFETY: this core holds the lock, taken by the thread that switched here; its guard stays in
    // that thread's frame until the lock is taken for that thread again.
    unsafe { scheduler.lock().force_unlock() };
    scheduler.run_current()
}

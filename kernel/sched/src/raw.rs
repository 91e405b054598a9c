//! The unsafe steps of scheduling: from one thread's context into another's, and the first step of
//! a new one. A home of `unsafe`; the scheduler's lock is what makes both sound.
#![allow(unsafe_code)]

use crate::MAX_THREADS;
use crate::scheduler::Scheduler;
use alloc::boxed::Box;
use arch::context::{Context, switch};
use core::cell::UnsafeCell;

/// The saved contexts of all threads, by index.
pub struct Contexts(Box<[UnsafeCell<Context>]>);

// SAFETY: a context is written and read only with the scheduler's lock held (`prepare`, `switch`),
// or by the one core that runs its thread.
unsafe impl Sync for Contexts {}
// SAFETY: contexts are plain registers.
unsafe impl Send for Contexts {}

impl Contexts {
    /// Room for all threads.
    pub fn new() -> Self {
        Contexts((0..MAX_THREADS).map(|_| UnsafeCell::new(Context::empty())).collect())
    }

    /// Makes thread `index` start on the stack that ends at `top`. The scheduler's lock is held and
    /// the thread is new, so nobody runs in this context.
    pub fn prepare(&self, index: usize, top: usize, scheduler: &'static Scheduler) {
        let argument = core::ptr::from_ref(scheduler) as usize;
        // SAFETY: `top` is the top of a mapped stack of its own (port `Stacks`), and `first_step`
        // never returns.
        let context = unsafe { Context::new(top, first_step, argument) };
        // SAFETY: the lock is held and nobody runs in this context.
        unsafe { *self.0[index].get() = context };
    }

    /// Leaves thread `from` for thread `to`; returns when somebody switches to `from` again.
    /// The scheduler's lock is held; who comes releases it.
    pub fn switch(&self, from: usize, to: usize) {
        // SAFETY: the lock is held, so interrupts are masked and no other core reads or writes
        // these two contexts; `to` was saved by an earlier switch or made by `prepare`.
        unsafe { switch(self.0[from].get(), self.0[to].get()) };
    }
}

extern "C" fn first_step(argument: usize) -> ! {
    // SAFETY: `prepare` put a `&'static Scheduler` there.
    let scheduler = unsafe { &*(argument as *const Scheduler) };
    // SAFETY: this core holds the lock, taken by the thread that switched here; its guard stays in
    // that thread's frame until the lock is taken for it again.
    unsafe { scheduler.table.force_unlock() };
    scheduler.run_current()
}

//! Locks between the cores of one domain, and values that are set once.
//!
//! [`Lock`] is a fair ticket lock. Interrupts are masked while it is held, waiting for it goes
//! through `attend::until`, and the guard restores the interrupt state. Guards are dropped in the
//! reverse order of locking, but for [`Guard::release_before`]. Releasing the outermost lock of a
//! core (the one taken with interrupts unmasked) runs the hook of `attend::install_released`.
//!
//! Ranks order locks (`order`): a core that holds one may acquire only higher ranks.

mod core_local;

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::order::{note_early_release, note_try};
use crate::{attend, cpu};

pub use crate::order::{
    Rank, Violation, assert_may_wait, held, install_report, note_acquire, note_release,
};
pub use core_local::CoreLocal;

/// The order in which cores get a lock.
struct Tickets {
    next: AtomicU32,
    serving: AtomicU32,
}

impl Tickets {
    const fn new() -> Tickets {
        Tickets { next: AtomicU32::new(0), serving: AtomicU32::new(0) }
    }

    /// Waits until the caller's ticket is served.
    #[inline]
    fn take(&self) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        // Acquire: everything the previous holder did happens before what this one does.
        if self.serving.load(Ordering::Acquire) != ticket {
            self.wait_for(ticket);
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_for(&self, ticket: u32) {
        attend::until_locked(|| self.serving.load(Ordering::Acquire) == ticket);
    }

    /// Takes a ticket if it is served at once.
    #[inline]
    fn try_take(&self) -> bool {
        let ticket = self.serving.load(Ordering::Acquire);
        let (next, order) = (ticket.wrapping_add(1), Ordering::Relaxed);
        self.next.compare_exchange(ticket, next, Ordering::Acquire, order).is_ok()
    }

    /// Serves the next ticket. Called by the holder only.
    #[inline]
    fn serve_next(&self) {
        // Only the holder stores `serving`. Release: see `take`.
        let next = self.serving.load(Ordering::Relaxed).wrapping_add(1);
        self.serving.store(next, Ordering::Release);
    }

    fn are_taken(&self) -> bool {
        self.next.load(Ordering::Relaxed) != self.serving.load(Ordering::Relaxed)
    }
}

/// A value that one core at a time can access.
pub struct Lock<T: ?Sized> {
    tickets: Tickets,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: tickets give one guard at a time, so `&Lock<T>` gives `&mut T` to one core at a time,
// which requires only `T: Send`.
unsafe impl<T: ?Sized + Send> Sync for Lock<T> {}
// SAFETY: a lock owns its value.
unsafe impl<T: ?Sized + Send> Send for Lock<T> {}

impl<T> Lock<T> {
    pub const fn new(rank: Rank, value: T) -> Self {
        Lock { tickets: Tickets::new(), rank, value: UnsafeCell::new(value) }
    }

    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Lock<T> {
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Waits for the lock. Interrupts stay masked until the guard is dropped.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let irqs_on = cpu::irqs_off();
        note_acquire(self.rank);
        self.tickets.take();
        Guard { lock: self, irqs_on, not_send: PhantomData }
    }

    /// Returns `None` if another core holds the lock or waits for it.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let irqs_on = cpu::irqs_off();
        if !self.tickets.try_take() {
            cpu::irqs_restore(irqs_on);
            return None;
        }
        note_try(self.rank);
        Some(Guard { lock: self, irqs_on, not_send: PhantomData })
    }

    /// Releases the lock without its guard; interrupts stay masked.
    ///
    /// # Safety
    /// This core holds the lock, and its guard lives on in the frame of a thread that was switched
    /// away from, which drops it only after the lock was taken for that thread again.
    pub unsafe fn force_unlock(&self) {
        note_release(self.rank);
        self.tickets.serve_next();
    }

    /// Returns the value without locking: `&mut self` excludes other users.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Returns whether the lock is held or waited for. For reports: it may change at any time.
    pub fn is_locked(&self) -> bool {
        self.tickets.are_taken()
    }
}

impl<T: ?Sized> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lock({}, {})", self.rank.name, if self.is_locked() { "held" } else { "free" })
    }
}

/// Access to a locked value. Stays on the core that took the lock.
pub struct Guard<'a, T: ?Sized> {
    lock: &'a Lock<T>,
    irqs_on: bool,
    not_send: PhantomData<*mut ()>,
}

impl<T: ?Sized> Guard<'_, T> {
    /// Releases this lock while `inner`, which was taken under it, stays held: that guard restores
    /// the interrupt state then.
    #[inline]
    pub fn release_before<U: ?Sized>(self, inner: &mut Guard<'_, U>) {
        debug_assert!(!inner.irqs_on, "it was taken first");
        note_early_release(self.lock.rank);
        self.lock.tickets.serve_next();
        inner.irqs_on = self.irqs_on;
        core::mem::forget(self);
    }
}

impl<T: ?Sized> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard's ticket is being served, so no other core accesses the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes this the only borrow.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        note_release(self.lock.rank);
        self.lock.tickets.serve_next();
        if self.irqs_on {
            if attend::has_reasons() {
                attend::released();
            }
            cpu::irqs_restore(true);
        }
    }
}

/// A value that is set once.
pub struct Once<T> {
    /// 0: unset, 1: being set, 2: set.
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: only the core that moves `state` from 0 to 1 writes the value, before it stores 2 with
// Release. From then on the value is shared, which requires `T: Sync`, and `T: Send` to get here.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    pub const fn new() -> Self {
        Once { state: AtomicU8::new(0), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Sets the value; returns it as an error if one was set before.
    pub fn set(&self, value: T) -> Result<&T, T> {
        if self.state.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(value);
        }
        // SAFETY: this core moved `state` to 1; no other core writes, and none reads before 2.
        unsafe { (*self.value.get()).write(value) };
        self.state.store(2, Ordering::Release);
        // SAFETY: written above, and never again.
        Ok(unsafe { (*self.value.get()).assume_init_ref() })
    }

    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: 2 is stored (Release) after the value was written, and it is never written again.
        (self.state.load(Ordering::Acquire) == 2)
            .then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }
}

impl<T> Drop for Once<T> {
    fn drop(&mut self) {
        if *self.state.get_mut() == 2 {
            // SAFETY: the value was written, and nothing uses it after this.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Once::new()
    }
}

#[cfg(test)]
mod tests;

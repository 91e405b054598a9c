//! The lock on the host: one holder at a time, in the order of the ranks.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::vec::Vec;

use super::*;

std::thread_local!(static SEEN: RefCell<Vec<Violation>> = const { RefCell::new(Vec::new()) });

fn record(violation: Violation) {
    SEEN.with_borrow_mut(|seen| seen.push(violation));
}

fn take() -> Vec<Violation> {
    SEEN.take()
}

const LOW: Rank = Rank::new(10, "low");
const HIGH: Rank = Rank::new(20, "high");
const LEAF: Rank = Rank::leaf(30, "leaf");

#[test]
fn a_wrong_order_is_reported() {
    install_report(record);
    let (low, high, leaf) = (Lock::new(LOW, ()), Lock::new(HIGH, ()), Lock::new(LEAF, ()));
    {
        let _low = low.lock();
        let _high = high.lock();
        let _leaf = leaf.lock();
        assert_eq!(held(), 3);
    }
    assert_eq!(take(), []);
    {
        let _high = high.lock();
        let _low = low.lock();
    }
    assert_eq!(take(), [Violation::Order { held: HIGH, wanted: LOW }]);
    {
        let other = Lock::new(HIGH, ());
        let _high = high.lock();
        let _other = other.lock();
    }
    assert_eq!(take(), [Violation::Order { held: HIGH, wanted: HIGH }]);
    {
        let _leaf = leaf.lock();
        attend::until(|| true);
    }
    assert_eq!(take(), [Violation::Wait { held: LEAF }]);
    {
        let low = low.lock();
        let high = high.lock();
        drop(low);
        drop(high);
    }
    assert_eq!(take(), [Violation::Release { last: HIGH, dropped: LOW }]);
    assert_eq!(held(), 0);
}

#[test]
#[should_panic(expected = "lock order")]
fn a_violation_panics_by_default() {
    let (low, high) = (Lock::new(LOW, ()), Lock::new(HIGH, ()));
    let _high = high.lock();
    let _low = low.lock();
}

#[test]
fn interrupts_are_masked_while_held_and_the_outermost_release_runs_the_hook() {
    std::thread_local!(static POLLS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
    attend::install_released(|| {
        assert!(!cpu::irqs_on());
        POLLS.set(POLLS.get() + 1);
    });
    let (low, high) = (Lock::new(LOW, ()), Lock::new(HIGH, ()));
    cpu::irqs_restore(true);
    {
        let _low = low.lock();
        assert!(!cpu::irqs_on());
        drop(high.lock());
        assert!(!cpu::irqs_on());
        assert_eq!(POLLS.get(), 0);
    }
    assert!(cpu::irqs_on());
    assert_eq!(POLLS.get(), 1);
    cpu::irqs_off();
    drop(low.lock());
    assert!(!cpu::irqs_on());
    assert_eq!(POLLS.get(), 1);
}

#[test]
fn try_lock_takes_a_free_lock_only() {
    let lock = Lock::new(LOW, 1);
    let guard = lock.try_lock().unwrap();
    assert!(lock.try_lock().is_none());
    drop(guard);
    *lock.try_lock().unwrap() += 1;
    assert_eq!(*lock.lock(), 2);
}

#[test]
fn four_threads_lose_no_update() {
    let lock = Arc::new(Lock::new(LOW, 0u64));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let lock = lock.clone();
            thread::spawn(move || (0..5000).for_each(|_| *lock.lock() += 1))
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(*lock.lock(), 20_000);
}

#[test]
fn waiters_are_served_in_fifo_order() {
    let lock = Arc::new(Lock::new(LOW, Vec::new()));
    let arrived = Arc::new(AtomicUsize::new(0));
    let guard = lock.lock();
    let threads: Vec<_> = (0..4)
        .map(|i| {
            let (seen, mine) = (lock.clone(), arrived.clone());
            let thread = thread::spawn(move || {
                mine.fetch_add(1, Ordering::SeqCst);
                seen.lock().push(i);
            });
            // The next thread starts when this one has its ticket.
            while lock.tickets.next.load(Ordering::SeqCst) != i + 2 {
                thread::yield_now();
            }
            thread
        })
        .collect();
    drop(guard);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(*lock.lock(), [0, 1, 2, 3]);
}

#[test]
fn once_can_be_set_once() {
    static VALUE: Once<u64> = Once::new();
    assert_eq!(VALUE.get(), None);
    assert_eq!(VALUE.set(7), Ok(&7));
    assert_eq!(VALUE.set(8), Err(8));
    assert_eq!(VALUE.get(), Some(&7));
}

/// A request that a core serves while it holds a ticket must not wait for that ticket.
#[test]
fn a_core_waiting_for_a_lock_serves_nothing_that_locks() {
    static CONTENDED: Lock<u32> = Lock::new(LEAF, 0);
    static SERVED: AtomicUsize = AtomicUsize::new(0);
    fn serve(waits: attend::Waits) {
        if waits == attend::Waits::Event {
            *CONTENDED.lock() += 1;
        }
        SERVED.fetch_add(1, Ordering::Relaxed);
    }
    let holder = CONTENDED.lock();
    let waiter = thread::spawn(|| {
        attend::install(serve);
        *CONTENDED.lock() += 10;
        let mut looks = 0;
        attend::until(|| {
            looks += 1;
            looks > 2
        });
    });
    while SERVED.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
    drop(holder);
    waiter.join().expect("the waiter finishes");
    assert!(*CONTENDED.lock() > 10, "a wait for something else serves what locks");
}

#[test]
fn a_value_that_was_set_is_dropped_with_its_once() {
    let value = Arc::new(7);
    let (set, unset) = (Once::new(), Once::<Arc<i32>>::new());
    assert!(set.set(value.clone()).is_ok());
    assert_eq!(Arc::strong_count(&value), 2);
    drop((set, unset));
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_lock_is_released_before_the_one_taken_under_it() {
    static OUTER: Lock<u32> = Lock::new(Rank::new(1, "outer"), 0);
    static INNER: Lock<u32> = Lock::new(Rank::new(2, "inner"), 0);
    let outer = OUTER.lock();
    let mut inner = INNER.lock();
    outer.release_before(&mut inner);
    assert!(!OUTER.is_locked() && INNER.is_locked());
    *inner += 1;
    drop(inner);
    assert!(!INNER.is_locked());
    assert_eq!(held(), 0);
}

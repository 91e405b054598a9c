//! Domains over words of this process.

use super::*;
use std::thread;
use std::vec::Vec;

#[test]
fn four_domains_exclude_each_other() {
    let window = Window::fresh(5);
    let threads: Vec<_> = (0..4)
        .map(|domain| {
            thread::spawn(move || {
                let lock = DomainLock::over(&window, 4, domain);
                for _ in 0..2000 {
                    let _guard = lock.acquire();
                    let seen = window.load(32);
                    window.store(32, seen + 1);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(window.load(32), 8000);
    assert!((0..4).all(|domain| !LockWord(window.load(8 * domain)).blocks()));
}

#[test]
fn an_attempt_at_a_taken_lock_changes_nothing() {
    let window = Window::fresh(2);
    let (one, two) = (DomainLock::over(&window, 2, 0), DomainLock::over(&window, 2, 1));
    let guard = one.acquire();
    assert!(!two.attempt());
    let words = || [0, 8].map(|at| LockWord(window.load(at)));
    assert!(words()[0].blocks() && words()[1].is_idle());
    drop(guard);
    assert!(words().iter().all(|word| word.is_idle()) && two.attempt());
}

#[test]
fn a_domain_gives_way_to_one_that_waits_but_not_for_ever() {
    let window = Window::fresh(2);
    let one = DomainLock::over(&window, 2, 0);
    let wants = LockWord::default().wanting();
    window.store(8, wants.0);
    (0..OVERTAKES).for_each(|_| {
        assert!(one.attempt());
        one.release();
    });
    assert!(!one.attempt());
    one.wait();
    one.release();
    one.overtakes.store(OVERTAKES, Ordering::Relaxed);
    // The other one takes the lock when it sees that it is free.
    thread::scope(|scope| {
        let taken = scope.spawn(|| {
            while blocks(&window.part(0, 8)) {
                thread::yield_now();
            }
            window.store(8, wants.attempt().entered().0);
            (0..100).for_each(|_| thread::yield_now());
            window.store(8, wants.attempt().ended().0);
        });
        while !blocks(&window.part(8, 8)) && !taken.is_finished() {
            thread::yield_now();
        }
        drop(one.acquire());
    });
    assert!(LockWord(window.load(8)).is_idle());
}

#[test]
fn the_next_holder_learns_of_lives_and_of_a_death_with_the_lock() {
    let window = Window::fresh(2);
    let (one, two) = (DomainLock::over(&window, 2, 0), DomainLock::over(&window, 2, 1));
    let guard = one.acquire();
    one.know(3);
    drop(guard);
    let guard = two.acquire();
    assert_eq!(two.known(), Known { life: 3, broken: 0 });
    two.know(3);
    std::mem::forget(guard);
    window.store(8, LockWord(window.load(8)).fenced().0);
    let guard = one.acquire();
    assert_eq!(one.known(), Known { life: 3, broken: 3 });
    one.know(4);
    drop(guard);
    let again = DomainLock::over(&window, 2, 1);
    let guard = again.acquire();
    assert_eq!(again.known(), Known { life: 4, broken: 3 }, "its former life's death counts");
    drop(guard);
}

#[test]
fn a_kept_lock_is_taken_without_a_store_until_it_is_released() {
    let window = Window::fresh(2);
    let (one, two) = (DomainLock::over(&window, 2, 0), DomainLock::over(&window, 2, 1));
    one.kept.begin();
    drop(one.acquire());
    let kept = window.load(0);
    assert!(LockWord(kept).blocks() && !two.attempt());
    drop(one.acquire());
    assert_eq!((window.load(0), one.kept.steps(0)), (kept, 2));
    one.kept.release_all(|lock| leave(&one.all, lock));
    assert!(LockWord(window.load(0)).is_idle() && two.attempt());
    two.release();
    drop(one.acquire());
    assert_eq!(
        LockWord(window.load(0)),
        LockWord(kept).ended().attempt().ended(),
        "no longer kept"
    );
}

#[test]
fn a_lock_is_not_released_under_a_step_that_kept_it() {
    let window = Window::fresh(2);
    let one = DomainLock::over(&window, 2, 0);
    one.kept.begin();
    drop(one.acquire());
    let guard = one.acquire();
    one.kept.release_all(|_| panic!("a step has it"));
    assert!(LockWord(window.load(0)).blocks());
    drop(guard);
    assert!(LockWord(window.load(0)).is_idle());
}

#[test]
fn a_domain_that_waits_keeps_nothing() {
    let window = Window::fresh(2);
    let one = DomainLock::over(&window, 2, 0);
    let other = LockWord::default().attempt();
    window.store(8, other.0);
    one.kept.begin();
    thread::scope(|scope| {
        let taken = scope.spawn(|| drop(one.acquire()));
        while !LockWord(window.load(0)).wants() && !taken.is_finished() {
            thread::yield_now();
        }
        window.store(8, other.ended().0);
    });
    assert!(LockWord(window.load(0)).is_idle() && !one.kept.keeps());
}

#[test]
fn domains_that_keep_and_release_at_any_time_exclude_each_other() {
    let window = Window::fresh(4);
    thread::scope(|scope| {
        for domain in 0..3 {
            let lock: &DomainLock = Box::leak(Box::new(DomainLock::over(&window, 3, domain)));
            let steps = scope.spawn(move || {
                for _ in 0..2000 {
                    let _guard = lock.acquire();
                    window.store(24, window.load(24) + 1);
                }
            });
            // As interrupts of another core do, until all is over.
            scope.spawn(move || {
                while !steps.is_finished() {
                    lock.kept.begin();
                    thread::yield_now();
                    lock.kept.release_all(|_| leave(&lock.own, 0));
                }
            });
        }
    });
    assert_eq!(window.load(24), 6000);
    assert!((0..3).all(|domain| LockWord(window.load(8 * domain)).is_idle()));
}

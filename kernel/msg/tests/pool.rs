//! The pool's policy: scenarios, and invariants under random events.

use base::prng::Prng;
use kernel_msg::pool::{Arrival, MIN_HANDLERS, Next, Pool, Shortage};

#[test]
fn a_handler_is_created_only_if_one_blocks_and_none_is_idle() {
    let mut pool = Pool::new(4);
    assert_eq!(pool.arrived(), Arrival::Hand);
    assert_eq!(pool.will_block(), Shortage::None, "one is idle");
    assert_eq!(pool.arrived(), Arrival::Hand);
    assert_eq!(pool.arrived(), Arrival::Queue, "a handler is running");
    assert_eq!(pool.will_block(), Shortage::Create);
    assert_eq!(pool.created(), Next::Serve);
    assert_eq!(pool.will_block(), Shortage::Create);
    assert_eq!(pool.created(), Next::Idle);
    for _ in 0..3 {
        pool.unblocked();
    }
    assert_eq!(pool.finished(), Next::Idle);
    assert_eq!(pool.finished(), Next::Retire, "two are kept");
    assert_eq!(pool.finished(), Next::Retire);
    assert_eq!((pool.idle(), pool.threads()), (MIN_HANDLERS, MIN_HANDLERS));
}

#[test]
fn without_handlers_or_memory_requests_are_refused_at_once() {
    let mut pool = Pool::new(2);
    assert_eq!((pool.arrived(), pool.arrived(), pool.arrived()), {
        (Arrival::Hand, Arrival::Hand, Arrival::Queue)
    });
    assert_eq!(pool.will_block(), Shortage::None, "the other one is running");
    assert_eq!(pool.will_block(), Shortage::RefuseQueue(1));
    assert_eq!(pool.arrived(), Arrival::Refuse);
    pool.unblocked();
    assert_eq!(pool.arrived(), Arrival::Queue);
    assert_eq!(pool.finished(), Next::Serve);
    let mut pool = Pool::new(3);
    let _ = (pool.arrived(), pool.arrived(), pool.arrived());
    assert_eq!(pool.will_block(), Shortage::Create);
    assert_eq!(pool.will_block(), Shortage::None, "one is being created");
    assert_eq!(pool.failed(), Shortage::RefuseQueue(1), "no memory for a handler");
    assert_eq!(pool.arrived(), Arrival::QueueAndCreate, "try again");
}

/// The actual threads of a core, to compare with the pool's counts.
#[derive(Default)]
struct Threads {
    running: u32,
    blocked: u32,
    creating: u32,
    queue: u32,
}

impl Threads {
    fn next(&mut self, next: Next) {
        match next {
            Next::Serve => self.queue -= 1,
            Next::Idle | Next::Retire => self.running -= 1,
        }
    }
    fn shortage(&mut self, shortage: Shortage) {
        match shortage {
            Shortage::None => {}
            Shortage::Create => self.creating += 1,
            Shortage::RefuseQueue(count) => {
                assert_eq!(u32::from(count), self.queue, "the whole queue");
                self.queue = 0;
            }
        }
    }
}

#[test]
fn no_request_is_queued_if_all_handlers_are_blocked() {
    for seed in 0..2000 {
        let mut prng = Prng::new(seed);
        let max = 2 + prng.below(5) as u16;
        let (mut pool, mut threads) = (Pool::new(max), Threads::default());
        for _ in 0..300 {
            match prng.below(5) {
                0 | 1 => match pool.arrived() {
                    Arrival::Hand => threads.running += 1,
                    Arrival::Queue => threads.queue += 1,
                    Arrival::QueueAndCreate => {
                        threads.queue += 1;
                        threads.creating += 1;
                    }
                    Arrival::Refuse => assert_eq!(threads.running + threads.creating, 0),
                },
                2 if threads.running > 0 => {
                    threads.running -= 1;
                    threads.blocked += 1;
                    let shortage = pool.will_block();
                    threads.shortage(shortage);
                }
                3 if threads.running > 0 => {
                    let next = pool.finished();
                    threads.next(next);
                }
                4 if threads.creating > 0 => {
                    threads.creating -= 1;
                    if prng.chance(2, 3) {
                        threads.running += 1;
                        let next = pool.created();
                        threads.next(next);
                    } else {
                        let shortage = pool.failed();
                        threads.shortage(shortage);
                    }
                }
                _ if threads.blocked > 0 => {
                    threads.blocked -= 1;
                    threads.running += 1;
                    pool.unblocked();
                }
                _ => {}
            }
            let active = threads.running + threads.creating;
            assert!(threads.queue == 0 || active > 0, "seed {seed}: stuck queue");
            assert_eq!(u32::from(pool.queued()), threads.queue, "seed {seed}");
            assert!(pool.threads() <= max && pool.idle() <= MIN_HANDLERS, "seed {seed}: {pool:?}");
        }
    }
}

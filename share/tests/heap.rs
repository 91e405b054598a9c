//! Which heap an allocation comes from, with the kernel's own routing (`arch::hold`): a step uses
//! its arena, a nested step that of its service, an interrupt the kernel's heap, and each core has
//! a current heap of its own. Memory is freed to the heap it came from.
//!
//! A separate test binary, because the global allocator is chosen per binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use base::port::Exclusive;
use share::{Answer, Arena, Current, Custody, Effects, Event, Instance, Outbox, Routed};
use share::{Service, Token};
use std::alloc::System;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Barrier;

struct Core;

impl Current for Core {
    fn heap() -> usize {
        arch::hold::heap()
    }
    fn set_heap(heap: usize) -> usize {
        arch::hold::set_heap(heap)
    }
}

#[global_allocator]
static ALLOCATOR: Routed<System, Core> = Routed::new(System);

type Work = Box<dyn FnMut(&mut Vec<Vec<u8>>)>;

thread_local! {
    /// A stack of closures; each step runs the last one.
    static WORK: RefCell<Vec<Work>> = const { RefCell::new(Vec::new()) };
}

/// A service whose state is what the closures allocate.
struct Keeper(Vec<Vec<u8>>);

impl Service for Keeper {
    type Request = u64;
    type Reply = u64;
    const NAME: &'static str = "keeper";
    fn start(_: u32) -> Self {
        Keeper(Vec::new())
    }
    fn sent(_: &u64, _: usize) -> usize {
        0
    }
    fn filled(_: &u64) -> usize {
        0
    }
    fn step(&mut self, _: u64, _: Event<'_, u64>, _: &mut dyn Effects) -> Answer<u64> {
        let work = WORK.with_borrow_mut(Vec::pop);
        if let Some(mut work) = work {
            work(&mut self.0);
            // It is the asker's, like bulk.
            let _own = arch::hold::HandlerScope::new();
            drop(work);
        }
        Answer::Done(self.0.len() as u64)
    }
}

struct Alone(RefCell<Arena>);

impl Exclusive<Arena> for Alone {
    fn exclusively<R>(&self, work: impl FnOnce(&mut Arena) -> R) -> R {
        work(&mut self.0.borrow_mut())
    }
}

impl Custody for Alone {}

struct Served {
    instance: Instance<Keeper, Alone, Core>,
    place: Range<usize>,
}

impl Served {
    fn new() -> &'static Served {
        let memory = Box::leak(vec![0u8; 40 * 4096].into_boxed_slice());
        let skip = memory.as_ptr().align_offset(4096);
        let memory = &mut memory[skip..skip + 36 * 4096];
        let start = memory.as_ptr().addr();
        let place = start..start + memory.len();
        let instance = Instance::new(Alone(RefCell::new(Arena::of(memory).unwrap())));
        arch::hold::begin();
        instance.start().unwrap();
        let _ = arch::hold::end();
        Box::leak(Box::new(Served { instance, place }))
    }

    /// Runs `work` within a step.
    fn step(&self, work: impl FnMut(&mut Vec<Vec<u8>>) + 'static) {
        {
            let _own = arch::hold::HandlerScope::new();
            WORK.with_borrow_mut(|all| all.push(Box::new(work)));
        }
        let event = Event::Request { token: Token::default(), request: &0, bulk: &mut [] };
        arch::hold::begin();
        self.instance.step(0, event, &mut Outbox::new()).unwrap();
        let _ = arch::hold::end();
    }

    fn holds(&self, memory: &[u8]) -> bool {
        self.place.contains(&memory.as_ptr().addr())
    }

    fn used(&self) -> u64 {
        arch::hold::begin();
        let used = self.instance.usage().used;
        let _ = arch::hold::end();
        used
    }
}

#[test]
fn a_nested_step_uses_its_own_arena_and_returns_to_the_outer_one() {
    let (outer, inner) = (Served::new(), Served::new());
    outer.step(move |kept| {
        kept.push(vec![1; 100]);
        inner.step(move |kept| {
            kept.push(vec![2; 100]);
            assert!(inner.holds(&kept[0]) && !outer.holds(&kept[0]));
        });
        kept.push(vec![3; 100]);
        assert!(outer.holds(&kept[0]) && outer.holds(&kept[1]));
    });
    assert_eq!(arch::hold::heap(), 0);
    let memory = vec![4; 100];
    assert!(!outer.holds(&memory) && !inner.holds(&memory));
    assert!(outer.used() > 200 && inner.used() > 100 && inner.used() < outer.used());
}

#[test]
fn an_interrupt_during_a_step_uses_the_kernels_heap() {
    let (served, other) = (Served::new(), Served::new());
    served.step(move |kept| {
        kept.push(vec![1; 64]);
        {
            let _own = arch::hold::HandlerScope::new();
            let mut memory = vec![2; 64];
            memory.extend([3; 1000]);
            assert!(!served.holds(&memory));
            // What a thread that the interrupt wakes would do, if it could preempt this core.
            other.step(move |kept| {
                kept.push(vec![4; 64]);
                assert!(other.holds(&kept[0]) && !served.holds(&kept[0]));
            });
            assert_eq!(arch::hold::heap(), 0);
        }
        kept.push(vec![5; 64]);
        assert!(kept.iter().all(|memory| served.holds(memory)));
    });
}

#[test]
fn a_preemption_during_a_step_is_postponed_until_its_end() {
    let served = Served::new();
    arch::hold::begin();
    served.step(|kept| {
        kept.push(vec![1; 8]);
        assert!(arch::hold::postpone(), "the core is kept");
        kept.push(vec![2; 8]);
    });
    assert!(arch::hold::end(), "a preemption was postponed");
    assert!(!arch::hold::postpone());
}

#[test]
fn memory_is_freed_to_the_heap_it_came_from() {
    let served = Served::new();
    let before = served.used();
    let kernels = RefCell::new(Some(vec![7u8; 500]));
    served.step(move |kept| {
        // The kernel's memory, freed while the arena is current.
        drop(kernels.take());
        kept.push(vec![1; 500]);
    });
    assert!(served.used() > before + 500);
    let mut grown = vec![9u8; 10];
    served.step(move |kept| {
        let mut here = std::mem::take(&mut grown);
        assert!(!served.holds(&here));
        here.extend([9; 5000]);
        assert!(served.holds(&here) && here.iter().all(|&byte| byte == 9), "it moved as it grew");
        kept.push(here);
        kept.clear();
        kept.shrink_to_fit();
    });
    assert_eq!(served.used(), before);
}

#[test]
fn each_core_has_its_own_current_heap() {
    let barrier = &*Box::leak(Box::new(Barrier::new(4)));
    let core = || {
        let served = Served::new();
        for round in 0..50u8 {
            served.step(move |kept| {
                barrier.wait();
                kept.push(vec![round; 100]);
                barrier.wait();
                kept.push(vec![round; 100]);
                assert!(kept.iter().all(|memory| served.holds(memory)));
                barrier.wait();
                kept.clear();
            });
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(core))));
}

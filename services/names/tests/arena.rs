//! The name service in an arena, as in a kernel: all of its state is allocated there, and fits even
//! when every limit is reached.
//!
//! A binary has one global allocator, so this test is a binary of its own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use abi::names::{
    Errno, Listed, NAMES, Name, Op, Reply, Request, SYSTEM_NAMES, TREE_NAMES, WATCHES,
    first_edition,
};
use base::id::{DomainId, Epoch};
use base::port::Exclusive;
use names::Names;
use names::service::ARENA;
use share::{Answer, Arena, Current, Custody, Event, Instance, Outbox, Routed, Token};
use std::alloc::System;
use std::cell::{Cell, RefCell};

thread_local! {
    static HEAP: Cell<usize> = const { Cell::new(0) };
}

struct Thread;

impl Current for Thread {
    fn heap() -> usize {
        HEAP.with(Cell::get)
    }
    fn set_heap(heap: usize) -> usize {
        HEAP.with(|current| current.replace(heap))
    }
}

#[global_allocator]
static ALLOCATOR: Routed<System, Thread> = Routed::new(System);

struct Own(RefCell<Arena>);

impl Exclusive<Arena> for Own {
    fn exclusively<R>(&self, work: impl FnOnce(&mut Arena) -> R) -> R {
        work(&mut self.0.borrow_mut())
    }
}

impl Custody for Own {}

struct Kernel {
    instance: Instance<Names, Own, Thread>,
    sequence: Cell<u32>,
    epoch: Cell<u16>,
}

impl Kernel {
    fn new() -> Kernel {
        let memory = Box::leak(vec![0u8; ARENA + 4096].into_boxed_slice());
        let skip = memory.as_ptr().align_offset(4096);
        let arena = Arena::of(&mut memory[skip..skip + ARENA]).unwrap();
        let instance = Instance::new(Own(RefCell::new(arena)));
        instance.start().unwrap();
        Kernel { instance, sequence: Cell::new(0), epoch: Cell::new(1) }
    }

    /// Returns the reply; `None` if there is none.
    fn step(&self, event: Event<'_, Request>) -> Option<Reply> {
        match self.instance.step(7, event, &mut Outbox::new()) {
            Ok(Answer::Done(reply)) => Some(reply),
            Ok(_) => None,
            Err(why) => panic!("{why:?}"),
        }
    }

    fn ask(&self, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        self.sequence.set(self.sequence.get() + 1);
        let epoch = Epoch(self.epoch.get());
        let token = Token::new(DomainId(0), epoch, 1, self.sequence.get());
        self.step(Event::Request { token, request: &request, bulk })
    }

    fn errno(&self, request: Request) -> Option<Errno> {
        self.ask(request, &mut []).map(|reply| reply.errno())
    }

    /// Registers a name for a process tree; 0: the system.
    fn register(&self, number: usize, tree: u32) -> Option<Errno> {
        let name = Name::new(format!("n/{number}").as_bytes()).unwrap();
        self.errno(Request { name, tree, ..Request::new(Op::Register) })
    }

    fn edition(&self) -> u64 {
        self.ask(Request::new(Op::List), &mut [0; size_of::<Listed>()]).unwrap().edition
    }

    fn fill(&self) {
        for number in 0..NAMES + SYSTEM_NAMES {
            let tree = number.checked_sub(SYSTEM_NAMES).map_or(0, |of| 1 + of / TREE_NAMES);
            assert_eq!(self.register(number, tree as u32), Some(Errno::Success));
        }
        for tree in [0, 500] {
            assert_eq!(self.register(NAMES + SYSTEM_NAMES, tree), Some(Errno::Nospc));
        }
        let edition = self.edition();
        for tree in 0..WATCHES as u32 {
            assert_eq!(self.errno(Request { edition, tree, ..Request::new(Op::Watch) }), None);
        }
        let one_more = Request { edition, ..Request::new(Op::Watch) };
        assert_eq!(self.errno(one_more), Some(Errno::Again));
    }
}

#[test]
fn a_full_table_fits_its_arena_and_frees_all_memory() {
    let kernel = Kernel::new();
    // Lists and a map that were used keep a little.
    const EMPTY: u64 = 4096;
    let before = kernel.instance.usage().used;
    for epoch in 1..=30 {
        kernel.epoch.set(epoch);
        kernel.fill();
        let full = kernel.instance.usage().used;
        assert!(full < ARENA as u64 * 7 / 10, "{full} bytes: a step needs memory too");
        assert_eq!(kernel.step(Event::Gone(DomainId(0), Epoch(epoch))), None);
        assert!(kernel.instance.usage().used < before + EMPTY);
    }
}

#[test]
fn a_restarted_table_is_empty_and_has_a_higher_edition() {
    let kernel = Kernel::new();
    kernel.register(1, 5);
    let before = kernel.edition();
    assert_eq!(kernel.instance.start(), Ok(2));
    assert_eq!(kernel.edition(), first_edition(2));
    assert!(before < first_edition(2));
    assert_eq!(kernel.register(1, 5), Some(Errno::Success));
}

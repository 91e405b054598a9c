//! The process table in an arena, as in a kernel: all of its state is allocated there, and fits
//! even when every limit is reached.
//!
//! A binary has one global allocator, so this test is a binary of its own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use abi::process::{Errno, Op, PROCESSES, Request};
use abi::program::BEGIN_BYTES;
use base::id::{DomainId, Epoch};
use base::port::Exclusive;
use processes::Processes;
use processes::service::{ARENA, BEGINNINGS, WAITS};
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
    instance: Instance<Processes, Own, Thread>,
    sequence: Cell<u32>,
    /// The current life of every kernel.
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

    fn step(&self, event: Event<'_, Request>) -> Option<Errno> {
        match self.instance.step(7, event, &mut Outbox::new()) {
            Ok(Answer::Done(reply)) => Some(reply.errno()),
            Ok(_) => None,
            Err(why) => panic!("{why:?}"),
        }
    }

    /// Returns the result; `None` if the request was parked.
    fn ask(&self, request: Request, bulk: &mut [u8]) -> Option<Errno> {
        self.ask_from(0, request, bulk)
    }

    fn ask_from(&self, kernel: u8, request: Request, bulk: &mut [u8]) -> Option<Errno> {
        self.sequence.set(self.sequence.get() + 1);
        let epoch = Epoch(self.epoch.get());
        let token = Token::new(DomainId(kernel), epoch, 1, self.sequence.get());
        self.step(Event::Request { token, request: &request, bulk })
    }

    fn fill(&self) {
        let mut bulk = vec![1; BEGIN_BYTES];
        for at in 0..PROCESSES {
            let length = if at < BEGINNINGS / BEGIN_BYTES { BEGIN_BYTES as u32 } else { 0 };
            let request = Request { kernel: 1, length, ..Request::new(Op::Spawn) };
            assert_eq!(self.ask(request, &mut bulk), None);
        }
        assert_eq!(self.ask(Request::new(Op::Spawn), &mut bulk), Some(Errno::Again));
        for _ in 0..WAITS {
            assert_eq!(self.ask(Request::new(Op::Next), &mut []), None);
        }
        assert_eq!(self.ask(Request::new(Op::Next), &mut []), Some(Errno::Again));
    }
}

#[test]
fn a_full_table_fits_its_arena_and_frees_all_memory() {
    let kernel = Kernel::new();
    // A map that was used keeps one empty node.
    const EMPTY: u64 = 8192;
    let before = kernel.instance.usage().used;
    for epoch in 1..=30 {
        kernel.epoch.set(epoch);
        let heard = kernel.ask_from(1, Request::new(Op::Load), &mut [0; 4]);
        assert_eq!(heard, Some(Errno::Success));
        kernel.fill();
        let full = kernel.instance.usage().used;
        assert!(full < ARENA as u64 * 7 / 10, "{full} bytes: a step needs memory too");
        for id in [0, 1] {
            assert_eq!(kernel.step(Event::Gone(DomainId(id), Epoch(kernel.epoch.get()))), None);
        }
        assert!(kernel.instance.usage().used < before + EMPTY);
    }
}

#[test]
fn a_restarted_table_counts_its_lives() {
    let kernel = Kernel::new();
    assert_eq!(kernel.instance.start(), Ok(2));
    let adopt = |pid| Request { pid, kernel: 0, ..Request::new(Op::Adopt) };
    assert_eq!(kernel.ask(adopt(2), &mut []), Some(Errno::Success));
    assert_eq!(kernel.ask(adopt(1), &mut []), Some(Errno::Inval));
}

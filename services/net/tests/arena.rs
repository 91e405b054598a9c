//! The network service in an arena, as in a kernel: all of its state is allocated there, and fits.
//!
//! A binary has one global allocator, so these tests are a binary of their own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use abi::net::HANDLES;
use abi::net::{Errno, Op, Reply, Request};
use base::id::{DomainId, Epoch};
use base::port::Exclusive;
use net::Net;
use net::check::check;
use net::client::Client;
use net::service::WAITS;
use share::{Answer, Arena, Current, Custody, Event, Instance, Outbox, Routed, Token};
use std::alloc::System;
use std::cell::{Cell, RefCell};

/// Size of the arena that a board's shared memory has for it.
const BYTES: usize = 2 << 20;

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
    fn exclusively(&self, work: &mut dyn FnMut(&mut Arena)) {
        work(&mut self.0.borrow_mut());
    }
}

impl Custody for Own {}

struct Kernel(Instance<Net, Own, Thread>);

impl Kernel {
    fn new() -> Kernel {
        let memory = Box::leak(vec![0u8; BYTES + 4096].into_boxed_slice());
        let skip = memory.as_ptr().align_offset(4096);
        let arena = Arena::of(&mut memory[skip..skip + BYTES]).unwrap();
        let kernel = Kernel(Instance::new(Own(RefCell::new(arena))));
        kernel.0.start().unwrap();
        kernel
    }

    fn used(&self) -> u64 {
        self.0.usage().used
    }

    fn ask_as(&self, thread: u64, request: Request, bulk: &mut [u8]) -> Reply {
        let token = Token::new(DomainId(0), Epoch(1), thread, 1);
        let event = Event::Request { token, request, bulk };
        match self.0.step(7, event, &mut Outbox::new()) {
            Ok(Answer::Done(reply)) => reply,
            Ok(_) => Reply::error(Errno::Again),
            Err(why) => panic!("{request:?}: {why:?}"),
        }
    }

    fn with<T>(&self, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        what(&mut Client::hasty(&mut |request, bulk| self.ask_as(1, request, bulk)))
    }

    fn gone(&self) {
        let event = Event::Gone(DomainId(0), Epoch(1));
        assert_eq!(self.0.step(8, event, &mut Outbox::new()), Ok(Answer::NoReply));
    }
}

/// Makes a connection whose ends have both sent what fits, and shuts it if asked to.
fn full(c: &mut Client<'_>, listener: u64, port: u16, shut: bool) -> Result<(), Errno> {
    let near = c.connect(port)?;
    let far = c.accept(listener)?;
    let (piece, rounds) = if shut { (100, 2) } else { (4096, 4) };
    for from in [near, far] {
        for _ in 0..rounds {
            match c.send(from, &mut [9; 4096][..piece]) {
                Ok(_) | Err(Errno::Again) => {}
                Err(why) => return Err(why),
            }
        }
    }
    if shut { c.shut(near).and(c.shut(far)) } else { Ok(()) }
}

#[test]
fn full_tables_fit_the_arena_and_free_all_memory() {
    let kernel = Kernel::new();
    let ask = &mut |request: Request, bulk: &mut [u8]| kernel.ask_as(1, request, bulk);
    check(1, 10, ask).unwrap();
    kernel.gone();
    let before = kernel.used();
    for way in 0..4 {
        let mut most = 0;
        let listener = kernel.with(|c| c.listen(80, 8)).unwrap();
        for _ in 0..HANDLES {
            // Open connections, ended connections, datagrams, or a mixture.
            let done = match way {
                0 => kernel.with(|c| full(c, listener, 80, false)),
                1 => kernel.with(|c| full(c, listener, 80, true)),
                2 => kernel.with(|c| c.udp(0).map(|_| ())),
                _ => kernel.with(|c| full(c, listener, 80, true).or(c.listen(0, 8).map(|_| ()))),
            };
            most = most.max(kernel.used());
            if done.is_err() {
                break;
            }
        }
        for thread in 0..2 * WAITS as u64 {
            kernel.ask_as(thread, Request::new(Op::Accept, listener), &mut []);
            most = most.max(kernel.used());
        }
        println!("way {way}: {most} of {BYTES} bytes");
        assert!(most < BYTES as u64 * 9 / 10, "way {way}: {most} bytes");
        kernel.gone();
    }
    check(2, 10, ask).unwrap();
    kernel.gone();
    // Tables keep the capacity that they have grown to.
    assert!(kernel.used() < before + 250_000, "{before} bytes before, {} now", kernel.used());
}

#[test]
fn a_restarted_service_answers_restarted() {
    let kernel = Kernel::new();
    let listener = kernel.with(|c| c.listen(80, 8)).unwrap();
    assert_eq!(kernel.0.start(), Ok(2));
    assert_eq!(kernel.with(|c| c.accept(listener)), Err(Errno::Restarted));
    let ask = &mut |request: Request, bulk: &mut [u8]| kernel.ask_as(1, request, bulk);
    assert!(check(3, 2, ask).is_ok());
}

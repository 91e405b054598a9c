//! The network service in an arena, as in a kernel: all of its state is allocated there, and fits.
//!
//! A binary has one global allocator, so these tests are a binary of their own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "outside/frames.rs"]
#[allow(dead_code, reason = "a part of it is used")]
mod frames;
#[path = "outside/hosts.rs"]
#[allow(dead_code, reason = "a part of it is used")]
mod hosts;
#[path = "outside/lent.rs"]
mod lent;
#[path = "outside/world.rs"]
#[allow(dead_code, reason = "a part of it is used")]
mod world;

use crate::frames::checksum;
use crate::hosts::OURS;
use crate::lent::{Apart, Lent};
use crate::world::{config, device};
use abi::net::{Errno, HANDLES, Op, Reply, Request, WAITS};
use base::id::{DomainId, Epoch};
use base::port::{Exclusive, Words};
use net::Net;
use net::check::check;
use net::client::Client;
use net::nic::MEMORY;
use share::{Answer, Arena, Current, Custody, Device, Event, Instance, Outbox, Routed, Token};
use std::alloc::System;
use std::cell::{Cell, RefCell};
use virtio::fake::View;

/// Size of the arena that a board's shared memory has for it.
const WHOLE: usize = match abi::service::NET.arena {
    abi::service::Arena::Bytes(bytes) => bytes as usize,
    _ => 0,
};
/// What is enough without a network outside.
const BYTES: usize = 7 << 19;

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

struct Kernel(Instance<Net, Own, Thread>);

impl Kernel {
    fn new(bytes: usize) -> Kernel {
        let memory = Box::leak(vec![0u8; bytes + 4096].into_boxed_slice());
        let skip = memory.as_ptr().align_offset(4096);
        let arena = Arena::of(&mut memory[skip..skip + bytes]).unwrap();
        let kernel = Kernel(Instance::new(Own(RefCell::new(arena))));
        kernel.0.start().unwrap();
        kernel
    }

    fn used(&self) -> u64 {
        self.0.usage().used
    }

    fn ask_as(&self, thread: u64, request: Request, bulk: &mut [u8]) -> Reply {
        let token = Token::new(DomainId(0), Epoch(1), thread, 1);
        let event = Event::Request { token, request: &request, bulk };
        match self.0.step(7, event, &mut Outbox::new()) {
            Ok(Answer::Done(reply)) => reply,
            Ok(_) => Reply::error(Errno::Again),
            Err(why) => panic!("{request:?}: {why:?}"),
        }
    }

    fn with<T>(&self, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        what(&mut Client::hasty(&mut |request, bulk| self.ask_as(1, request, bulk)))
    }

    /// Makes sockets until that fails, then lets callers wait at a listener. Returns the most
    /// memory that was in use.
    fn fill(&self, make: impl Fn(&mut Client<'_>, u64) -> Result<(), Errno>) -> u64 {
        let mut most = 0;
        let listener = self.with(|c| c.listen(80, 8)).unwrap();
        for _ in 0..HANDLES {
            let done = self.with(|c| make(c, listener));
            most = most.max(self.used());
            if done.is_err() {
                break;
            }
        }
        for thread in 0..2 * WAITS as u64 {
            self.ask_as(thread, Request::new(Op::Accept, listener), &mut []);
            most = most.max(self.used());
        }
        most
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

/// Makes a connection of which one end is closed, and the other one has what fits.
fn half(c: &mut Client<'_>, listener: u64) -> Result<(), Errno> {
    let near = c.connect(80)?;
    c.accept(listener)?;
    while c.send(near, &mut [9; 4096]).is_ok() {}
    c.close(near)
}

#[test]
fn full_tables_fit_the_arena_and_free_all_memory() {
    let kernel = Kernel::new(BYTES);
    let ask = &mut |request: Request, bulk: &mut [u8]| kernel.ask_as(1, request, bulk);
    check(1, 10, ask).unwrap();
    kernel.gone();
    let before = kernel.used();
    for way in 0..5 {
        // Open connections, ended connections, datagrams, halves, or a mixture.
        let most = kernel.fill(|c, listener| match way {
            0 => full(c, listener, 80, false),
            1 => full(c, listener, 80, true),
            2 => c.udp(0).map(|_| ()),
            3 => half(c, listener),
            _ => full(c, listener, 80, true).or(c.listen(0, 8).map(|_| ())),
        });
        println!("way {way}: {most} of {BYTES} bytes");
        assert!(most < BYTES as u64 * 9 / 10, "way {way}: {most} bytes");
        kernel.gone();
    }
    check(2, 10, ask).unwrap();
    kernel.gone();
    // Tables keep the capacity that they have grown to.
    assert!(kernel.used() < before + 800_000, "{before} bytes before, {} now", kernel.used());
}

#[test]
fn full_tables_outside_fit_the_arena() {
    let (kernel, fake) = (Kernel::new(WHOLE / 4096 * 4096), device());
    // It works between steps: what it allocates is not the service's.
    fake.eager.set(false);
    let view = View::new(&fake);
    let words = Apart::<Thread>::new(&view);
    let mut now = 7;
    let mut step = |event: Event<'_, Request>| {
        now += 1000;
        let device = Device { words: &words, ..view.device(MEMORY, &|_| {}) };
        let mut lent = Lent { outbox: Outbox::new(), device, seed: 0 };
        let answer = kernel.0.step(now, event, &mut lent).unwrap();
        view.barrier();
        fake.turn();
        answer
    };
    for _ in 0..9 {
        step(Event::Device);
    }
    for port in 1..9 {
        kernel.with(|c| c.listen(port, 128)).unwrap();
    }
    // Half-open connections, from neighbours that do not exist.
    let mut most = 0;
    for number in 0..2000u16 {
        fake.model.borrow_mut().to_chip.push_back(syn(number));
        fake.turn();
        step(Event::Device);
        most = most.max(kernel.used());
    }
    most =
        most.max(kernel.fill(|c, listener| full(c, listener, 80, true).or(c.udp(0).map(|_| ()))));
    println!("outside: {most} of {WHOLE} bytes");
    assert!(most > BYTES as u64 / 2 && most < WHOLE as u64 * 9 / 10, "{most} bytes");
    kernel.gone();
}

/// Returns a frame that begins a connection.
fn syn(number: u16) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&config().mac);
    frame[12..17].copy_from_slice(&[8, 0, 0x45, 0, 0]);
    frame[17] = 46;
    (frame[22], frame[23]) = (64, 6);
    frame[26..30].copy_from_slice(&[10, 0, 2, 100 + (number % 100) as u8]);
    frame[30..34].copy_from_slice(&OURS);
    frame[34..36].copy_from_slice(&(2000 + number).to_be_bytes());
    frame[37] = 1 + (number % 8) as u8;
    (frame[46], frame[47]) = (0x50, 2);
    checksum(&mut frame);
    frame
}

#[test]
fn a_restarted_service_answers_restarted() {
    let kernel = Kernel::new(BYTES);
    let listener = kernel.with(|c| c.listen(80, 8)).unwrap();
    assert_eq!(kernel.0.start(), Ok(2));
    assert_eq!(kernel.with(|c| c.accept(listener)), Err(Errno::Restarted));
    let ask = &mut |request: Request, bulk: &mut [u8]| kernel.ask_as(1, request, bulk);
    assert!(check(3, 2, ask).is_ok());
}

//! The service in an arena, as in a kernel: all it has lies there, and never more than it says.
//!
//! What a program's allocator is is decided once a binary, hence this one.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use abi::fs::{Errno, Op, Reply, Request, STEP, flag};
use base::id::{DomainId, Epoch};
use base::port::Exclusive;
use fs::Vfs;
use fs::client::Client;
use fs::exercise::exercise;
use fs::vfs::BUDGET;
use fs::vfs::handles::HANDLES;
use fs::vfs::pipe::{CAPACITY, PIPES};
use kernel_share::{Answer, Arena, Current, Custody, Event, Instance, Outbox, Routed, Token};
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
    fn exclusively(&self, work: &mut dyn FnMut(&mut Arena)) {
        work(&mut self.0.borrow_mut());
    }
}

impl Custody for Own {}

struct Kernel(Instance<Vfs, Own, Thread>);

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

    fn ask(&self, request: Request, bulk: &mut [u8]) -> Reply {
        let token = Token::new(DomainId(0), Epoch(1), 1, 1);
        let event = Event::Request { token, request, bulk };
        match self.0.step(7, event, &mut Outbox::new()) {
            Ok(Answer::Done(reply)) => reply,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    fn with<T>(&self, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        what(&mut Client(&mut |request, bulk| self.ask(request, bulk)))
    }

    /// Repeats until there is no space.
    fn until_full(&self, mut what: impl FnMut(&mut Client<'_>, u64) -> Result<(), Errno>) -> u64 {
        for number in 0.. {
            match self.with(|c| what(c, number)) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error, Errno::Nospc);
                    return number;
                }
            }
        }
        0
    }
}

const CREATE: u16 = flag::READ | flag::WRITE | flag::CREATE;

fn touch(c: &mut Client<'_>, directory: u64, name: &[u8], bytes: &[u8]) -> Result<(), Errno> {
    let file = c.open(directory, name, CREATE)?;
    let written = if bytes.is_empty() { Ok(0) } else { c.write(file, bytes) };
    c.close(file)?;
    written.map(|_| ())
}

/// Ways to fill a file system, each with what costs most beside what it is charged for.
fn fill(kernel: &Kernel, way: u32) -> u64 {
    let root = kernel.with(|c| c.root()).unwrap();
    let name = |number: u64| format!("{number:x}").into_bytes();
    let long = |number: u64| format!("{number:0255}").into_bytes();
    match way {
        0 => kernel.until_full(|c, n| touch(c, root, &name(n), b"")),
        1 => kernel.until_full(|c, n| touch(c, root, &name(n), b"x")),
        2 => kernel.until_full(|c, n| c.mkdir(root, &name(n))),
        3 => kernel.until_full(|c, n| c.symlink(root, b"x", &long(n))),
        4 => {
            kernel.with(|c| touch(c, root, b"the file", b"")).unwrap();
            kernel.until_full(|c, n| c.link(root, b"the file", root, &name(n)))
        }
        5 => {
            // Chains of directories of one entry each.
            let mut at = root;
            kernel.until_full(|c, _| {
                c.mkdir(at, b"d")?;
                let next = c.open(at, b"d", flag::READ)?;
                c.close(at)?;
                at = next;
                Ok(())
            })
        }
        6 => {
            let file = kernel.with(|c| c.open(root, b"f", CREATE)).unwrap();
            let bulk = vec![1; STEP];
            kernel.until_full(|c, n| c.write_at(file, n * STEP as u64, &bulk).map(|_| ()))
        }
        7 => {
            // Sparse: a chunk here and there, from the back.
            let file = kernel.with(|c| c.open(root, b"f", CREATE)).unwrap();
            kernel.until_full(|c, n| c.write_at(file, (1 << 40) - n * 9000, b"x").map(|_| ()))
        }
        _ => {
            // Trees that lost most of what was in them, and leaves half empty.
            let many = kernel.until_full(|c, n| touch(c, root, &name(n), b""));
            for number in (0..many).filter(|n| n % 7 != 0) {
                kernel.with(|c| c.unlink(root, &name(number))).unwrap();
            }
            kernel.until_full(|c, n| c.mkdir(root, &long(n)))
        }
    }
}

#[test]
fn a_full_file_system_takes_what_it_says_and_no_more() {
    for way in 0..9 {
        let kernel = Kernel::new(2 * BUDGET as usize);
        let before = kernel.used();
        let made = fill(&kernel, way);
        let taken = kernel.used() - before;
        println!("way {way}: {made} made, {taken} of {BUDGET} bytes");
        assert!(taken <= BUDGET, "way {way}: {taken} bytes");
    }
}

#[test]
fn handles_and_pipes_take_what_docs_say() {
    let kernel = Kernel::new(2 * BUDGET as usize);
    let before = kernel.used();
    let mut pipes = Vec::new();
    for _ in 0..PIPES {
        let (reader, writer) = kernel.with(|c| c.pipe(0)).unwrap();
        kernel.with(|c| c.write(writer, &[1; CAPACITY])).unwrap();
        pipes.push((reader, writer));
    }
    let of_pipes = kernel.used() - before;
    for _ in 2 * PIPES..HANDLES {
        kernel.with(|c| c.root()).unwrap();
    }
    let of_handles = kernel.used() - before - of_pipes;
    println!("{of_pipes} bytes for pipes, {of_handles} for handles");
    assert!(of_pipes < 5 << 20 && of_handles < 3 << 20);
}

#[test]
fn nothing_is_left_behind_and_the_digest_is_the_same() {
    let kernel = Kernel::new(2 * BUDGET as usize);
    let run = |seed| exercise(seed, 500, &mut |request, bulk| kernel.ask(request, bulk)).unwrap();
    // Tables and queues keep what they have grown to.
    let first: Vec<_> = (0..30).map(run).collect();
    let used = kernel.used();
    let second: Vec<_> = (0..30).map(run).collect();
    assert_eq!(first, second);
    assert_eq!(kernel.used(), used);
    let mut other = Vfs::with_budget(9, 1 << 30);
    let mut ask = |request: Request, bulk: &mut [u8]| {
        let token = Token::new(DomainId(1), Epoch(5), 3, 2);
        let event = Event::Request { token, request, bulk };
        let answer = kernel_share::Service::step(&mut other, 99, event, &mut Outbox::new());
        if let Answer::Done(reply) = answer { reply } else { panic!("{request:?}") }
    };
    assert_eq!(exercise(11, 500, &mut ask).unwrap(), first[11]);
}

#[test]
fn a_service_that_is_started_again_has_forgotten_and_says_so() {
    let kernel = Kernel::new(2 * BUDGET as usize);
    let root = kernel.with(|c| c.root()).unwrap();
    kernel.with(|c| touch(c, root, b"f", b"data")).unwrap();
    assert_eq!(kernel.0.start(), Ok(2));
    let reply = kernel.ask(Request::new(Op::Stat, root), &mut []);
    assert_eq!(reply.errno(), Errno::Restarted);
}

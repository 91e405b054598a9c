//! The file service in an arena, as in a kernel: all of its state is allocated there, and takes no
//! more memory than documented.
//!
//! A binary has one global allocator, so these tests are a binary of their own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use abi::fs::{Errno, Op, Reply, Request, STEP, flag, io};
use base::id::{DomainId, Epoch};
use base::port::Exclusive;
use fs::Vfs;
use fs::client::Client;
use fs::exercise::exercise;
use fs::vfs::BUDGET;
use fs::vfs::handles::HANDLES;
use fs::vfs::pipe::{CAPACITY, PIPES};
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
        let event = Event::Request { token, request: &request, bulk };
        match self.0.step(7, event, &mut Outbox::new()) {
            Ok(Answer::Done(reply)) => reply,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    fn with<T>(&self, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        what(&mut Client(&mut |request, bulk| self.ask(request, bulk)))
    }

    /// Repeats `what` until it fails for lack of space. Returns how often it succeeded.
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

/// Fills the file system in one of nine ways. Each allocates as much as possible compared with its
/// charge.
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
            // Chains of directories with one entry each.
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
            // Sparse: a chunk here and there, from the end.
            let file = kernel.with(|c| c.open(root, b"f", CREATE)).unwrap();
            kernel.until_full(|c, n| c.write_at(file, (1 << 40) - n * 9000, b"x").map(|_| ()))
        }
        _ => {
            // Trees that lost most of their entries, with half-empty leaves.
            let many = kernel.until_full(|c, n| touch(c, root, &name(n), b""));
            for number in (0..many).filter(|n| n % 7 != 0) {
                kernel.with(|c| c.unlink(root, &name(number))).unwrap();
            }
            kernel.until_full(|c, n| c.mkdir(root, &long(n)))
        }
    }
}

#[test]
fn a_full_file_system_stays_within_its_budget() {
    for way in 0..9 {
        let kernel = Kernel::new(arena());
        let before = kernel.used();
        let made = fill(&kernel, way);
        let taken = kernel.used() - before;
        println!("way {way}: {made} made, {taken} of {BUDGET} bytes");
        assert!(taken <= BUDGET, "way {way}: {taken} bytes");
    }
}

#[test]
fn handles_and_pipes_stay_within_documented_memory() {
    let kernel = Kernel::new(arena());
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
fn an_exercise_frees_all_memory_and_repeats_its_digest() {
    let kernel = Kernel::new(arena());
    let run = |seed| exercise(seed, 500, &mut |request, bulk| kernel.ask(request, bulk)).unwrap();
    // Tables and queues keep the capacity that they have grown to.
    let first: Vec<_> = (0..30).map(run).collect();
    let used = kernel.used();
    let second: Vec<_> = (0..30).map(run).collect();
    assert_eq!(first, second);
    assert_eq!(kernel.used(), used);
    let mut other = Vfs::with_budget(9, 1 << 30);
    let mut ask = |request: Request, bulk: &mut [u8]| {
        let token = Token::new(DomainId(1), Epoch(5), 3, 2);
        let event = Event::Request { token, request: &request, bulk };
        let answer = share::Service::step(&mut other, 99, event, &mut Outbox::new());
        if let Answer::Done(reply) = answer { reply } else { panic!("{request:?}") }
    };
    assert_eq!(exercise(11, 500, &mut ask).unwrap(), first[11]);
}

#[test]
fn a_restarted_service_answers_restarted() {
    let kernel = Kernel::new(arena());
    let root = kernel.with(|c| c.root()).unwrap();
    kernel.with(|c| touch(c, root, b"f", b"data")).unwrap();
    assert_eq!(kernel.0.start(), Ok(2));
    let reply = kernel.ask(Request::new(Op::Stat, root), &mut []);
    assert_eq!(reply.errno(), Errno::Restarted);
}

/// A disk image, and a service that has it mounted at `/d`.
struct OnDisk {
    kernel: Kernel,
    image: Vec<u8>,
    most: u64,
    before: u64,
}

fn image(block: usize) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let places = ["/sbin/mke2fs", "/usr/sbin/mke2fs"].map(std::path::Path::new);
    let tool = places.into_iter().find(|path| path.exists()).unwrap_or("mke2fs".as_ref());
    let size = block.to_string();
    let mut command = std::process::Command::new(tool);
    command
        .args(["-q", "-F", "-t", "ext2", "-j", "-b", &size, "-N", "16384"])
        .arg(&path)
        .arg("16384k");
    assert!(command.status().unwrap().success());
    std::fs::read(path).unwrap()
}

/// Returns the size of the service's arena in a shared block.
fn arena() -> usize {
    let mut all = abi::service::arenas(abi::boot::BLOCK, |_| false);
    all.find(|(kind, ..)| *kind == "fs").map_or(0, |(.., bytes)| bytes as usize)
}

impl OnDisk {
    fn new(block: usize) -> OnDisk {
        let image = image(block);
        let memory = fs::ext2::memory(&image[1024..2048]).unwrap();
        let kernel = Kernel::new(arena());
        let before = kernel.used();
        let mut one = OnDisk { kernel, image, most: 0, before };
        let root = one.with(|c| c.root()).unwrap();
        one.with(|c| c.mkdir(root, b"d")).unwrap();
        one.with(|c| c.mount(root, b"d", 1, memory, 0)).unwrap();
        one
    }

    fn step(&mut self, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        let token = Token::new(DomainId(0), Epoch(1), 1, 1);
        let event = Event::Request { token, request: &request, bulk };
        let answer = self.kernel.0.step(7, event, &mut Outbox::new());
        self.most = self.most.max(self.kernel.used() - self.before);
        match answer {
            Ok(Answer::Done(reply)) => Some(reply),
            Ok(Answer::Parked) => None,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Reply {
        loop {
            if let Some(reply) = self.step(request, bulk) {
                return reply;
            }
            self.drive();
        }
    }

    /// Does all I/O of the disk.
    fn drive(&mut self) {
        let mut data = [0; fs::ext2::LONGEST];
        while let Some(reply) = self.step(Request::new(Op::NextIo, 1), &mut data) {
            let (at, bytes) = (reply.value as usize, reply.other as usize);
            let mut length = 0;
            match reply.flags {
                io::READ => {
                    data[..bytes].copy_from_slice(&self.image[at..at + bytes]);
                    length = bytes as u64;
                }
                io::WRITE => self.image[at..at + bytes].copy_from_slice(&data[..bytes]),
                _ => {}
            }
            let done = Request::new(Op::IoDone, reply.handle);
            self.step(Request { flags: flag::GOOD, length, ..done }, &mut data).unwrap();
        }
    }

    fn with<T>(&mut self, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        what(&mut Client(&mut |request, bulk| self.ask(request, bulk)))
    }

    /// Fills directories with names.
    fn names(&mut self, directory: u64) {
        for above in 0..4 {
            let name = format!("{above}");
            if self.with(|c| c.mkdir(directory, name.as_bytes())).is_err() {
                break;
            }
            for number in 0.. {
                let name = format!("{above}/{number}");
                if let Err(error) = self.with(|c| touch(c, directory, name.as_bytes(), b"")) {
                    assert_eq!(error, Errno::Nospc);
                    break;
                }
            }
        }
        for number in 0..8192 {
            let name = format!("0/{number}");
            // Fails for some if the image ran out of inodes before.
            let _ = self.with(|c| c.unlink(directory, name.as_bytes()));
        }
    }

    /// Writes files as large as possible, densely and sparsely.
    fn data(&mut self, directory: u64) {
        let bulk = vec![1; STEP];
        for round in 0..3u64 {
            let file = self.with(|c| c.open(directory, b"f", CREATE)).unwrap();
            for number in 0.. {
                let at = if round == 1 { number * 1_000_003 } else { number * STEP as u64 };
                if self.with(|c| c.write_at(file, at, &bulk)).is_err() {
                    break;
                }
            }
            self.with(|c| c.close(file)).unwrap();
            self.with(|c| c.unlink(directory, b"f")).unwrap();
        }
    }
}

#[test]
fn a_disk_stays_within_the_memory_of_its_superblock() {
    for block in [1024, 2048, 4096] {
        let mut one = OnDisk::new(block);
        let memory = fs::ext2::memory(&one.image[1024..2048]).unwrap();
        let root = one.with(|c| c.root()).unwrap();
        let directory = one.with(|c| c.open(root, b"d", flag::READ)).unwrap();
        one.names(directory);
        let names = one.most;
        one.data(directory);
        println!("blocks of {block}: {names}, {} of {memory} bytes", one.most);
        assert!(one.most <= memory, "blocks of {block}");
    }
}

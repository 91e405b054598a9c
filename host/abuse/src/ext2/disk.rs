//! The file service of a kernel in its arena, with an image mounted at `/d`, and its disk's driver.
//!
//! The limit on memory holds only in a program whose global allocator is an [`Allocator`]:
//! [`Mounted::new`] checks that.

use abi::fs::{Dirent, Errno, Op, Reply, Request, flag, io, reply_flag};
use base::id::{DomainId, Epoch};
use base::port::Exclusive;
use fs::Vfs;
use fs::client::Client;
use fs::model::Model;
use share::{Answer, Arena, Current, Custody, Event, Instance, Outbox, Routed, Token};
use std::alloc::System;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use zerocopy::IntoBytes;

/// Size of the service's arena in a kernel, or a little less.
const ARENA: usize = 10 << 20;
/// The number of the disk.
const DISK: u64 = 1;
/// I/Os of one request at most.
const MOST: u64 = 40_000;
/// How often a request that is not answered is repeated.
const TRIES: usize = 400;

thread_local! {
    static HEAP: Cell<usize> = const { Cell::new(0) };
    static KERNEL: Rc<Instance<Vfs, Own, Thread>> = Rc::new(Instance::new(Own::new(ARENA)));
}

/// The current heap of a thread.
pub struct Thread;

impl Current for Thread {
    fn heap() -> usize {
        HEAP.with(Cell::get)
    }

    fn set_heap(heap: usize) -> usize {
        HEAP.with(|current| current.replace(heap))
    }
}

/// A global allocator that puts a service's state into its arena.
pub type Allocator = Routed<System, Thread>;

pub const fn allocator() -> Allocator {
    Routed::new(System)
}

/// An arena of one thread.
pub struct Own(RefCell<Arena>);

impl Own {
    /// Makes an arena of `bytes` bytes, which is never freed.
    pub fn new(bytes: usize) -> Own {
        let memory = Box::leak(vec![0u8; bytes + 4096].into_boxed_slice());
        let skip = memory.as_ptr().align_offset(4096);
        Own(RefCell::new(Arena::of(&mut memory[skip..skip + bytes]).expect("memory is enough")))
    }
}

impl Exclusive<Arena> for Own {
    fn exclusively<R>(&self, work: impl FnOnce(&mut Arena) -> R) -> R {
        work(&mut self.0.borrow_mut())
    }
}

impl Custody for Own {}

/// The service, with the image at `/d`.
pub struct Mounted {
    kernel: Rc<Instance<Vfs, Own, Thread>>,
    image: Vec<u8>,
    /// Bytes that the superblock counts.
    counted: u64,
    /// Memory before the mount, and how much more the mount may take.
    before: u64,
    pub memory: u64,
    now: u64,
    read_only: bool,
    failed: bool,
    /// The open directory `/d`.
    pub directory: u64,
}

impl Mounted {
    /// Mounts an image; `None` if it is refused.
    pub fn new(image: Vec<u8>) -> Option<Mounted> {
        let superblock = &image[1024..2048];
        let memory = fs::ext2::memory(superblock)?;
        let word = |at: usize| u64::from_le_bytes(superblock[at..at + 8].try_into().unwrap());
        let counted = (word(4) & 0xffff_ffff) << (10 + (word(24) & 3));
        let kernel = KERNEL.with(Rc::clone);
        kernel.start().expect("the service starts");
        let (read_only, failed, directory) = (false, false, 0);
        let mut one = Mounted {
            kernel,
            image,
            counted,
            before: 0,
            memory,
            now: 7,
            read_only,
            failed,
            directory,
        };
        let root = one.with(|c| c.root()).expect("the root is in memory");
        one.with(|c| c.mkdir(root, b"d")).expect("there is room");
        one.before = one.kernel.usage().used;
        one.with(|c| c.mount(root, b"d", DISK, memory, 0)).ok()?;
        one.directory = one.with(|c| c.open(root, b"d", flag::READ)).ok()?;
        let taken = one.kernel.usage().used.saturating_sub(one.before);
        assert!(taken > 0, "the allocator of this program is not `abuse::Allocator`");
        let about = {
            let directory = one.directory;
            one.with(|c| c.about(directory)).unwrap_or(0)
        };
        one.read_only = about & reply_flag::READ_ONLY != 0;
        Some(one)
    }

    /// Returns the outcomes so far.
    pub fn outcomes(&self) -> u64 {
        2 | u64::from(self.failed) << 6 | u64::from(self.read_only) << 7
    }

    fn step(&mut self, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        let token = Token::new(DomainId(0), Epoch(1), 1, 1);
        let event = Event::Request { token, request: &request, bulk };
        let answer = self.kernel.step(self.now, event, &mut Outbox::new());
        let taken = self.kernel.usage().used.saturating_sub(self.before);
        assert!(taken <= self.memory, "{taken} bytes of {}", self.memory);
        match answer {
            Ok(Answer::Done(reply)) => Some(reply),
            Ok(Answer::Parked) => None,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    /// Sends a request, and does the I/O that it needs.
    pub fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Reply {
        for _ in 0..TRIES {
            if let Some(reply) = self.step(request, bulk) {
                return reply;
            }
            if self.drive() == 0 {
                self.pass(1);
            }
        }
        panic!("{request:?} has no answer");
    }

    /// The same with `/d` in place of the root.
    pub fn ask_below(&mut self, request: Request, bulk: &mut [u8]) -> Reply {
        if request.op != Op::Root as u16 {
            return self.ask(request, bulk);
        }
        let directory = self.directory;
        self.ask(Request::new(Op::Dup, directory), bulk)
    }

    /// Does all I/O of the disk. Returns how much there was.
    fn drive(&mut self) -> u64 {
        let mut data = [0; fs::ext2::LONGEST];
        for count in 0..MOST {
            let Some(reply) = self.step(Request::new(Op::NextIo, DISK), &mut data) else {
                return count;
            };
            if reply.errno() == Errno::Noent {
                return count; // It is not mounted yet.
            }
            assert_eq!(reply.errno(), Errno::Success);
            let (good, length) = self.perform(&reply, &mut data);
            self.failed |= !good;
            let flags = if good { flag::GOOD } else { 0 };
            let done = Request { flags, length, ..Request::new(Op::IoDone, reply.handle) };
            self.step(done, &mut data).expect("the end of an I/O does not wait");
        }
        panic!("no end of I/Os");
    }

    /// Does an I/O. Returns whether it succeeded, and how many bytes were read.
    fn perform(&mut self, reply: &Reply, data: &mut [u8]) -> (bool, u64) {
        if reply.flags == io::FLUSH {
            return (true, 0);
        }
        let (at, bytes) = (reply.value, reply.other);
        assert!((1..=data.len() as u64).contains(&bytes), "an I/O of {bytes} bytes");
        let end = at.checked_add(bytes).expect("an I/O beyond all addresses");
        assert!(end <= self.counted.max(4096), "an I/O at {at:#x}, after the last block");
        let Some(place) = self.image.get_mut(at as usize..end as usize) else {
            return (false, 0); // As of the driver: its disk is smaller than the superblock says.
        };
        match reply.flags {
            io::READ => {
                data[..bytes as usize].copy_from_slice(place);
                (true, bytes)
            }
            io::WRITE => {
                assert!(!self.read_only, "a write to a read-only disk");
                place.copy_from_slice(&data[..bytes as usize]);
                (true, 0)
            }
            other => panic!("no such I/O: {other}"),
        }
    }

    /// Lets so many seconds pass: changes are written.
    pub fn pass(&mut self, seconds: u64) {
        if seconds == 0 {
            return;
        }
        self.now += seconds * 1_000_000_000;
        let timer = self.kernel.step(self.now, Event::Timer, &mut Outbox::new());
        assert_eq!(timer, Ok(Answer::NoReply));
        self.drive();
    }

    pub fn with<T>(&mut self, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        what(&mut Client(&mut |request, bulk| self.ask(request, bulk)))
    }

    /// Everything is written, or fails.
    pub fn end(&mut self) {
        let directory = self.directory;
        let _ = self.with(|c| c.settle(directory));
        let _ = self.with(|c| c.close(directory));
    }
}

/// A listing by the model, which lists whole directories only.
pub fn listed(model: &mut Model, request: Request, bulk: &mut [u8]) -> Reply {
    let all = match model.list(request.handle) {
        Ok(all) => all,
        Err(error) => return Reply::error(error),
    };
    let (mut filled, mut next) = (0, request.offset);
    for (name, node, kind) in all.iter().skip(next as usize) {
        let head = Dirent {
            next: next + 1,
            node: *node,
            name: name.len() as u32,
            kind: *kind,
            ..Dirent::default()
        };
        let bytes = [head.as_bytes(), name].concat();
        let Some(place) = bulk.get_mut(filled..filled + bytes.len()) else { break };
        place.copy_from_slice(&bytes);
        (filled, next) = (filled + bytes.len(), next + 1);
    }
    let flags = if next == all.len() as u64 { reply_flag::END } else { 0 };
    Reply { filled: filled as u32, flags, ..Reply::default() }
}

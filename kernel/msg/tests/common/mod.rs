//! Two kernels in one process over plain memory.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::cell::RefCell;
use std::rc::Rc;

use abi::msg::{LAYOUT, LINK_SIZE, MAX_PAYLOAD};
use base::id::{DomainId, Epoch};
use base::port::Words;
use kernel_msg::{Endpoint, Event, LinkPair, Request};

/// An access, as logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Load(usize),
    Store(usize),
    Barrier,
}

/// Words that log their accesses.
#[derive(Clone, Debug)]
pub struct Flat {
    words: Rc<RefCell<Vec<u64>>>,
    pub log: Rc<RefCell<Vec<Access>>>,
}

impl Flat {
    pub fn new(bytes: usize) -> Flat {
        Flat { words: Rc::new(RefCell::new(vec![0; bytes / 8])), log: Rc::default() }
    }
    pub fn poke(&self, at: usize, value: u64) {
        self.words.borrow_mut()[at / 8] = value;
    }
    pub fn peek(&self, at: usize) -> u64 {
        self.words.borrow()[at / 8]
    }
}

impl Words for Flat {
    fn load(&self, at: usize) -> u64 {
        self.log.borrow_mut().push(Access::Load(at));
        self.words.borrow()[at / 8]
    }
    fn store(&self, at: usize, value: u64) {
        self.log.borrow_mut().push(Access::Store(at));
        self.words.borrow_mut()[at / 8] = value;
    }
    fn barrier(&self) {
        self.log.borrow_mut().push(Access::Barrier);
    }
}

pub const A: DomainId = DomainId(0);
pub const B: DomainId = DomainId(1);

/// Kernels A and B, and the two links between them.
pub struct Pair {
    pub a: Endpoint<Flat>,
    pub b: Endpoint<Flat>,
    pub ab: Flat,
    pub ba: Flat,
}

impl Pair {
    pub fn new() -> Pair {
        let (ab, ba) = (Flat::new(LINK_SIZE as usize), Flat::new(LINK_SIZE as usize));
        let a = end(Epoch(1), B, &ab, &ba);
        let b = end(Epoch(1), A, &ba, &ab);
        let mut pair = Pair { a, b, ab, ba };
        pair.a.peer_changed(B, Some(Epoch(1)));
        pair.b.peer_changed(A, Some(Epoch(1)));
        pair
    }

    /// Restarts B with `epoch`, without telling A.
    pub fn restart_b(&mut self, epoch: Epoch) {
        self.b = end(epoch, A, &self.ba, &self.ab);
        self.b.peer_changed(A, Some(Epoch(1)));
    }
}

pub fn end(epoch: Epoch, peer: DomainId, mine: &Flat, theirs: &Flat) -> Endpoint<Flat> {
    let mut end = Endpoint::new(&LAYOUT, epoch);
    end.add(peer, LinkPair { mine: mine.clone(), theirs: theirs.clone() });
    end
}

#[derive(Debug, Default)]
pub struct Polled {
    pub requests: Vec<(Request, Vec<u8>)>,
    pub ended: Vec<u64>,
    pub faults: usize,
    /// A stalled stream may continue.
    pub room: bool,
    /// The peer's stalled stream may continue.
    pub notify: bool,
}

pub fn poll(end: &mut Endpoint<Flat>) -> Polled {
    let (mut polled, mut buffer) = (Polled::default(), [0; MAX_PAYLOAD]);
    end.poll(true, &mut buffer, &mut |event| match event {
        Event::Request(request, bytes) => polled.requests.push((request, bytes.to_vec())),
        Event::Ended(_, _, token) => polled.ended.push(token),
        Event::Fault(..) => polled.faults += 1,
        Event::Room(_) => polled.room = true,
        Event::Notify(_) => polled.notify = true,
    });
    polled
}

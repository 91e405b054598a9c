//! Clients of the service in tests: the service alone, or next to the model.

use crate::ext2::disk::Disk;
use crate::ext2::driver::Drivers;
use abi::fs::{Errno, Op, Poll, Reply, Request};
use base::id::{DomainId, Epoch};
use fs::Vfs;
use fs::client::{Client, Listed, unpack};
use fs::model::{Limits, Model};
use share::{Answer, Effects, Event, Service, Token};
use std::collections::BTreeMap;
use zerocopy::{FromBytes, IntoBytes};

/// Device number of the files on disk 1, which is the root.
const DISK_DEVICE: u64 = 17;

/// The effects of steps; the wall-clock time at time 0; and the kernel that executes the steps, if
/// that matters.
#[derive(Debug, Default)]
pub struct Woken(pub Vec<Token>, pub u64, pub Option<u8>);

impl Effects for Woken {
    fn wake(&mut self, token: Token) {
        self.0.push(token);
    }
    fn is_near(&self, token: Token) -> bool {
        self.2.is_none_or(|kernel| kernel == token.kernel)
    }
    fn wake_all(&mut self) {
        unreachable!("no state is lost here")
    }

    fn timer(&mut self, _at: u64) {}

    fn time_of_day(&self, now: u64) -> u64 {
        self.1 + now
    }
}

/// Returns a token of a thread in a kernel's first life.
pub fn token(kernel: u8, thread: u64) -> Token {
    Token::new(DomainId(kernel), Epoch(1), thread, 0)
}

/// The service alone.
pub struct Solo {
    /// The disk of its root file system.
    pub disk: Option<Disk>,
    /// The drivers of the disk, if it is driven by requests.
    pub drivers: Option<Drivers>,
    pub vfs: Vfs,
    pub now: u64,
    pub woken: Woken,
}

impl Solo {
    pub fn new(budget: u64) -> Solo {
        let vfs = Vfs::with_budget(3, budget);
        Solo { disk: None, drivers: None, vfs, now: 1_000, woken: Woken::default() }
    }

    /// Sends a request as one caller; `None` if it was parked.
    pub fn ask_as(&mut self, token: Token, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        self.now += 10;
        self.woken.2 = Some(token.kernel);
        let event = Event::Request { token, request: &request, bulk };
        match self.vfs.step(self.now, event, &mut self.woken) {
            Answer::Done(reply) => Some(reply),
            Answer::Parked => None,
            Answer::NoReply => panic!("a request got no reply"),
        }
    }

    /// Delivers an event that has no reply.
    pub fn tell(&mut self, event: Event<'_, Request>) {
        assert_eq!(self.vfs.step(self.now, event, &mut self.woken), Answer::NoReply);
    }

    /// Sends a request that may wait for the disk but for nothing else.
    pub fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Reply {
        loop {
            if let Some(reply) = self.ask_as(token(0, 1), request, bulk) {
                self.drift();
                return reply;
            }
            assert!(self.disk.is_some(), "{request:?} was parked");
            while self.take_woken().is_empty() {
                if !self.pump() {
                    assert!(self.is_called_in_vain(), "{request:?} waits for nothing");
                    // A caller that is not woken repeats its request after a while.
                    self.now += 1_000_000_000;
                    break;
                }
            }
            // The repeated request keeps the time of the first.
            self.now -= 10;
        }
    }
}

/// The service and the model. Panics at the first difference between their replies.
pub struct Pair {
    pub solo: Solo,
    pub model: Model,
    /// A mistake to plant into the model's replies.
    pub wrong: Option<u32>,
    pub nospc: u64,
    pub peak: u64,
    /// Whether sizes of directories are not compared.
    ext2: bool,
    /// Number of results, by operation and error.
    pub ends: BTreeMap<(u16, u16), u64>,
    /// The model's handles, by the service's.
    handles: BTreeMap<u64, u64>,
    /// The model's nodes, by the service's, and the reverse.
    nodes: BTreeMap<u64, u64>,
    back: BTreeMap<u64, u64>,
    listed: Vec<Listed>,
}

impl Pair {
    pub fn new(budget: u64) -> Pair {
        Pair {
            solo: Solo::new(budget),
            model: Model::new(budget),
            wrong: None,
            nospc: 0,
            peak: 0,
            ext2: false,
            ends: BTreeMap::new(),
            handles: BTreeMap::new(),
            nodes: BTreeMap::new(),
            back: BTreeMap::new(),
            listed: Vec::new(),
        }
    }

    /// Compares a service with ext2 as root.
    pub fn on(solo: Solo, limits: Limits) -> Pair {
        let model = Model::within(u64::MAX / 2, limits);
        Pair { solo, model, ext2: true, ..Pair::new(0) }
    }

    pub fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Reply {
        let mut copy = bulk.to_vec();
        let reply = self.solo.ask(request, bulk);
        *self.ends.entry((request.op, reply.error)).or_default() += 1;
        if reply.errno() == Errno::Nospc {
            self.nospc += 1;
        }
        // It has changed nothing.
        if reply.errno() == Errno::Io {
            return reply;
        }
        if request.op == Op::Readdir as u16 {
            self.compare_list(&request, &reply, bulk);
            return reply;
        }
        let theirs = self.translate(request, &mut copy);
        let answered = self.model.answer(self.solo.now, theirs, &mut copy);
        let mut expected = answered.unwrap_or_else(|| panic!("the model waits for {request:?}"));
        self.plant(&request, &mut expected);
        self.meet(&reply, &mut expected);
        // Without a driver it has no number of its own.
        if self.ext2 && (expected.stat.device, reply.stat.device) == (1, DISK_DEVICE) {
            expected.stat.device = DISK_DEVICE;
        }
        if self.ext2 && [Op::Sync as u16, Op::Datasync as u16].contains(&request.op) {
            expected.value = if request.offset == 0 { reply.value } else { 0 };
        }
        self.untranslate(request, bulk, &mut copy);
        let bytes = reply.filled as usize;
        assert_eq!(reply, expected, "{:?} {request:?}", Op::from_code(request.op));
        assert_eq!(bulk[..bytes], copy[..bytes], "{request:?}");
        self.weigh();
        reply
    }

    /// Checks that no handle is open, nothing is parked, and no memory is used.
    pub fn assert_clean(&mut self) {
        assert_eq!(self.solo.vfs.census(), (0, 0));
        if self.ext2 {
            return;
        }
        let root = self.solo.ask(Request::new(Op::Root, 0), &mut []);
        let space = self.solo.ask(Request::new(Op::Statfs, root.handle), &mut []);
        assert_eq!(space.value, space.other);
    }

    fn weigh(&mut self) {
        if self.solo.now.is_multiple_of(500) && !self.ext2 {
            let root = self.solo.ask(Request::new(Op::Root, 0), &mut []).handle;
            let space = self.solo.ask(Request::new(Op::Statfs, root), &mut []);
            let their = self.model.answer(0, Request::new(Op::Root, 0), &mut []).unwrap().handle;
            let theirs = self.model.answer(0, Request::new(Op::Statfs, their), &mut []);
            self.model.answer(0, Request::new(Op::Close, their), &mut []);
            assert_eq!(theirs, Some(space));
            self.solo.ask(Request::new(Op::Close, root), &mut []);
            self.peak = self.peak.max(space.value - space.other);
        }
    }

    fn theirs(&self, handle: u64) -> u64 {
        self.handles.get(&handle).copied().unwrap_or(0)
    }

    fn translate(&self, request: Request, bulk: &mut [u8]) -> Request {
        if request.op == Op::Poll as u16 {
            for piece in bulk.chunks_exact_mut(size_of::<Poll>()) {
                let mut poll = Poll::read_from_bytes(piece).unwrap();
                poll.handle = self.theirs(poll.handle);
                piece.copy_from_slice(poll.as_bytes());
            }
        }
        let (handle, second) = (self.theirs(request.handle), self.theirs(request.second));
        Request { handle, second, ..request }
    }

    fn untranslate(&self, request: Request, ours: &[u8], bulk: &mut [u8]) {
        if request.op == Op::Poll as u16 {
            let own = ours.chunks_exact(size_of::<Poll>());
            for (own, piece) in own.zip(bulk.chunks_exact_mut(size_of::<Poll>())) {
                piece[..8].copy_from_slice(&own[..8]);
            }
        }
    }

    /// Matches numbers that both choose for themselves: the same pair must always match.
    fn meet(&mut self, reply: &Reply, expected: &mut Reply) {
        for (ours, theirs) in
            [(reply.handle, &mut expected.handle), (reply.other, &mut expected.other)]
        {
            if ours >> 40 == 3 && *theirs != 0 {
                self.handles.insert(ours, *theirs);
                *theirs = ours;
            }
        }
        if self.ext2 && reply.stat.kind == abi::fs::kind::DIRECTORY {
            expected.stat.size = reply.stat.size;
        }
        if reply.stat.node != 0 && expected.stat.node != 0 {
            self.same_node(reply.stat.node, expected.stat.node);
            expected.stat.node = reply.stat.node;
        }
    }

    fn same_node(&mut self, ours: u64, theirs: u64) {
        assert_eq!(*self.nodes.entry(ours).or_insert(theirs), theirs, "nodes");
        assert_eq!(*self.back.entry(theirs).or_insert(ours), ours, "nodes");
    }

    fn compare_list(&mut self, request: &Request, reply: &Reply, bulk: &[u8]) {
        let expected = self.model.list(self.theirs(request.handle));
        if reply.error != 0 {
            assert_eq!(expected.err(), Some(reply.errno()), "{request:?}");
            return;
        }
        if request.offset == 0 {
            self.listed.clear();
        }
        self.listed.extend(unpack(&bulk[..reply.filled as usize]));
        if reply.flags != 0 {
            let mut found = std::mem::take(&mut self.listed);
            found.sort();
            let expected = expected.unwrap();
            assert_eq!(found.len(), expected.len(), "{request:?}");
            for (one, (name, node, kind)) in found.into_iter().zip(expected) {
                assert_eq!((&one.name, one.kind), (&name, kind));
                self.same_node(one.node, node);
            }
        }
    }

    fn plant(&self, request: &Request, expected: &mut Reply) {
        let op = Op::from_code(request.op);
        match self.wrong {
            Some(0) if op == Some(Op::Rename) && expected.error == Errno::Inval as u16 => {
                expected.error = 0;
            }
            Some(1) if op == Some(Op::Stat) && expected.stat.links == 2 => {
                expected.stat.links = 1;
            }
            Some(2) if expected.error == Errno::Loop as u16 => {
                expected.error = Errno::Noent as u16;
            }
            _ => {}
        }
    }
}

impl Solo {
    /// Calls the client; its requests may wait for the disk only.
    pub fn with<T>(&mut self, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        what(&mut Client(&mut |request, bulk| self.ask(request, bulk)))
    }

    /// Calls the client as another caller; its requests must not wait.
    pub fn with_as<T>(&mut self, caller: Token, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        let mut ask = |request: Request, bulk: &mut [u8]| {
            self.ask_as(caller, request, bulk).unwrap_or_else(|| panic!("{request:?} was parked"))
        };
        what(&mut Client(&mut ask))
    }

    /// Opens `/`.
    pub fn root(&mut self) -> u64 {
        self.with(|c| c.root()).unwrap()
    }

    /// Returns the callers woken since the last call.
    pub fn take_woken(&mut self) -> Vec<Token> {
        self.hear();
        std::mem::take(&mut self.woken.0)
    }
}

//! A kernel for one process, over the real services.

use crate::common::PID;
use crate::shared::{Window, Windows};
use abi::fs::{Errno, Op, Reply, Request};
use abi::{net, process};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use fs::Vfs;
use fs::client::Client;
use kernel_contract::exchange::{
    Arrived, Brief, Called, Outgoing, Room, WindowName, Windows as How,
};
use kernel_contract::{Block, PAGE, Passed, Shared};
use kernel_process::ends::{Contracts, Ends, Unreceived};
use kernel_process::errno::Interrupted;
use kernel_process::polls::Polls;
use kernel_process::{System, Wait};
use share::{Answer, Effects, Event, Service, Token};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use zerocopy::IntoBytes;

/// Pages that pass. The program's memory begins with a page, whatever the host says.
#[derive(Debug)]
struct Pages(Vec<u8>);

impl Passed for Pages {
    fn page(&self, number: usize) -> &[u8] {
        &self.0[number * PAGE..][..PAGE]
    }

    fn put(self: Box<Self>, into: &mut [u8]) -> Result<(), Box<dyn Passed>> {
        let count = into.len().min(self.0.len());
        into[..count].copy_from_slice(&self.0[..count]);
        Ok(())
    }
}

/// Returns a block in pages, with zeros after its end.
pub fn passed(bytes: &[u8]) -> Block {
    let mut pages = bytes.to_vec();
    pages.resize(bytes.len().next_multiple_of(PAGE), 0);
    Block::passed(Box::new(Pages(pages)), bytes.len())
}

struct Nobody;

impl Effects for Nobody {
    fn wake(&mut self, _token: Token) {}
    fn wake_all(&mut self) {}
    fn timer(&mut self, _at: u64) {}
}

/// An action of another process.
pub type Deed = Box<dyn FnOnce(&mut Client<'_>)>;
/// The same at the network service.
pub type NetDeed = Box<dyn FnOnce(&mut ::net::client::Client<'_>)>;

/// What other threads of the process do.
pub type WorldDeed = Box<dyn FnOnce(&mut World)>;

pub struct World {
    pub vfs: Vfs,
    pub net: ::net::Net,
    pub now: u64,
    pub prng: Prng,
    /// Actions of other processes while this one waits, one per wait. When none is left, the
    /// process is interrupted.
    pub meanwhile: VecDeque<Deed>,
    pub meanwhile_net: VecDeque<NetDeed>,
    /// The process tree that sockets are charged to.
    pub tree: u32,
    /// The kernel that the process runs on.
    pub kernel: u8,
    /// What other threads do while an accept is on its way to the service.
    pub at_accept: Option<WorldDeed>,
    /// Maximum bulk of a request.
    pub most: usize,
    pub requests: Vec<u16>,
    /// Requests to the process table, and its replies.
    pub asked: Vec<(process::Request, Vec<u8>)>,
    pub answers: VecDeque<process::Reply>,
    /// Data that the table writes at the start of the bulk.
    pub filled: Vec<u8>,
    pub yields: u32,
    /// The ends of the messages that were sent.
    pub sent: Vec<[Option<u64>; 2]>,
    /// Their blocks.
    pub blocks: Vec<Vec<u8>>,
    /// Whether pages of blocks pass, and what of what was taken and reserved.
    pub passes: bool,
    pub taken: usize,
    pub reserved: usize,
    /// The bytes of room that each receive could use as it likes.
    pub places: Vec<Option<usize>>,
    pub windows: Arc<Mutex<Windows>>,
    /// What the windows of other kernels contain.
    pub far: Vec<u8>,
    /// Why the next message is not sent.
    pub refusal: Option<kernel_process::Errno>,
    /// What the next receives return.
    pub received: VecDeque<Result<Result<Arrived, Unreceived>, Interrupted>>,
    /// What becomes of calls with fields alone; without one, they are refused.
    pub calls: VecDeque<Result<(Called, &'static [u8]), Interrupted>>,
    /// The block that the next one brings.
    pub called_block: Option<Block>,
    /// The messages of such calls, which were not refused.
    pub plain: Vec<(u16, Vec<u8>)>,
}

impl World {
    pub fn new() -> World {
        World {
            vfs: Vfs::with_budget(3, 4 << 20),
            net: ::net::Net::start(3),
            now: 1_000_000,
            prng: Prng::new(1),
            meanwhile: VecDeque::new(),
            meanwhile_net: VecDeque::new(),
            tree: 0,
            kernel: 0,
            at_accept: None,
            most: usize::MAX,
            requests: Vec::new(),
            asked: Vec::new(),
            answers: VecDeque::new(),
            filled: Vec::new(),
            yields: 0,
            sent: Vec::new(),
            blocks: Vec::new(),
            received: VecDeque::new(),
            passes: false,
            taken: 0,
            reserved: 0,
            places: Vec::new(),
            windows: Arc::default(),
            far: Vec::new(),
            refusal: None,
            calls: VecDeque::new(),
            called_block: None,
            plain: Vec::new(),
        }
    }

    /// Whatever a program does, it never sends a request reserved for kernels.
    fn note(&mut self, request: &Request) {
        let allowed = Op::from_code(request.op).is_some_and(Op::is_for_programs);
        assert!(allowed, "{request:?}");
        self.requests.push(request.op);
    }

    fn step(&mut self, thread: u64, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        let token = Token::new(DomainId(0), Epoch(1), thread, 0);
        let most = self.most.min(bulk.len());
        let event = Event::Request { token, request: &request, bulk: &mut bulk[..most] };
        match self.vfs.step(self.now, event, &mut Nobody) {
            Answer::Done(reply) => Some(reply),
            Answer::Parked => {
                self.vfs.step(self.now, Event::Cancel(token), &mut Nobody);
                None
            }
            Answer::NoReply => panic!("a request was only heard"),
        }
    }

    fn step_net(
        &mut self,
        thread: u64,
        request: net::Request,
        bulk: &mut [u8],
    ) -> Option<net::Reply> {
        let token = Token::new(DomainId(self.kernel), Epoch(1), thread, 0);
        let most = self.most.min(bulk.len());
        let event = Event::Request { token, request: &request, bulk: &mut bulk[..most] };
        match self.net.step(self.now, event, &mut Nobody) {
            Answer::Done(reply) => Some(reply),
            Answer::Parked => {
                self.net.step(self.now, Event::Cancel(token), &mut Nobody);
                None
            }
            Answer::NoReply => panic!("a request was only heard"),
        }
    }

    /// Sends a request of another process to the network service.
    pub fn with_net<T>(&mut self, what: impl FnOnce(&mut ::net::client::Client<'_>) -> T) -> T {
        let mut ask = |request: net::Request, bulk: &mut [u8]| {
            self.step_net(2, request, bulk).unwrap_or(net::Reply::error(net::Errno::Again))
        };
        what(&mut ::net::client::Client::hasty(&mut ask))
    }

    /// Another process acts while this one waits. Returns false if none is left to act.
    fn wait(&mut self) -> bool {
        if let Some(deed) = self.meanwhile.pop_front() {
            self.with(deed);
        } else if let Some(deed) = self.meanwhile_net.pop_front() {
            self.with_net(deed);
        } else {
            return false;
        }
        true
    }

    /// Polls each service without waiting; returns how many are ready.
    fn look(&mut self, files: &mut [net::Poll], sockets: &mut [net::Poll]) -> u64 {
        let mut count = 0;
        for piece in files.chunks_mut(abi::net::POLLS) {
            let length = size_of_val(piece) as u64;
            let request = Request { length, ..Request::new(Op::Poll, 0) };
            self.note(&request);
            let reply = self.step(1, request, piece.as_mut_bytes()).unwrap();
            assert_eq!(reply.error, 0);
            count += reply.value;
        }
        for piece in sockets.chunks_mut(abi::net::POLLS) {
            let length = size_of_val(piece) as u32;
            let request = net::Request { length, ..net::Request::new(net::Op::Poll, 0) };
            let reply = self.step_net(1, request, piece.as_mut_bytes()).unwrap();
            assert_eq!(reply.error, 0);
            count += reply.value;
        }
        count
    }

    /// Sends a request of another process.
    pub fn with<T>(&mut self, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        let mut ask = |request: Request, bulk: &mut [u8]| {
            self.step(2, request, bulk).unwrap_or(Reply::error(Errno::Again))
        };
        what(&mut Client(&mut ask))
    }
}

fn bytes_of(block: &Block) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = block.each(|_, piece| {
        bytes.extend_from_slice(piece);
        Ok::<(), ()>(())
    });
    bytes
}

impl Ends for World {
    fn send(
        &mut self,
        _end: u64,
        _contracts: &Contracts,
        message: Outgoing<'_>,
    ) -> Result<(), kernel_process::Errno> {
        if let Some(why) = self.refusal.take() {
            return Err(why);
        }
        self.blocks.extend(message.block.take().as_ref().map(bytes_of));
        self.sent.push(message.ends);
        Ok(())
    }

    fn window(&mut self, length: usize) -> Result<Arc<dyn Shared>, kernel_process::Errno> {
        Ok(Window::new(length, &self.windows))
    }

    fn reserve_window(&mut self, at: u64, length: u64) -> Result<u64, kernel_process::Errno> {
        let windows = &mut *self.windows.lock().unwrap();
        let overlaps = |range: [u64; 2]| at < range[0] + range[1] && range[0] < at + length;
        if windows.reserved.iter().any(|it| overlaps(it.1)) {
            return Err(kernel_process::Errno::BUSY);
        }
        Ok(windows.reserve([at, length]))
    }

    fn end_window(&mut self, reserved: u64) {
        let windows = &mut *self.windows.lock().unwrap();
        windows.reserved.retain(|it| it.0 != reserved);
        windows.shown.retain(|it| *it != reserved);
    }

    fn release_window(&mut self, name: &WindowName) {
        self.windows.lock().unwrap().released.push(*name);
    }

    fn copy_window(
        &mut self,
        _name: &WindowName,
        range: Range<usize>,
    ) -> Result<Result<Block, kernel_process::Errno>, Interrupted> {
        let found = self.far.get(range).and_then(Block::of);
        Ok(found.ok_or(kernel_process::Errno::CONNRESET))
    }

    fn take_block(&mut self, _end: u64, bytes: &mut [u8]) -> Option<Block> {
        if !self.passes {
            return None;
        }
        self.taken += 1;
        let block = passed(bytes);
        let whole = bytes.len() - bytes.len() % PAGE;
        bytes[..whole].fill(0);
        Some(block)
    }

    fn reserve_block(&mut self, room: &mut [u8]) -> bool {
        assert!(room.len().is_multiple_of(PAGE));
        self.reserved += usize::from(self.passes);
        self.passes
    }

    fn receive(
        &mut self,
        _end: u64,
        _contracts: &Contracts,
        room: &mut Room<'_>,
        _waits: bool,
    ) -> Result<Result<Arrived, Unreceived>, Interrupted> {
        let next = self.received.front();
        if room.windows == How::Unprepared
            && let Some(Ok(Ok(Arrived { window: Some(_), .. }))) = next
        {
            return Ok(Err(Unreceived::Window));
        }
        let copies = |block: &Block| !(block.passes() && room.block >= block.len() + PAGE);
        if !room.has_memory
            && let Some(Ok(Ok(Arrived { block: Some(block), .. }))) = next
            && copies(block)
        {
            return Ok(Err(Unreceived::Copies));
        }
        self.places.push(room.place.as_ref().map(|place| place.len()));
        if let Some(Ok(Ok(Arrived { block: Some(block), .. }))) = next
            && block.is_placed()
            && let Some(place) = &mut room.place
        {
            place[..block.len()].fill(6);
        }
        self.received.pop_front().unwrap_or(Err(Interrupted))
    }

    fn call_plain(
        &mut self,
        _end: u64,
        _contracts: &Contracts,
        call: &mut Brief<'_>,
    ) -> Result<Called, Interrupted> {
        let Some(answer) = self.calls.pop_front() else { return Ok(Called::Refused) };
        self.plain.push((call.tag, call.fields.to_vec()));
        let (called, bytes) = answer?;
        call.into[..bytes.len()].copy_from_slice(bytes);
        if let Some(blocks) = call.block.as_mut().filter(|_| called != Called::Refused) {
            self.blocks.extend(blocks.block.take().as_ref().map(bytes_of));
            *blocks.block = self.called_block.take().filter(|block| block.len() <= blocks.room);
        }
        Ok(called)
    }
}

impl System for World {
    fn files(&mut self, request: Request, bulk: &mut [u8]) -> Result<Reply, Interrupted> {
        self.note(&request);
        loop {
            if let Some(reply) = self.step(1, request, bulk) {
                return Ok(reply);
            }
            if !self.wait() {
                return Err(Interrupted);
            }
        }
    }

    fn root(&mut self) -> Result<Reply, Interrupted> {
        self.step(1, Request::new(Op::Root, 0), &mut []).ok_or(Interrupted)
    }

    fn sockets(
        &mut self,
        mut request: net::Request,
        bulk: &mut [u8],
    ) -> Result<net::Reply, Interrupted> {
        request.tree = self.tree;
        if request.op == net::Op::Accept as u16
            && let Some(others) = self.at_accept.take()
        {
            others(self);
        }
        loop {
            if let Some(reply) = self.step_net(1, request, bulk) {
                return Ok(reply);
            }
            if !self.wait() {
                return Err(Interrupted);
            }
        }
    }

    fn poll(
        &mut self,
        Polls { files, sockets, .. }: &mut Polls,
        wait: Wait,
    ) -> Result<Result<u64, kernel_process::Errno>, Interrupted> {
        loop {
            let count = self.look(files, sockets);
            if count != 0 || wait == Wait::Not {
                return Ok(Ok(count));
            }
            match wait {
                _ if self.wait() => {}
                Wait::Until(deadline) => {
                    self.now = self.now.max(deadline);
                    return Ok(Ok(0));
                }
                _ => return Err(Interrupted),
            }
        }
    }

    fn files_until(
        &mut self,
        request: Request,
        bulk: &mut [u8],
        deadline: u64,
    ) -> Result<Option<Reply>, Interrupted> {
        self.note(&request);
        loop {
            if let Some(reply) = self.step(1, request, bulk) {
                return Ok(Some(reply));
            }
            if !self.wait() {
                self.now = self.now.max(deadline);
                return Ok(None);
            }
        }
    }

    fn processes(
        &mut self,
        request: process::Request,
        bulk: &mut [u8],
    ) -> Result<process::Reply, Interrupted> {
        let op = process::Op::from_code(request.op);
        assert!(op.is_some_and(process::Op::is_for_programs), "{request:?}");
        self.asked.push((request, bulk.to_vec()));
        let reply = self.answers.pop_front().ok_or(Interrupted)?;
        let filled = bulk.len().min(reply.filled as usize);
        bulk[..filled].fill(0x5a);
        bulk[..self.filled.len()].copy_from_slice(&std::mem::take(&mut self.filled));
        Ok(reply)
    }

    fn place(
        &mut self,
        requested: u32,
        directory: u64,
        path: &[u8],
    ) -> Result<Result<u16, process::Errno>, Interrupted> {
        assert!(!path.is_empty());
        if self.with(|c| c.stat(directory)) == Err(abi::fs::Errno::Restarted) {
            return Ok(Err(process::Errno::Restarted));
        }
        Ok(match requested {
            abi::program::ANY_KERNEL => Ok(1),
            0 | 1 => Ok(requested as u16),
            _ => Err(process::Errno::Hostunreach),
        })
    }

    fn monotonic(&mut self) -> u64 {
        self.now = self.now.saturating_add(1);
        self.now
    }

    fn realtime(&mut self) -> u64 {
        self.now.saturating_add(1 << 60)
    }

    fn cpu_time(&mut self) -> u64 {
        self.now / 2
    }

    fn random(&mut self, into: &mut [u8]) {
        into.fill_with(|| self.prng.next() as u8);
    }

    fn sleep_until(&mut self, deadline: u64) -> Result<(), Interrupted> {
        // Wakes up halfway first: a sleep may return early.
        let half = self.now + deadline.saturating_sub(self.now) / 2;
        self.now = if half == self.now { deadline } else { half };
        Ok(())
    }

    fn yield_now(&mut self) -> Result<(), Interrupted> {
        self.yields += 1;
        Ok(())
    }

    fn pid(&self) -> u32 {
        PID
    }
}

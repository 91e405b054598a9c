//! The socket calls of programs on two kernels, any of which may be nonsense, and the deaths of the
//! second kernel.
//!
//! Contract: a thread that waits makes no other call. A program knows the handles that it was given
//! and numbers that were never handles, but not those of the bystander.

use super::board::{Board, Caller};
use super::cable::hosts::{V4, V6};
use super::strangers::PORTS;
use crate::bytes::Bytes;
use abi::net::{ANY, ANY_V4, Address, Errno, Op, Poll, Reply, Request, State, flag, v4};
use base::id::{DomainId, Epoch};
use share::Token;
use zerocopy::IntoBytes;

/// Threads of each kernel.
const THREADS: usize = 6;
/// Largest buffer of a call.
const BULK: usize = 3000;
/// Sockets that a program opens at once at most.
const MANY: usize = 200;

/// A handle, with a kernel that owns it: the handle ends when each owner has closed it, or died.
#[derive(Clone, Copy)]
struct Handle {
    number: u64,
    kernel: u8,
}

/// The outcomes, as bits.
pub mod had {
    pub const ACCEPTED: u64 = 1;
    pub const CONNECTED: u64 = 1 << 1;
    pub const RECEIVED: u64 = 1 << 2;
    pub const DATAGRAM: u64 = 1 << 3;
    pub const RESET: u64 = 1 << 4;
    pub const REFUSED: u64 = 1 << 5;
    pub const TIMED_OUT: u64 = 1 << 6;
    pub const FULL: u64 = 1 << 7;
    pub const LOST: u64 = 1 << 8;
    pub const POLLED: u64 = 1 << 9;
}

pub struct Programs {
    handles: Vec<Handle>,
    /// The epoch of each kernel.
    epochs: [u16; 2],
    sequence: u32,
    /// Handles that no program may know.
    secret: Vec<u64>,
    pub had: u64,
}

impl Programs {
    pub fn new(secret: Vec<u64>) -> Programs {
        Programs { handles: Vec::new(), epochs: [1; 2], sequence: 0, secret, had: 0 }
    }

    /// Does what the input says.
    pub fn act(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        match input.below(16) {
            0..3 => self.open(board, input),
            3 => self.close_one(board, input),
            4..8 => self.transfer(board, input),
            8 => self.poll(board, input),
            9 => self.give_up(board, input),
            10 if input.once_in(16) => self.die(board),
            11 if input.once_in(16) => self.open_many(board, input),
            10..13 => self.accept(board, input),
            _ => self.any(board, input),
        }
        self.note(board);
    }

    /// Returns the token of a thread that does not wait.
    fn thread(&mut self, board: &Board<'_>, input: &mut Bytes<'_>) -> Option<Token> {
        let (kernel, thread) = (input.below(2), input.below(THREADS) as u64);
        self.sequence += 1;
        let epoch = Epoch(self.epochs[kernel]);
        let token = Token::new(DomainId(kernel as u8), epoch, thread, self.sequence);
        let waits = |it: &Caller| it.token.kernel == token.kernel && it.token.thread == thread;
        (!board.waiting.iter().any(waits)).then_some(token)
    }

    fn handle(&self, input: &mut Bytes<'_>) -> u64 {
        if self.handles.is_empty() || input.once_in(30) {
            let number = input.number(64);
            return if self.secret.contains(&number) { 0 } else { number };
        }
        self.handles[input.below(self.handles.len())].number
    }

    /// Returns the address and port of something to connect to, or to send to.
    fn goal(input: &mut Bytes<'_>) -> (Address, u16) {
        let hosts = if input.once_in(3) { V6 } else { V4 };
        let address = match input.below(12) {
            0..4 => hosts.localhost,
            4..8 => hosts.peer,
            8 => hosts.far,
            9 => [hosts.ours, ANY, ANY_V4, v4([10, 0, 2, 255]), v4([224, 0, 0, 1])][input.below(5)],
            10 => hosts.neighbour(100 + input.byte() % 100),
            _ => v4(input.u32().to_be_bytes()),
        };
        (address, PORTS[input.below(PORTS.len())])
    }

    /// Returns the flag of a new socket, and the address that is any of its family.
    fn family(input: &mut Bytes<'_>) -> (u16, Address) {
        if input.once_in(2) { (flag::V6, ANY) } else { (0, ANY_V4) }
    }

    fn tree(input: &mut Bytes<'_>) -> u32 {
        [5, 5, 6, 0][input.below(4)]
    }

    /// A program opens a socket and listens, connects or binds.
    fn open(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        let Some(token) = self.thread(board, input) else { return };
        let op = if input.once_in(4) { Op::Udp } else { Op::Tcp };
        let (family, any) = Programs::family(input);
        let tree = Programs::tree(input);
        let request = Request { tree, flags: family, ..Request::new(op, 0) };
        board.call(token, request, Vec::new());
        self.note(board);
        let Some(&Handle { number, .. }) = self.handles.last() else { return };
        let ((address, port), is_udp) = (Programs::goal(input), op == Op::Udp);
        let flags = if input.once_in(2) { flag::NONBLOCK } else { 0 };
        let backlog = input.number(8) as u16;
        let request = match input.below(4) {
            0 | 1 if is_udp => Request { address: any, port, ..Request::new(Op::Bind, number) },
            0 | 1 => Request { port, backlog, ..Request::new(Op::Listen, number) },
            _ => Request { flags, address, port, ..Request::new(Op::Connect, number) },
        };
        board.call(token, request, Vec::new());
    }

    /// A program opens sockets until it has many, or gets no more.
    fn open_many(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        let Some(token) = self.thread(board, input) else { return };
        let (tree, is_udp) = (Programs::tree(input), input.once_in(2));
        let ((address, port), (family, any)) = (Programs::goal(input), Programs::family(input));
        for _ in 0..input.below(MANY) {
            let op = if is_udp { Op::Udp } else { Op::Tcp };
            let before = self.handles.len();
            let request = Request { tree, flags: family, ..Request::new(op, 0) };
            board.call(token, request, Vec::new());
            self.note(board);
            let Some(&Handle { number, .. }) = self.handles.get(before) else { return };
            let (op, flags) = if is_udp { (Op::Bind, 0) } else { (Op::Connect, flag::NONBLOCK) };
            let (address, port) = if is_udp { (any, 0) } else { (address, port) };
            let request = Request { flags, address, port, tree, ..Request::new(op, number) };
            board.call(token, request, Vec::new());
            self.note(board);
        }
    }

    fn accept(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        let Some(token) = self.thread(board, input) else { return };
        let flags = if input.once_in(2) { flag::NONBLOCK } else { 0 };
        let tree = Programs::tree(input);
        let handle = self.handle(input);
        board.call(token, Request { flags, tree, ..Request::new(Op::Accept, handle) }, Vec::new());
    }

    /// A program sends or receives.
    fn transfer(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        let Some(token) = self.thread(board, input) else { return };
        let (handle, length) = (self.handle(input), input.below(BULK));
        let flags = [0, flag::NONBLOCK, flag::NONBLOCK, flag::PEEK][input.below(4)];
        let request = match input.below(2) {
            0 => Request { flags, ..Request::new(Op::Receive, handle) },
            _ => {
                let (address, port) =
                    if input.once_in(2) { (ANY, 0) } else { Programs::goal(input) };
                Request {
                    flags: flags & flag::NONBLOCK,
                    address,
                    port,
                    ..Request::new(Op::Send, handle)
                }
            }
        };
        let request = Request { length: length as u32, ..request };
        board.call(token, request, vec![b'p'; length]);
    }

    fn poll(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        let Some(token) = self.thread(board, input) else { return };
        let polls: Vec<Poll> = (0..1 + input.below(10))
            .map(|_| {
                let (handle, want) = (self.handle(input), 1 + input.below(3) as u16);
                Poll { handle, want, ..Poll::default() }
            })
            .collect();
        let bulk = polls.as_bytes().to_vec();
        let flags = if input.once_in(2) { flag::WAIT } else { 0 };
        let request = Request { flags, length: bulk.len() as u32, ..Request::new(Op::Poll, 0) };
        board.call(token, request, bulk);
    }

    /// A caller that waits gives up, or asks again though nothing has woken it.
    fn give_up(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        let waits = board.waiting.len();
        let Some(caller) = board.waiting.get(input.below(waits.max(1))) else { return };
        let token = caller.token;
        if input.once_in(2) {
            return board.cancel(token);
        }
        board.again(token);
        board.settle();
    }

    /// The second kernel dies.
    fn die(&mut self, board: &mut Board<'_>) {
        let epoch = self.epochs[1];
        self.had |= if self.handles.iter().any(|it| it.kernel == 1) { had::LOST } else { 0 };
        self.handles.retain(|it| it.kernel != 1);
        self.epochs[1] = epoch.wrapping_add(1).max(1);
        board.gone(1, epoch);
    }

    /// A program makes a request of any bits, most of them plausible.
    fn any(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        let Some(token) = self.thread(board, input) else { return };
        let (address, port) = Programs::goal(input);
        let mut request = Request {
            op: Op::ALL[input.below(Op::ALL.len())] as u16,
            flags: if input.once_in(3) { input.number(16) as u16 } else { 0 },
            port: if input.once_in(8) { input.number(16) as u16 } else { port },
            address,
            backlog: input.number(16) as u16,
            length: input.number(12) as u32,
            handle: self.handle(input),
            value: input.number(2) as u32,
            option: input.below(12) as u16,
            tree: Programs::tree(input),
            ..Request::default()
        };
        if input.once_in(20) {
            request.op = input.number(16) as u16;
        }
        let bulk = input.below(BULK);
        board.call(token, request, vec![b'x'; bulk]);
    }

    fn close_one(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        let Some(token) = self.thread(board, input) else { return };
        let handle = self.handle(input);
        board.call(token, Request::new(Op::Close, handle), Vec::new());
    }

    /// Notes what calls have returned.
    fn note(&mut self, board: &mut Board<'_>) {
        for (caller, reply) in std::mem::take(&mut board.finished) {
            let kernel = caller.token.kernel;
            let is_alive = caller.token.epoch == self.epochs[usize::from(kernel)];
            if reply.handle != 0 && is_alive {
                self.handles.push(Handle { number: reply.handle, kernel });
            }
            if caller.request.op == Op::Close as u16 && reply.error == 0 {
                self.closed(caller.request.handle, kernel);
            }
            self.had |= outcomes(&caller.request, &reply);
        }
    }

    /// A caller of this kernel has closed a handle: its kernel does not own it any more, or the one
    /// that opened it, if the caller's is no owner.
    fn closed(&mut self, number: u64, kernel: u8) {
        let is_own = |it: &Handle| (it.number, it.kernel) == (number, kernel);
        let own = self.handles.iter().position(is_own);
        let first = || self.handles.iter().position(|it| it.number == number);
        if let Some(at) = own.or_else(first) {
            self.handles.remove(at);
        }
    }

    /// All programs end: their handles are closed one by one, or with their kernels.
    pub fn end(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>, forgets: bool) {
        if input.once_in(2) {
            self.die(board);
        }
        let mut handles = std::mem::take(&mut self.handles);
        if forgets {
            handles.pop();
        }
        for Handle { number, .. } in handles {
            let closed = board.ask(Request::new(Op::Close, number), &mut []);
            assert!(closed.is_ok(), "a handle that was not closed: {closed:?}");
        }
        board.settle();
        // What a call has opened that waited until now.
        self.note(board);
        assert!(self.handles.is_empty(), "a call was given a handle after its socket was closed");
    }

    /// No caller waits for something that is already there.
    pub fn none_is_forgotten(&mut self, board: &mut Board<'_>) {
        let tokens: Vec<Token> = board.waiting.iter().map(|it| it.token).collect();
        for token in tokens {
            if !board.waiting.iter().any(|it| it.token == token) || board.again(token) {
                continue;
            }
            let (caller, reply) = board.finished.last().unwrap();
            // The flag NONBLOCK, which another caller has set meanwhile, wakes none that wait.
            let is_flag = reply.error == Errno::Again as u16;
            assert!(is_flag, "a caller was not woken: {:?}, {reply:?}", caller.request);
        }
        self.note(board);
    }
}

fn outcomes(request: &Request, reply: &Reply) -> u64 {
    let Some(op) = Op::from_code(request.op) else { return 0 };
    let own = [V4.ours, V4.localhost, V6.ours, V6.localhost, ANY, ANY_V4];
    let is_outside = |address: Address| !own.contains(&address);
    match (op, reply.errno()) {
        (Op::Accept, Errno::Success) if is_outside(reply.address) => had::ACCEPTED,
        (Op::Peer, Errno::Success) if is_outside(reply.address) => had::CONNECTED,
        (Op::Receive, Errno::Success) if reply.filled != 0 && is_outside(reply.address) => {
            had::DATAGRAM
        }
        (Op::Receive, Errno::Success) if reply.filled != 0 => had::RECEIVED,
        (Op::Poll, Errno::Success) if reply.value != 0 => had::POLLED,
        (Op::State, _) if reply.state == State::Reset as u16 => had::RESET,
        (_, Errno::Connreset) => had::RESET,
        (_, Errno::Connrefused) => had::REFUSED,
        (_, Errno::Timedout) => had::TIMED_OUT,
        (_, Errno::Nobufs | Errno::Nfile) => had::FULL,
        _ => 0,
    }
}

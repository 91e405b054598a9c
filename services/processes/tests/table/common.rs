//! The simulated kernels that send requests to the table.

use abi::process::{Errno, Listed, Op, Reply, Request, State, flag};
use abi::program::{BEGIN_MAGIC, Begin};
use abi::quota::Quota;
use base::id::{DomainId, Epoch};
use processes::Processes;
use processes::client::{Client, News};
use share::{Answer, Effects, Event, Service, Token};
use zerocopy::IntoBytes;

/// The effects of a step: the callers it woke, and its timer.
#[derive(Debug, Default)]
pub struct Woken(pub Vec<Token>, pub Option<u64>);

impl Effects for Woken {
    fn wake(&mut self, token: Token) {
        self.0.push(token);
    }
    fn wake_all(&mut self) {
        unreachable!("no state is lost here")
    }
    fn timer(&mut self, at: u64) {
        self.1 = Some(self.1.map_or(at, |before| before.min(at)));
    }
}

/// Returns the start data of a program at `path`.
pub fn beginning(path: &[u8]) -> Vec<u8> {
    let head = Begin { magic: BEGIN_MAGIC, path: path.len() as u32, ..Begin::default() };
    [head.as_bytes(), path].concat()
}

/// Returns a Spawn request and its bulk.
pub fn spawn(kernel: u16, parent: u32, flags: u16) -> (Request, Vec<u8>) {
    let bulk = beginning(b"/bin/hello");
    let length = bulk.len() as u32;
    (Request { kernel, parent, flags, length, ..Request::new(Op::Spawn) }, bulk)
}

/// Returns a Wait request.
pub fn wait(parent: u32, pid: i32) -> Request {
    Request { parent, pid, ..Request::new(Op::Wait) }
}

/// The table, with the current life of each kernel.
pub struct World {
    pub table: Processes,
    pub epochs: [u16; 3],
    pub woken: Woken,
    pub now: u64,
    sequence: u32,
}

impl World {
    pub fn new() -> World {
        World::of_life(1)
    }

    pub fn of_life(lives: u32) -> World {
        let table = Processes::start(lives);
        World { table, epochs: [1; 3], woken: Woken::default(), now: 1000, sequence: 0 }
    }

    /// Tells all kernels that the table has restarted.
    pub fn tell_all(&mut self) {
        for kernel in 0..3 {
            assert_eq!(self.errno(kernel, Request::new(Op::Next), &mut []), Errno::Restarted);
        }
    }

    /// Returns the token of a kernel's next request.
    pub fn token(&mut self, kernel: u8) -> Token {
        self.sequence += 1;
        let epoch = Epoch(self.epochs[usize::from(kernel)]);
        Token::new(DomainId(kernel), epoch, 7, self.sequence)
    }

    fn step(&mut self, event: Event<'_, Request>) -> Option<Reply> {
        self.now += 10;
        match self.table.step(self.now, event, &mut self.woken) {
            Answer::Done(reply) => Some(reply),
            Answer::Parked => None,
            Answer::NoReply => panic!("a request got no reply"),
        }
    }

    /// Sends a request. Returns `None` if it was parked.
    pub fn ask(&mut self, token: Token, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        self.step(Event::Request { token, request: &request, bulk })
    }

    /// Repeats a parked request.
    pub fn again(&mut self, token: Token, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        self.step(Event::Again { token, request: &request, bulk })
    }

    /// Sends a request that must be parked.
    pub fn park(&mut self, kernel: u8, request: Request, bulk: &mut [u8]) -> Token {
        let token = self.token(kernel);
        assert_eq!(self.ask(token, request, bulk), None, "{request:?}");
        token
    }

    /// Sends a request that must be answered.
    pub fn done(&mut self, kernel: u8, request: Request, bulk: &mut [u8]) -> Reply {
        let token = self.token(kernel);
        self.ask(token, request, bulk).unwrap_or_else(|| panic!("{request:?} was parked"))
    }

    /// Sends a request that must be answered. Returns its result.
    pub fn errno(&mut self, kernel: u8, request: Request, bulk: &mut [u8]) -> Errno {
        self.done(kernel, request, bulk).errno()
    }

    /// Delivers an event that has no reply.
    pub fn tell(&mut self, event: Event<'_, Request>) {
        assert_eq!(self.table.step(self.now, event, &mut self.woken), Answer::NoReply);
    }

    /// Ends the current life of a kernel.
    pub fn gone(&mut self, kernel: u8) {
        self.tell(Event::Gone(DomainId(kernel), Epoch(self.epochs[usize::from(kernel)])));
    }

    /// Calls the client on a kernel; its requests must not be parked.
    pub fn with<T>(&mut self, kernel: u8, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        what(&mut Client(&mut |request, bulk| self.done(kernel, request, bulk)))
    }

    pub fn take_woken(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.woken.0)
    }

    /// Delivers the timer event if the table has set the timer. Returns whether it had.
    pub fn tick(&mut self) -> bool {
        let Some(at) = self.woken.1.take() else { return false };
        assert!(at >= self.now, "in the past");
        self.now = at;
        self.tell(Event::Timer);
        true
    }

    /// Returns the next task of a kernel, if there is one.
    pub fn next(&mut self, kernel: u8) -> Option<News> {
        let (token, mut room) = (self.token(kernel), [0; 16 * 1024]);
        let reply = self.ask(token, Request::new(Op::Next), &mut room);
        if reply.is_none() {
            self.tell(Event::Cancel(token));
        }
        let reply = reply?;
        Some(Client(&mut |_, _| reply).next(&mut []).unwrap())
    }

    /// Returns the process that a kernel must start next.
    pub fn fetch(&mut self, kernel: u8) -> u32 {
        loop {
            match self.next(kernel) {
                Some(News::Begin { pid, .. }) => return pid,
                Some(News::Group { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Starts a process. Returns its number.
    pub fn run(&mut self, kernel: u8, parent: u32, flags: u16) -> u32 {
        let (request, mut bulk) = spawn(kernel.into(), parent, flags);
        let token = self.park(0, request, &mut bulk);
        let pid = self.fetch(kernel);
        self.with(kernel, |c| c.begun(pid, Quota::default(), Ok(4096))).unwrap();
        let reply = self.again(token, request, &mut bulk).unwrap();
        assert_eq!((reply.errno(), reply.pid), (Errno::Success, pid));
        self.take_woken();
        pid
    }

    /// Starts a watched process on kernel 0.
    pub fn shell(&mut self) -> u32 {
        self.run(0, 0, flag::WATCHED)
    }

    pub fn about(&mut self, pid: u32) -> Option<Listed> {
        match self.with(0, |c| c.about(pid)) {
            Ok(listed) => Some(listed),
            Err(error) => {
                assert_eq!(error, Errno::Srch);
                None
            }
        }
    }

    pub fn state(&mut self, pid: u32) -> Option<State> {
        self.about(pid).and_then(|listed| State::from_code(listed.state))
    }
}

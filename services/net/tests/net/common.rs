//! A service by itself, and who asks it.

use abi::net::{Errno, LOCALHOST, Op, Reply, Request, State, flag};
use base::id::{DomainId, Epoch};
use net::Net;
use net::client::Client;
use share::{Answer, Effects, Event, Service, Token};

/// A thread of a kernel.
pub fn token(kernel: u8, thread: u64) -> Token {
    Token::new(DomainId(kernel), Epoch(1), thread, 1)
}

/// What a service asked of its kernel.
#[derive(Default)]
pub struct Asked {
    pub woken: Vec<Token>,
    pub timer: Option<u64>,
}

impl Effects for Asked {
    fn wake(&mut self, token: Token) {
        self.woken.push(token);
    }
    fn wake_all(&mut self) {
        unreachable!("no state is lost here")
    }

    fn timer(&mut self, at: u64) {
        self.timer = Some(at);
    }
}

/// The service; time goes on by itself.
pub struct Solo {
    pub net: Net,
    pub now: u64,
    pub woken: Vec<Token>,
    pub timer: u64,
}

impl Solo {
    pub fn new() -> Solo {
        Solo { net: Net::start(1), now: 5_000, woken: Vec::new(), timer: u64::MAX }
    }

    pub fn event(&mut self, event: Event<'_, Request>) -> Option<Reply> {
        self.now += 1_700;
        let mut asked = Asked::default();
        let answer = self.net.step(self.now, event, &mut asked);
        self.woken.extend(asked.woken);
        self.timer = asked.timer.unwrap_or(self.timer);
        match answer {
            Answer::Done(reply) => Some(reply),
            Answer::Parked | Answer::NoReply => None,
        }
    }

    /// Asks; `None`: parked.
    pub fn ask(&mut self, token: Token, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        self.event(Event::Request { token, request, bulk })
    }

    /// Asks again.
    pub fn again(&mut self, token: Token, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        self.event(Event::Again { token, request, bulk })
    }

    /// For somebody who never waits.
    pub fn with<T>(&mut self, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        let mut ask = |request: Request, bulk: &mut [u8]| {
            let reply = self.ask(token(0, 0), request, bulk);
            reply.unwrap_or(Reply::error(Errno::Again))
        };
        what(&mut Client::hasty(&mut ask))
    }

    /// A listener, its port, and both ends of a connection: who connected, who accepted.
    pub fn connection(&mut self) -> (u64, u16, u64, u64) {
        let listener = self.with(|c| c.listen(0, 8)).unwrap();
        let port = self.with(|c| c.port(listener)).unwrap();
        let near = self.with(|c| c.connect(port)).unwrap();
        let far = self.with(|c| c.accept(listener)).unwrap();
        (listener, port, near, far)
    }

    pub fn state(&mut self, handle: u64) -> State {
        let reply = self.ask(token(0, 0), Request::new(Op::State, handle), &mut []).unwrap();
        assert_eq!(reply.error, 0);
        State::from_code(reply.state).unwrap()
    }
}

/// A receive of `length` bytes that waits.
pub fn receive(handle: u64, length: usize) -> Request {
    Request { length: length as u32, ..Request::new(Op::Receive, handle) }
}

/// A send of `length` bytes that waits.
pub fn send(handle: u64, length: usize) -> Request {
    Request { length: length as u32, ..Request::new(Op::Send, handle) }
}

/// A connect to a port of this chip.
pub fn connect(handle: u64, port: u16) -> Request {
    Request { address: LOCALHOST, port, ..Request::new(Op::Connect, handle) }
}

/// The same request for somebody who does not wait.
pub fn hasty(request: Request) -> Request {
    Request { flags: flag::NONBLOCK, ..request }
}

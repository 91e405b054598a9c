//! The service alone, and its clients.

use abi::net::{Errno, LOCALHOST, Op, Reply, Request, State, flag};
use base::id::{DomainId, Epoch};
use net::Net;
use net::client::Client;
use share::{Answer, Effects, Event, Service, Token};

/// Returns a token of a thread in a kernel.
pub fn token(kernel: u8, thread: u64) -> Token {
    Token::new(DomainId(kernel), Epoch(1), thread, 1)
}

/// The effects of a step.
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

/// The service; time advances with each event.
pub struct Solo {
    pub net: Net,
    pub now: u64,
    pub woken: Vec<Token>,
    pub timer: u64,
    /// Whether clients use IPv6.
    pub is_v6: bool,
}

impl Solo {
    pub fn new() -> Solo {
        let (net, woken) = (Net::start(1), Vec::new());
        Solo { net, now: 5_000, woken, timer: u64::MAX, is_v6: false }
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

    /// Sends a request; `None` if it was parked.
    pub fn ask(&mut self, token: Token, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        self.event(Event::Request { token, request: &request, bulk })
    }

    /// Repeats a parked request.
    pub fn again(&mut self, token: Token, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        self.event(Event::Again { token, request: &request, bulk })
    }

    /// Calls the client as a caller that never waits.
    pub fn with<T>(&mut self, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        let is_v6 = self.is_v6;
        let mut ask = |request: Request, bulk: &mut [u8]| {
            let reply = self.ask(token(0, 0), request, bulk);
            reply.unwrap_or(Reply::error(Errno::Again))
        };
        let mut client = Client::hasty(&mut ask);
        client.is_v6 = is_v6;
        what(&mut client)
    }

    /// Returns a listener, its port, and both ends of a connection: the connecting one, the
    /// accepting one.
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

/// Returns a receive of `length` bytes that may wait.
pub fn receive(handle: u64, length: usize) -> Request {
    Request { length: length as u32, ..Request::new(Op::Receive, handle) }
}

/// Returns a send of `length` bytes that may wait.
pub fn send(handle: u64, length: usize) -> Request {
    Request { length: length as u32, ..Request::new(Op::Send, handle) }
}

/// Returns a connect to a port of this chip.
pub fn connect(handle: u64, port: u16) -> Request {
    Request { address: LOCALHOST, port, ..Request::new(Op::Connect, handle) }
}

/// Returns the same request without waiting.
pub fn hasty(request: Request) -> Request {
    Request { flags: flag::NONBLOCK, ..request }
}

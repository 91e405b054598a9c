//! The simulated kernels that send requests to the name service.

use abi::names::{Errno, Listed, Name, Op, Reply, Request};
use base::id::{DomainId, Epoch};
use names::Names;
use names::client::{Client, Registration};
use share::{Answer, Effects, Event, Service, Token};

/// The callers that a step woke.
#[derive(Debug, Default)]
pub struct Woken(pub Vec<Token>);

impl Effects for Woken {
    fn wake(&mut self, token: Token) {
        self.0.push(token);
    }
    fn wake_all(&mut self) {
        unreachable!("no state is lost here")
    }
    fn timer(&mut self, _at: u64) {
        unreachable!("it has no timers")
    }
}

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap_or_else(|| panic!("{text} is no name"))
}

/// Returns the registration of a name for a door, by process 7 of tree 5.
pub fn registration(text: &str, door: u64) -> Registration {
    Registration { name: name(text), contract: [9; 16], door, tree: 5, pid: 7 }
}

/// A kernel that looks at the table and never dies.
const OBSERVER: u8 = 3;

/// The service, with the current life of each kernel.
pub struct World {
    pub service: Names,
    pub epochs: [u16; 4],
    pub woken: Woken,
    sequence: u32,
}

impl World {
    pub fn new() -> World {
        World::of_life(1)
    }

    pub fn of_life(lives: u32) -> World {
        let service = Names::start(lives);
        World { service, epochs: [1; 4], woken: Woken::default(), sequence: 0 }
    }

    /// Returns the token of a kernel's next request.
    pub fn token(&mut self, kernel: u8) -> Token {
        self.sequence += 1;
        let epoch = Epoch(self.epochs[usize::from(kernel)]);
        Token::new(DomainId(kernel), epoch, 7, self.sequence)
    }

    fn step(&mut self, event: Event<'_, Request>) -> Option<Reply> {
        match self.service.step(1000, event, &mut self.woken) {
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

    /// Sends a request that must be answered.
    pub fn done(&mut self, kernel: u8, request: Request, bulk: &mut [u8]) -> Reply {
        let token = self.token(kernel);
        self.ask(token, request, bulk).unwrap_or_else(|| panic!("{request:?} was parked"))
    }

    /// Sends a request that must be answered. Returns its result.
    pub fn errno(&mut self, kernel: u8, request: Request) -> Errno {
        self.done(kernel, request, &mut []).errno()
    }

    /// Delivers an event that has no reply.
    pub fn tell(&mut self, event: Event<'_, Request>) {
        assert_eq!(self.service.step(1000, event, &mut self.woken), Answer::NoReply);
    }

    /// Tells the service that the current life of a kernel is over.
    pub fn gone(&mut self, kernel: u8) {
        self.tell(Event::Gone(DomainId(kernel), Epoch(self.epochs[usize::from(kernel)])));
    }

    /// Calls the client on a kernel; its requests must not be parked.
    pub fn with<T>(&mut self, kernel: u8, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        what(&mut Client(&mut |request, bulk| self.done(kernel, request, bulk)))
    }

    /// Registers a name for a door of a kernel.
    pub fn add(&mut self, kernel: u8, text: &str, door: u64) -> Result<u64, Errno> {
        self.with(kernel, |client| client.register(registration(text, door)))
    }

    /// Returns kernel and door of a name.
    pub fn find(&mut self, text: &str) -> Result<(u16, u64), Errno> {
        self.with(OBSERVER, |client| client.find(name(text)))
            .map(|found| (found.kernel, found.door))
    }

    /// Returns the names in the order of the list.
    pub fn texts(&mut self) -> Vec<String> {
        let all = self.list();
        all.iter().map(|listed| listed.name.text().to_string()).collect()
    }

    pub fn list(&mut self) -> Vec<Listed> {
        self.with(OBSERVER, |client| client.list()).unwrap()
    }

    pub fn edition(&mut self) -> u64 {
        self.with(OBSERVER, |client| client.list_some(Name::EMPTY, 1)).unwrap().1
    }

    /// Returns a Watch after the present edition, which is parked.
    pub fn watch(&mut self, kernel: u8, tree: u32) -> (Token, Request) {
        let (token, edition) = (self.token(kernel), self.edition());
        let request = Request { edition, tree, ..Request::new(Op::Watch) };
        assert_eq!(self.ask(token, request, &mut []), None);
        (token, request)
    }

    pub fn take_woken(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.woken.0)
    }
}

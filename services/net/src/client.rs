//! Requests as functions.
//!
//! Contract: [`Ask`] is whoever carries a request to the service and comes back with its reply,
//! having waited meanwhile if it had to. Nothing here knows how.

use abi::net::{Errno, LOCALHOST, Op, Reply, Request, flag};

/// Carries a request to the service.
pub type Ask<'a> = &'a mut dyn FnMut(Request, &mut [u8]) -> Reply;

/// What a client gets.
pub type Result<T> = core::result::Result<T, Errno>;

/// Somebody who asks.
pub struct Client<'a> {
    ask: Ask<'a>,
    flags: u16,
}

impl<'a> Client<'a> {
    /// One that waits where it has to.
    pub fn new(ask: Ask<'a>) -> Client<'a> {
        Client { ask, flags: 0 }
    }

    /// One that gets [`Errno::Again`] instead.
    pub fn hasty(ask: Ask<'a>) -> Client<'a> {
        Client { ask, flags: flag::NONBLOCK }
    }

    fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Result<Reply> {
        let reply = (self.ask)(request, bulk);
        if reply.error == 0 { Ok(reply) } else { Err(reply.errno()) }
    }

    fn waiting(&self, op: Op, handle: u64) -> Request {
        Request { flags: self.flags, ..Request::new(op, handle) }
    }

    /// A socket for datagrams at `port`; 0: any.
    pub fn udp(&mut self, port: u16) -> Result<u64> {
        let handle = self.ask(Request::new(Op::Udp, 0), &mut [])?.handle;
        let bound = self.ask(Request { port, ..Request::new(Op::Bind, handle) }, &mut []);
        self.or_close(handle, bound).map(|_| handle)
    }

    fn or_close<T>(&mut self, handle: u64, result: Result<T>) -> Result<T> {
        if result.is_err() {
            // What went wrong before is what counts.
            let _ = self.close(handle);
        }
        result
    }

    /// A listener at `port`; 0: any.
    pub fn listen(&mut self, port: u16, backlog: u16) -> Result<u64> {
        let handle = self.ask(Request::new(Op::Tcp, 0), &mut [])?.handle;
        let request = Request { port, backlog, ..Request::new(Op::Listen, handle) };
        let listening = self.ask(request, &mut []);
        self.or_close(handle, listening).map(|_| handle)
    }

    /// A connection to `port` of this chip.
    pub fn connect(&mut self, port: u16) -> Result<u64> {
        let handle = self.ask(Request::new(Op::Tcp, 0), &mut [])?.handle;
        let request = Request { address: LOCALHOST, port, ..Request::new(Op::Connect, handle) };
        let connected = self.ask(request, &mut []);
        self.or_close(handle, connected).map(|_| handle)
    }

    /// A connection that somebody made to a listener.
    pub fn accept(&mut self, listener: u64) -> Result<u64> {
        Ok(self.ask(self.waiting(Op::Accept, listener), &mut [])?.handle)
    }

    /// Its own port.
    pub fn port(&mut self, handle: u64) -> Result<u16> {
        Ok(self.ask(Request::new(Op::State, handle), &mut [])?.port)
    }

    /// Sends bytes into a stream; says how many. `bytes` stay as they are.
    pub fn send(&mut self, stream: u64, bytes: &mut [u8]) -> Result<usize> {
        let request = Request { length: bytes.len() as u32, ..self.waiting(Op::Send, stream) };
        Ok(self.ask(request, bytes)?.value as usize)
    }

    /// Sends a datagram to `port` of this chip. `bytes` stay as they are.
    pub fn send_to(&mut self, socket: u64, port: u16, bytes: &mut [u8]) -> Result<()> {
        let (address, length) = (LOCALHOST, bytes.len() as u32);
        let request = Request { address, port, length, ..self.waiting(Op::Send, socket) };
        self.ask(request, bytes).map(|_| ())
    }

    /// Receives what is there; 0 at the end.
    pub fn receive(&mut self, stream: u64, into: &mut [u8]) -> Result<usize> {
        let request = Request { length: into.len() as u32, ..self.waiting(Op::Receive, stream) };
        Ok(self.ask(request, into)?.filled as usize)
    }

    /// Receives a datagram; says how long it is, and which port it is from.
    pub fn receive_from(&mut self, socket: u64, into: &mut [u8]) -> Result<(usize, u16)> {
        let request = Request { length: into.len() as u32, ..self.waiting(Op::Receive, socket) };
        let reply = self.ask(request, into)?;
        Ok((reply.value as usize, reply.port))
    }

    /// Sends no more.
    pub fn shut(&mut self, stream: u64) -> Result<()> {
        self.ask(Request::new(Op::Shut, stream), &mut []).map(|_| ())
    }

    /// Gives a handle back.
    pub fn close(&mut self, handle: u64) -> Result<()> {
        self.ask(Request::new(Op::Close, handle), &mut []).map(|_| ())
    }
}

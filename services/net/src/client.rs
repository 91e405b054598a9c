//! The requests to the network service as functions.
//!
//! Contract: an [`Ask`] carries a request to the service and returns its reply, after waiting if
//! the service parks the request. This module does not depend on how that happens.

use abi::net::{
    ANY, ANY_V4, Address, Errno, LOCALHOST, LOCALHOST_V6, Op, Reply, Request, flag, shut,
};

/// Sends a request with its bulk to the service and returns the reply.
pub type Ask<'a> = &'a mut dyn FnMut(Request, &mut [u8]) -> Reply;

pub type Result<T> = core::result::Result<T, Errno>;

/// The requests as functions, over a callback that carries them.
pub struct Client<'a> {
    ask: Ask<'a>,
    flags: u16,
    /// Whether it uses IPv6 from now on.
    pub is_v6: bool,
}

impl<'a> Client<'a> {
    /// Creates a client whose requests wait.
    pub fn new(ask: Ask<'a>) -> Client<'a> {
        Client { ask, flags: 0, is_v6: false }
    }

    /// Creates a client that gets [`Errno::Again`] instead of waiting.
    pub fn hasty(ask: Ask<'a>) -> Client<'a> {
        Client { ask, flags: flag::NONBLOCK, is_v6: false }
    }

    fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Result<Reply> {
        let reply = (self.ask)(request, bulk);
        if reply.error == 0 { Ok(reply) } else { Err(reply.errno()) }
    }

    fn waiting(&self, op: Op, handle: u64) -> Request {
        Request { flags: self.flags, ..Request::new(op, handle) }
    }

    fn socket(&mut self, op: Op) -> Result<u64> {
        let flags = if self.is_v6 { flag::V6 } else { 0 };
        Ok(self.ask(Request { flags, ..Request::new(op, 0) }, &mut [])?.handle)
    }

    /// Returns this chip's address.
    fn local(&self) -> Address {
        if self.is_v6 { LOCALHOST_V6 } else { LOCALHOST }
    }

    /// Creates a UDP socket at `port`; 0: any.
    pub fn udp(&mut self, port: u16) -> Result<u64> {
        let handle = self.socket(Op::Udp)?;
        let address = if self.is_v6 { ANY } else { ANY_V4 };
        let bind = Request { address, port, ..Request::new(Op::Bind, handle) };
        let bound = self.ask(bind, &mut []);
        self.or_close(handle, bound).map(|_| handle)
    }

    fn or_close<T>(&mut self, handle: u64, result: Result<T>) -> Result<T> {
        if result.is_err() {
            // The first error is returned.
            let _ = self.close(handle);
        }
        result
    }

    /// Creates a listener at `port`; 0: any.
    pub fn listen(&mut self, port: u16, backlog: u16) -> Result<u64> {
        let handle = self.socket(Op::Tcp)?;
        let request = Request { port, backlog, ..Request::new(Op::Listen, handle) };
        let listening = self.ask(request, &mut []);
        self.or_close(handle, listening).map(|_| handle)
    }

    /// Connects to `port` of this chip.
    pub fn connect(&mut self, port: u16) -> Result<u64> {
        let handle = self.socket(Op::Tcp)?;
        let request = Request { address: self.local(), port, ..Request::new(Op::Connect, handle) };
        let connected = self.ask(request, &mut []);
        self.or_close(handle, connected).map(|_| handle)
    }

    /// Accepts a connection from a listener.
    pub fn accept(&mut self, listener: u64) -> Result<u64> {
        Ok(self.ask(self.waiting(Op::Accept, listener), &mut [])?.handle)
    }

    /// Returns the local port.
    pub fn port(&mut self, handle: u64) -> Result<u16> {
        Ok(self.ask(Request::new(Op::State, handle), &mut [])?.port)
    }

    /// Sends bytes on a stream. Returns how many. Leaves `bytes` unchanged.
    pub fn send(&mut self, stream: u64, bytes: &mut [u8]) -> Result<usize> {
        let request = Request { length: bytes.len() as u32, ..self.waiting(Op::Send, stream) };
        Ok(self.ask(request, bytes)?.value as usize)
    }

    /// Sends a datagram to `port` of this chip. Leaves `bytes` unchanged.
    pub fn send_to(&mut self, socket: u64, port: u16, bytes: &mut [u8]) -> Result<()> {
        let (address, length) = (self.local(), bytes.len() as u32);
        let request = Request { address, port, length, ..self.waiting(Op::Send, socket) };
        self.ask(request, bytes).map(|_| ())
    }

    /// Receives bytes. Returns 0 at the end of the stream.
    pub fn receive(&mut self, stream: u64, into: &mut [u8]) -> Result<usize> {
        let request = Request { length: into.len() as u32, ..self.waiting(Op::Receive, stream) };
        Ok(self.ask(request, into)?.filled as usize)
    }

    /// Receives a datagram. Returns its length, which may exceed `into`, and the sender's port.
    pub fn receive_from(&mut self, socket: u64, into: &mut [u8]) -> Result<(usize, u16)> {
        let request = Request { length: into.len() as u32, ..self.waiting(Op::Receive, socket) };
        let reply = self.ask(request, into)?;
        Ok((reply.value as usize, reply.port))
    }

    /// Ends the sending direction of a stream.
    pub fn shut(&mut self, stream: u64) -> Result<()> {
        let request = Request { value: shut::WRITE, ..Request::new(Op::Shut, stream) };
        self.ask(request, &mut []).map(|_| ())
    }

    pub fn close(&mut self, handle: u64) -> Result<()> {
        self.ask(Request::new(Op::Close, handle), &mut []).map(|_| ())
    }
}

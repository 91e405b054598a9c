//! Streams of bytes to and from the host: the vsock device and [`Streams`] as a service.
//!
//! - An ACCEPT gives the next stream that the host opens to the accepting kernel. Others may belong
//!   to it: until the kernel says SINGLE or closes it, the kernel gets all further streams.
//! - A stream that is offered waits for an ACCEPT of the kernel that serves the device. It wakes no
//!   other kernel, which may rest.
//! - When a kernel dies, its streams are closed, and the host sees their end.
//! - A READ of a stream that has ended gets what had come before, then no bytes. A request for a
//!   stream that is not known, because it was closed or the service has lost its state, is answered
//!   with [`told::GONE`].
//! - Each step exchanges at most [`PACKETS`] packets with the device in each direction. If there
//!   are more, a timer continues.
//! - If the device is opened again all streams end.

use crate::driver::{Call, Collected, Driven, Driver};
use crate::request::{Reply, kind, told};
use crate::streams::{Id, Read, STREAMS, Streams};
use crate::vsock::{self, Vsock};
use crate::waiters::{Ready, Waiters};
use abi::host::PORT;
use abi::soc::QueueRegisters;
use abi::vsock::{DATA, DEVICE_ID};
use alloc::boxed::Box;
use alloc::vec;
use base::id::DomainId;
use share::{Device, Token};
use virtio::transport::Needs;

/// Maximum number of packets that are received, or sent, by one look at the device; a step looks at
/// most twice.
pub const PACKETS: usize = 16;

/// The service.
pub type Host = Driven<Link>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    Stream,
    Bytes(Id),
    Room(Id),
}

/// An accepted stream and its user.
#[derive(Clone, Copy, Debug)]
struct Owner {
    id: Id,
    /// The request that accepted it.
    token: Token,
    /// No other stream belongs to it.
    is_single: bool,
}

/// The driver's own state.
#[derive(Debug)]
pub struct Link {
    vsock: Option<Vsock>,
    streams: Streams,
    /// The owners of the accepted streams.
    owners: [Option<Owner>; STREAMS],
    /// Of [`DATA`] bytes.
    packet: Box<[u8]>,
}

impl Link {
    /// Receives packets. Returns how many.
    fn receive(&mut self, device: &Device<'_>) -> usize {
        let Some(vsock) = &mut self.vsock else { return 0 };
        for count in 0..PACKETS {
            let Some((header, bytes)) = vsock.receive(device, &mut self.packet) else {
                return count;
            };
            self.streams.received(&header, &self.packet[..bytes]);
        }
        PACKETS
    }

    /// Sends packets. Returns how many.
    fn send(&mut self, device: &Device<'_>) -> usize {
        let Some(vsock) = &mut self.vsock else { return 0 };
        for count in 0..PACKETS {
            if !vsock.has_room(device) {
                return count;
            }
            let Some((header, bytes)) = self.streams.next(&mut self.packet) else { return count };
            vsock.send(device, &header, &self.packet[..bytes]);
        }
        PACKETS
    }

    /// Returns the kernel that gets all further streams, if there is one.
    fn taker(&self) -> Option<DomainId> {
        let mut owners = self.owners.iter().flatten();
        let taker = owners.find(|owner| !owner.is_single && self.streams.is_known(owner.id));
        taker.map(|owner| owner.token.kernel())
    }

    fn accept(&mut self, token: Token) -> Option<Id> {
        if self.taker().is_some_and(|taker| taker != token.kernel()) {
            return None;
        }
        let Link { streams, owners, .. } = self;
        let id = streams.accept()?;
        let unused =
            |owner: &&mut Option<Owner>| owner.is_none_or(|owner| !streams.is_known(owner.id));
        // There are as many places as streams.
        if let Some(place) = owners.iter_mut().find(unused) {
            *place = Some(Owner { id, token, is_single: false });
        }
        Some(id)
    }

    fn close(&mut self, id: Id) {
        self.streams.close(id);
        let own = |owner: &&mut Option<Owner>| owner.is_some_and(|owner| owner.id == id);
        if let Some(place) = self.owners.iter_mut().find(own) {
            *place = None;
        }
    }

    fn set_single(&mut self, id: Id) {
        let mut owners = self.owners.iter_mut().flatten();
        if let Some(owner) = owners.find(|owner| owner.id == id) {
            owner.is_single = true;
        }
    }

    fn use_stream(&mut self, id: Id, call: Call<'_>) -> Result<Reply, For> {
        let (done, gone) = (Reply::of(told::DONE), Reply::of(told::GONE));
        let bytes = call.bytes();
        let bulk = &mut call.bulk[..bytes];
        match call.request.kind {
            _ if !self.streams.is_known(id) => Ok(gone),
            kind::CLOSE => {
                self.close(id);
                Ok(done)
            }
            kind::SINGLE => {
                self.set_single(id);
                Ok(done)
            }
            _ if bytes == 0 => Ok(done),
            kind::READ => match self.streams.read(id, bulk) {
                Read::Bytes(bytes) => Ok(Reply { filled: bytes as u32, ..done }),
                Read::End => Ok(done),
                Read::Wait => Err(For::Bytes(id)),
            },
            _ => match self.streams.write(id, bulk) {
                Some(0) => Err(For::Room(id)),
                Some(bytes) => Ok(Reply { taken: bytes as u32, ..done }),
                None => Ok(gone),
            },
        }
    }
}

impl Driver for Link {
    type For = For;
    const NAME: &'static str = "host";
    const NEEDS: Needs = Needs { id: DEVICE_ID, memory: vsock::MEMORY, features: 0 };

    fn start(lives: u32) -> Link {
        let streams = Streams::new(PORT, lives);
        let packet = vec![0; DATA].into_boxed_slice();
        Link { vsock: None, streams, owners: [None; STREAMS], packet }
    }

    fn place_queues(&mut self, device: &Device<'_>) -> [QueueRegisters; 2] {
        // With the reset the device has ended the streams that were open, and offers the others
        // again.
        self.streams.reset();
        self.vsock.insert(Vsock::new(device)).queues(device)
    }

    fn opened(&mut self, device: &Device<'_>, _: u64) {
        if let Some(vsock) = &mut self.vsock {
            vsock.opened(device);
        }
    }

    fn collect(&mut self, device: &Device<'_>) -> Collected {
        let received = self.receive(device);
        let sent = self.send(device);
        Collected { works: received > 0, more: received == PACKETS || sent == PACKETS }
    }

    fn asked(&mut self, _: &Device<'_>, call: Call<'_>, _: &Waiters<For>) -> Result<Reply, For> {
        match call.request.kind {
            kind::ABOUT => Ok(Reply::of(told::DONE)),
            kind::ACCEPT => match self.accept(call.token) {
                Some(id) => Ok(Reply { value: id.number(), ..Reply::of(told::DONE) }),
                None => Err(For::Stream),
            },
            kind::READ | kind::WRITE | kind::CLOSE | kind::SINGLE => {
                self.use_stream(Id::from_number(call.request.at), call)
            }
            _ => Ok(Reply::of(told::REFUSED)),
        }
    }

    fn forget(&mut self, gone: &dyn Fn(Token) -> bool) {
        // An ACCEPT that is cancelled now was answered, but its caller did not get the answer.
        for owner in &mut self.owners {
            if let Some(found) = owner.filter(|found| gone(found.token)) {
                self.streams.close(found.id);
                *owner = None;
            }
        }
    }

    fn ready(&self, token: Token, wait: For) -> Ready {
        match wait {
            For::Stream => match self.taker() {
                None => Ready::Serving(self.streams.offered()),
                Some(taker) if taker == token.kernel() => Ready::Oldest(self.streams.offered()),
                Some(_) => Ready::No,
            },
            For::Bytes(id) | For::Room(id) if !self.streams.is_open(id) => Ready::All,
            For::Bytes(id) => Ready::Nearest(usize::from(self.streams.has_input(id))),
            For::Room(id) => Ready::Oldest(usize::from(self.streams.has_room(id))),
        }
    }
}

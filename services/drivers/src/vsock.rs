//! virtio vsock: sends and receives packets of streams. [`crate::streams`] interprets them.
//!
//! A packet is copied between the caller's memory and a buffer in the device's memory. When all
//! transmit buffers are in flight, [`Vsock::send`] accepts nothing.

use crate::queue::{self, Completion, Piece, Queue};
use crate::transport::{Bus, InitError, Transport};
use abi::boot::Device;
use abi::vsock::{DATA, DEVICE_ID, Header, RECEIVE, TRANSMIT};
use base::bytes;
use base::port::Words;
use zerocopy::{FromBytes, IntoBytes};

/// Number of buffers in each direction.
const BUFFERS: usize = 6;
/// Space for the header in a buffer, so that the data start at a word.
const HEAD: usize = 48;
const BUFFER: usize = HEAD + DATA;
/// Size of the device memory that this driver needs.
pub const MEMORY: usize = 2 * queue::BYTES + 2 * BUFFERS * BUFFER;

pub struct Vsock {
    transport: Transport,
    receive: Queue,
    transmit: Queue,
    /// Offset in the window of the first buffer: receive buffers, then transmit buffers.
    buffers: usize,
    /// The buffer of each request, by its head in the queue.
    coming: [u8; queue::ENTRIES],
    going: [u8; queue::ENTRIES],
    free: u32,
}

impl Vsock {
    /// Initializes the device.
    pub fn start<W: Words>(bus: &Bus<W>, device: &Device) -> Result<Self, InitError> {
        let (mut transport, _, at) = Transport::open(bus, device, DEVICE_ID, MEMORY, 0)?;
        let receive = transport.add_queue(bus, RECEIVE, at)?;
        let transmit = transport.add_queue(bus, TRANSMIT, at + queue::BYTES)?;
        transport.finish(bus)?;
        let mut vsock = Vsock {
            transport,
            receive,
            transmit,
            buffers: at + 2 * queue::BYTES,
            coming: [0; queue::ENTRIES],
            going: [0; queue::ENTRIES],
            free: (1 << BUFFERS) - 1,
        };
        (0..BUFFERS).for_each(|buffer| vsock.offer(bus, buffer));
        vsock.transport.notify(bus);
        Ok(vsock)
    }

    /// Returns whether input has arrived, or since the last call room for output where there was
    /// none.
    pub fn has_news<W: Words>(&mut self, bus: &Bus<W>) -> bool {
        let was_full = self.free == 0;
        was_full && self.has_room(bus) || self.receive.has_completed(&bus.words)
    }

    fn pieces<W: Words>(&self, bus: &Bus<W>, slot: usize, data: usize, comes: bool) -> [Piece; 2] {
        let address = bus.window + (self.buffers + slot * BUFFER) as u64;
        let head = size_of::<Header>() as u32;
        [
            Piece { address, bytes: head, device_writes: comes },
            Piece { address: address + HEAD as u64, bytes: data as u32, device_writes: comes },
        ]
    }

    fn offer<W: Words>(&mut self, bus: &Bus<W>, buffer: usize) {
        let pieces = self.pieces(bus, buffer, DATA, true);
        if let Some(head) = self.receive.submit(&bus.words, &pieces) {
            self.coming[head as usize] = buffer as u8;
        }
    }

    /// Returns the next received packet: its header, and how many bytes of `data` it filled.
    pub fn receive<W: Words>(
        &mut self,
        bus: &Bus<W>,
        data: &mut [u8; DATA],
    ) -> Option<(Header, usize)> {
        loop {
            let Completion { head, bytes } = self.receive.complete(&bus.words)?;
            let buffer = self.coming[head as usize] as usize;
            let at = self.buffers + buffer * BUFFER;
            let mut words = [0; HEAD];
            bytes::load_bytes(&bus.words, at, &mut words);
            let header = Header::read_from_prefix(&words).ok().map(|(header, _)| header);
            let length = (bytes as usize).checked_sub(size_of::<Header>());
            let packet = header.zip(length).map(|(header, length)| {
                (header, length.min(header.bytes.get() as usize).min(DATA))
            });
            if let Some((_, length)) = packet {
                bytes::load_bytes(&bus.words, at + HEAD, &mut data[..length]);
            }
            self.offer(bus, buffer);
            self.transport.notify(bus);
            if packet.is_some() {
                return packet;
            }
        }
    }

    /// Returns whether a transmit buffer is free.
    pub fn has_room<W: Words>(&mut self, bus: &Bus<W>) -> bool {
        while let Some(Completion { head, .. }) = self.transmit.complete(&bus.words) {
            self.free |= 1 << self.going[head as usize];
        }
        self.free != 0
    }

    /// Sends a packet. Returns false if no buffer is free.
    pub fn send<W: Words>(&mut self, bus: &Bus<W>, header: &Header, data: &[u8]) -> bool {
        if !self.has_room(bus) || data.len() > DATA {
            return false;
        }
        let buffer = self.free.trailing_zeros() as usize;
        let slot = BUFFERS + buffer;
        let at = self.buffers + slot * BUFFER;
        bytes::store_bytes(&bus.words, at, header.as_bytes());
        bytes::store_bytes(&bus.words, at + HEAD, data);
        let pieces = self.pieces(bus, slot, data.len(), false);
        let pieces = if data.is_empty() { &pieces[..1] } else { &pieces[..] };
        let Some(head) = self.transmit.submit(&bus.words, pieces) else { return false };
        self.going[head as usize] = buffer as u8;
        self.free &= self.free - 1;
        self.transport.notify(bus);
        true
    }
}

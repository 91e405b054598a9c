//! virtio vsock: sends and receives packets of streams. [`crate::streams`] interprets them.
//!
//! A packet is copied between the caller's memory and a buffer in the device's memory. When all
//! transmit buffers are in flight, [`Vsock::send`] accepts nothing. The device must be open for all
//! but [`Vsock::new`].

use abi::soc::QueueRegisters;
use abi::vsock::{DATA, Header};
use base::bytes;
use share::Device;
use virtio::queue::{self, Completion, Piece, Queue};
use virtio::transport::Registers;
use zerocopy::{FromBytes, IntoBytes};

/// Number of buffers in each direction.
const BUFFERS: usize = 6;
/// Space for the header in a buffer, so that the data start at a word.
const HEAD: usize = 48;
const BUFFER: usize = HEAD + DATA;
/// Size of the device memory that this driver needs: the receive and the transmit queue, receive
/// buffers, transmit buffers.
pub const MEMORY: usize = 2 * queue::BYTES + 2 * BUFFERS * BUFFER;

#[derive(Debug)]
pub struct Vsock {
    receive: Queue,
    transmit: Queue,
    /// The buffer of each request, by its head in the queue.
    coming: [u8; queue::ENTRIES],
    going: [u8; queue::ENTRIES],
    free: u32,
}

impl Vsock {
    /// Lays out the queues in memory that the device does not use now.
    pub fn new(device: &Device<'_>) -> Vsock {
        Vsock {
            receive: Queue::new(&device.words, device.memory),
            transmit: Queue::new(&device.words, device.memory + queue::BYTES),
            coming: [0; queue::ENTRIES],
            going: [0; queue::ENTRIES],
            free: (1 << BUFFERS) - 1,
        }
    }

    /// Returns the places of the queues, in the order of their numbers.
    pub fn queues(&self, device: &Device<'_>) -> [QueueRegisters; 2] {
        [self.receive.place(device.window), self.transmit.place(device.window)]
    }

    /// Gives the device, open now, its buffers.
    pub fn opened(&mut self, device: &Device<'_>) {
        (0..BUFFERS).for_each(|buffer| self.offer(device, buffer));
        Registers(device).notify();
    }

    fn buffer_at(device: &Device<'_>, slot: usize) -> usize {
        device.memory + 2 * queue::BYTES + slot * BUFFER
    }

    fn pieces(device: &Device<'_>, slot: usize, data: usize, comes: bool) -> [Piece; 2] {
        let address = device.window + Self::buffer_at(device, slot) as u64;
        let head = size_of::<Header>() as u32;
        [
            Piece { address, bytes: head, device_writes: comes },
            Piece { address: address + HEAD as u64, bytes: data as u32, device_writes: comes },
        ]
    }

    fn offer(&mut self, device: &Device<'_>, buffer: usize) {
        let pieces = Self::pieces(device, buffer, DATA, true);
        if let Some(head) = self.receive.submit(&device.words, &pieces) {
            self.coming[head as usize] = buffer as u8;
        }
    }

    /// Returns the next received packet: its header, and how many bytes of `data` it filled.
    pub fn receive(&mut self, device: &Device<'_>, data: &mut [u8]) -> Option<(Header, usize)> {
        loop {
            let Completion { head, bytes } = self.receive.complete(&device.words)?;
            let buffer = self.coming[head as usize] as usize;
            let at = Self::buffer_at(device, buffer);
            let mut words = [0; HEAD];
            bytes::load_bytes(&device.words, at, &mut words);
            let header = Header::read_from_prefix(&words).ok().map(|(header, _)| header);
            let length = (bytes as usize).checked_sub(size_of::<Header>());
            let packet = header.zip(length).map(|(header, length)| {
                (header, length.min(header.bytes.get() as usize).min(data.len()))
            });
            if let Some((_, length)) = packet {
                bytes::load_bytes(&device.words, at + HEAD, &mut data[..length]);
            }
            self.offer(device, buffer);
            Registers(device).notify();
            if packet.is_some() {
                return packet;
            }
        }
    }

    /// Returns whether a transmit buffer is free.
    pub fn has_room(&mut self, device: &Device<'_>) -> bool {
        while let Some(Completion { head, .. }) = self.transmit.complete(&device.words) {
            self.free |= 1 << self.going[head as usize];
        }
        self.free != 0
    }

    /// Sends a packet. Returns false if no buffer is free.
    pub fn send(&mut self, device: &Device<'_>, header: &Header, data: &[u8]) -> bool {
        if !self.has_room(device) || data.len() > DATA {
            return false;
        }
        let buffer = self.free.trailing_zeros() as usize;
        let slot = BUFFERS + buffer;
        let at = Self::buffer_at(device, slot);
        bytes::store_bytes(&device.words, at, header.as_bytes());
        bytes::store_bytes(&device.words, at + HEAD, data);
        let pieces = Self::pieces(device, slot, data.len(), false);
        let pieces = if data.is_empty() { &pieces[..1] } else { &pieces[..] };
        let Some(head) = self.transmit.submit(&device.words, pieces) else { return false };
        self.going[head as usize] = buffer as u8;
        self.free &= self.free - 1;
        Registers(device).notify();
        true
    }
}

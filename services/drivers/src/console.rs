//! The system console: virtio console, one port.
//!
//! Input is read from buffers that the device filled; output is copied to transmit buffers. When
//! all transmit buffers are in flight, [`Console::write`] accepts fewer bytes than given; the
//! caller waits for the interrupt and passes the rest.

use crate::queue::{self, Completion, Piece, Queue};
use crate::transport::{Bus, InitError, Transport};
use abi::boot::Device;
use base::bytes;
use base::port::Words;

const DEVICE_ID: u64 = 3;
const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;
/// Number of buffers in each direction.
const BUFFERS: usize = 8;
/// Size of a buffer.
const BUFFER: usize = 512;
/// Size of the device memory that this driver needs.
pub const MEMORY: usize = 2 * queue::BYTES + 2 * BUFFERS * BUFFER;

/// A received buffer that is not completely read.
#[derive(Clone, Copy, Debug)]
struct Pending {
    buffer: usize,
    from: usize,
    to: usize,
}

pub struct Console {
    transport: Transport,
    receive: Queue,
    transmit: Queue,
    /// Offset in the window of the first buffer: receive buffers, then transmit buffers.
    buffers: usize,
    /// The buffer of each request, by its head in the queue.
    receive_buffer: [u8; queue::ENTRIES],
    transmit_buffer: [u8; queue::ENTRIES],
    transmit_free: u32,
    pending: Option<Pending>,
}

impl Console {
    /// Initializes the device.
    pub fn start<W: Words>(bus: &Bus<W>, device: &Device) -> Result<Self, InitError> {
        let (mut transport, _, at) = Transport::open(bus, device, DEVICE_ID, MEMORY, 0)?;
        let receive = transport.add_queue(bus, RECEIVE, at)?;
        let transmit = transport.add_queue(bus, TRANSMIT, at + queue::BYTES)?;
        transport.finish(bus)?;
        let mut console = Console {
            transport,
            receive,
            transmit,
            buffers: at + 2 * queue::BYTES,
            receive_buffer: [0; queue::ENTRIES],
            transmit_buffer: [0; queue::ENTRIES],
            transmit_free: (1 << BUFFERS) - 1,
            pending: None,
        };
        for buffer in 0..BUFFERS {
            console.offer(bus, buffer);
        }
        console.transport.notify(bus);
        Ok(console)
    }

    fn address<W: Words>(&self, bus: &Bus<W>, buffer: usize) -> u64 {
        bus.window + (self.buffers + buffer * BUFFER) as u64
    }

    /// Returns whether input has arrived, or since the last call room for output where there was
    /// none.
    pub fn has_news<W: Words>(&mut self, bus: &Bus<W>) -> bool {
        let was_full = self.transmit_free == 0;
        self.reap(bus);
        was_full && self.transmit_free != 0 || self.receive.has_completed(&bus.words)
    }

    fn offer<W: Words>(&mut self, bus: &Bus<W>, buffer: usize) {
        let address = self.address(bus, buffer);
        let piece = Piece { address, bytes: BUFFER as u32, device_writes: true };
        if let Some(head) = self.receive.submit(&bus.words, &[piece]) {
            self.receive_buffer[head as usize] = buffer as u8;
        }
    }

    /// Copies input to `into`. Returns 0 if there is none.
    pub fn read<W: Words>(&mut self, bus: &Bus<W>, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            let Some(mut pending) = self.pending.take().or_else(|| self.received(bus)) else {
                break;
            };
            while pending.from < pending.to && done < into.len() {
                let at = self.buffers + pending.buffer * BUFFER + pending.from;
                let word = bus.words.load(at / 8 * 8).to_le_bytes();
                into[done] = word[at % 8];
                done += 1;
                pending.from += 1;
            }
            if pending.from < pending.to {
                self.pending = Some(pending);
            } else {
                self.offer(bus, pending.buffer);
                self.transport.notify(bus);
            }
        }
        done
    }

    fn received<W: Words>(&mut self, bus: &Bus<W>) -> Option<Pending> {
        let Completion { head, bytes } = self.receive.complete(&bus.words)?;
        let buffer = self.receive_buffer[head as usize] as usize;
        Some(Pending { buffer, from: 0, to: (bytes as usize).min(BUFFER) })
    }

    /// Queues bytes for output. Returns how many; 0 if all buffers are in flight.
    pub fn write<W: Words>(&mut self, bus: &Bus<W>, from: &[u8]) -> usize {
        self.reap(bus);
        let mut done = 0;
        for chunk in from.chunks(BUFFER) {
            if self.transmit_free == 0 {
                break;
            }
            let buffer = self.transmit_free.trailing_zeros() as usize;
            let slot = BUFFERS + buffer;
            bytes::store_bytes(&bus.words, self.buffers + slot * BUFFER, chunk);
            let address = self.address(bus, slot);
            let piece = Piece { address, bytes: chunk.len() as u32, device_writes: false };
            let Some(head) = self.transmit.submit(&bus.words, &[piece]) else { break };
            self.transmit_buffer[head as usize] = buffer as u8;
            self.transmit_free &= self.transmit_free - 1;
            done += chunk.len();
        }
        if done > 0 {
            self.transport.notify(bus);
        }
        done
    }

    fn reap<W: Words>(&mut self, bus: &Bus<W>) {
        while let Some(Completion { head, .. }) = self.transmit.complete(&bus.words) {
            self.transmit_free |= 1 << self.transmit_buffer[head as usize];
        }
    }

    /// Returns whether the device has failed and needs a reset.
    pub fn needs_reset<W: Words>(&self, bus: &Bus<W>) -> bool {
        self.transport.needs_reset(bus)
    }
}

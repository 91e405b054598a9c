//! virtio rng: seeds a kernel's generators.

use crate::queue::{self, Piece, Queue};
use crate::transport::{Bus, InitError, Transport};
use abi::boot::Device;
use base::bytes;
use base::port::Words;

const DEVICE_ID: u64 = 4;
/// Most bytes of one answer.
pub const BUFFER: usize = 64;
/// Bytes of device memory this driver needs.
pub const MEMORY: usize = queue::BYTES + BUFFER;

/// The driver; one request at a time.
pub struct Rng {
    transport: Transport,
    queue: Queue,
    buffer: usize,
}

impl Rng {
    /// Starts the device.
    pub fn start<W: Words>(bus: &Bus<W>, device: &Device) -> Result<Self, InitError> {
        let (mut transport, _, at) = Transport::open(bus, device, DEVICE_ID, MEMORY, 0)?;
        let queue = transport.add_queue(bus, 0, at)?;
        transport.finish(bus)?;
        Ok(Rng { transport, queue, buffer: at + queue::BYTES })
    }

    /// Asks for up to [`BUFFER`] bytes; false when a request is under way.
    pub fn request<W: Words>(&mut self, bus: &Bus<W>, bytes: usize) -> bool {
        if self.queue.in_flight() > 0 {
            return false;
        }
        let address = bus.window + self.buffer as u64;
        let bytes = bytes.min(BUFFER) as u32;
        let piece = Piece { address, bytes, device_writes: true };
        let accepted = self.queue.submit(&bus.words, &[piece]).is_some();
        self.transport.notify(bus);
        accepted
    }

    /// The answer, once it is there: how many bytes of `into` were filled.
    pub fn take<W: Words>(&mut self, bus: &Bus<W>, into: &mut [u8]) -> Option<usize> {
        let done = self.queue.complete(&bus.words)?;
        let length = into.len().min(done.bytes as usize);
        bytes::load_bytes(&bus.words, self.buffer, &mut into[..length]);
        Some(length)
    }
}

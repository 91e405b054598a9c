//! virtio rng: random bytes from the host, for the monitor's `random`. The random numbers of
//! programs and of `/dev/random` have another seed, which the board's blob contains.

use crate::queue::{self, Piece, Queue};
use crate::transport::{Bus, InitError, Transport};
use abi::boot::Device;
use base::bytes;
use base::port::Words;

const DEVICE_ID: u64 = 4;
/// Maximum bytes of one request.
pub const BUFFER: usize = 64;
/// Size of the device memory that this driver needs.
pub const MEMORY: usize = queue::BYTES + BUFFER;

/// The driver, with one request at a time.
pub struct Rng {
    transport: Transport,
    queue: Queue,
    buffer: usize,
}

impl Rng {
    /// Initializes the device.
    pub fn start<W: Words>(bus: &Bus<W>, device: &Device) -> Result<Self, InitError> {
        let (mut transport, _, at) = Transport::open(bus, device, DEVICE_ID, MEMORY, 0)?;
        let queue = transport.add_queue(bus, 0, at)?;
        transport.finish(bus)?;
        Ok(Rng { transport, queue, buffer: at + queue::BYTES })
    }

    /// Requests up to [`BUFFER`] bytes. Returns false if a request is in flight.
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

    /// Copies the random bytes to `into` if the request has completed. Returns how many.
    pub fn take<W: Words>(&mut self, bus: &Bus<W>, into: &mut [u8]) -> Option<usize> {
        let done = self.queue.complete(&bus.words)?;
        let length = into.len().min(done.bytes as usize);
        bytes::load_bytes(&bus.words, self.buffer, &mut into[..length]);
        Some(length)
    }
}

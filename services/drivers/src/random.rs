//! virtio rng: random bytes from the host, for the monitor's `random`. The random numbers of
//! programs and of `/dev/random` have another seed, which the board's blob contains.
//!
//! A READ fills at most [`BUFFER`] bytes. One request is with the device at a time; other callers
//! wait for their turn.

use crate::driver::{Call, Collected, Driven, Driver};
use crate::request::{Reply, kind, told};
use crate::slots::{Slot, Slots};
use crate::waiters::{Ready, Wait, Waiters};
use abi::soc::QueueRegisters;
use base::bytes;
use share::{Device, Token};
use virtio::queue::{self, Piece, Queue};
use virtio::transport::{Needs, Registers};

const DEVICE_ID: u64 = 4;
/// Maximum bytes of one request.
pub const BUFFER: usize = 64;
/// Size of the device memory that this driver needs.
pub const MEMORY: usize = queue::BYTES + BUFFER;

/// The service.
pub type Random = Driven<Rng>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// The device has its request.
    Done,
    /// The device has another caller's.
    Turn,
}

/// The driver's own state.
#[derive(Debug)]
pub struct Rng {
    queue: Option<Queue>,
    slot: Slots<1>,
}

impl Rng {
    fn submit(&mut self, device: &Device<'_>, token: Token, bytes: usize) -> Option<()> {
        let queue = self.queue.as_mut()?;
        let address = device.window + (device.memory + queue::BYTES) as u64;
        let piece = Piece { address, bytes: bytes as u32, device_writes: true };
        let head = queue.submit(&device.words, &[piece])?;
        self.slot.begin(0, token, head);
        Registers(device).notify();
        Some(())
    }

    /// Hands the bytes in the buffer to their caller.
    fn finish(&mut self, device: &Device<'_>, bulk: &mut [u8], bytes: usize) -> Reply {
        let length = bytes.min(BUFFER).min(bulk.len());
        bytes::load_bytes(&device.words, device.memory + queue::BYTES, &mut bulk[..length]);
        self.slot.release(0);
        let told = if length == 0 { told::FAILED } else { told::DONE };
        Reply { filled: length as u32, ..Reply::of(told) }
    }
}

impl Driver for Rng {
    type For = For;
    const NAME: &'static str = "random";
    const NEEDS: Needs = Needs { id: DEVICE_ID, memory: MEMORY, features: 0 };

    fn start(_: u32) -> Rng {
        Rng { queue: None, slot: Slots::new() }
    }

    fn place_queues(&mut self, device: &Device<'_>) -> [QueueRegisters; 2] {
        let queue = self.queue.insert(Queue::new(&device.words, device.memory));
        self.slot.drop_busy();
        [queue.place(device.window), QueueRegisters::default()]
    }

    fn opened(&mut self, _: &Device<'_>, _: u64) {}

    fn collect(&mut self, device: &Device<'_>) -> Collected {
        self.slot.collect(&mut self.queue, device)
    }

    fn asked(
        &mut self,
        device: &Device<'_>,
        call: Call<'_>,
        waiters: &Waiters<For>,
    ) -> Result<Reply, For> {
        let bytes = call.bytes().min(BUFFER);
        match call.request.kind {
            kind::ABOUT => return Ok(Reply::of(told::DONE)),
            kind::READ if bytes == 0 => return Ok(Reply::of(told::DONE)),
            kind::READ => {}
            _ => return Ok(Reply::of(told::REFUSED)),
        }
        match self.slot.of(call.token) {
            Some((_, Slot::Done(_, written))) => {
                return Ok(self.finish(device, call.bulk, written as usize));
            }
            Some(_) => return Err(For::Done),
            None => {}
        }
        if self.slot.free() <= waiters.coming(call.now, Wait::For(For::Turn), call.token) {
            return Err(For::Turn);
        }
        match self.submit(device, call.token, bytes) {
            Some(()) => Err(For::Done),
            None => Ok(Reply::of(told::FAILED)),
        }
    }

    fn forget(&mut self, gone: &dyn Fn(Token) -> bool) {
        self.slot.forget(gone);
    }

    fn ready(&self, token: Token, wait: For) -> Ready {
        match wait {
            For::Done if self.slot.is_busy(token) => Ready::No,
            For::Done => Ready::All,
            For::Turn => Ready::Oldest(self.slot.free()),
        }
    }
}

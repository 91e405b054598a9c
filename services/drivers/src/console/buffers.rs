//! Queues and buffers in the console's memory.

use base::bytes;
use share::Device;
use virtio::queue::{self, Piece, Queue};

pub const DEVICE_ID: u64 = 3;
/// Number of buffers in each direction.
pub const BUFFERS: usize = 8;
/// Size of a buffer.
pub const BUFFER: usize = 512;
/// Size of the device memory that this driver needs: the receive and the transmit queue, receive
/// buffers, transmit buffers.
pub const MEMORY: usize = 2 * queue::BYTES + 2 * BUFFERS * BUFFER;

/// Returns the offset in the window of a buffer: receive buffers, then transmit buffers.
pub fn buffer_at(device: &Device<'_>, buffer: usize) -> usize {
    device.memory + 2 * queue::BYTES + buffer * BUFFER
}

/// Puts bytes, at most a buffer, into a transmit buffer, and that into its queue.
pub fn transmit(
    device: &Device<'_>,
    queue: &mut Queue,
    buffer: usize,
    chunk: &[u8],
) -> Option<u16> {
    let at = buffer_at(device, BUFFERS + buffer);
    bytes::store_bytes(&device.words, at, chunk);
    let (address, bytes) = (device.window + at as u64, chunk.len() as u32);
    queue.submit(&device.words, &[Piece { address, bytes, device_writes: false }])
}

pub fn transmit_queue_at(device: &Device<'_>) -> usize {
    device.memory + queue::BYTES
}

//! The system console: virtio console, one port.
//!
//! - A WRITE copies at least one byte to transmit buffers, and waits if all of them are in flight.
//!   Bytes that it took and the device had not when it was opened again are lost.
//! - Input is collected in the state, at most [`INPUT`] bytes. It stays there until a reader takes
//!   it, also if the device is opened again. Only the buffers that this leaves room for are with
//!   the device, so the host is not read further.
//! - A kernel that panics prints with [`last_words`], by force.

use crate::driver::{Call, Collected, Driven, Driver};
use crate::request::{Reply, kind, told};
use crate::waiters::{Ready, Waiters};
use abi::soc::{DeviceRegisters, QueueRegisters};
use alloc::boxed::Box;
use alloc::vec;
use base::bytes;
use core::mem::offset_of;
use share::{Device, Token};
use virtio::queue::{self, Completion, Piece, Queue};
use virtio::transport::{Needs, Registers};

mod buffers;
mod last;

pub use buffers::MEMORY;
use buffers::{BUFFER, BUFFERS, DEVICE_ID, buffer_at, transmit, transmit_queue_at};
pub use last::last_words;

/// Maximum bytes of input that wait for readers.
pub const INPUT: usize = BUFFERS * BUFFER;

/// The service.
pub type Console = Driven<Port>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    Input,
    Room,
}

/// The driver's own state.
#[derive(Debug)]
pub struct Port {
    receive: Option<Queue>,
    transmit: Option<Queue>,
    /// The buffer of each request, by its head in the queue.
    receive_buffer: [u8; queue::ENTRIES],
    transmit_buffer: [u8; queue::ENTRIES],
    /// Bit masks of the buffers that are not with the device.
    receive_free: u32,
    transmit_free: u32,
    /// A ring, and the part of it that is filled.
    input: Box<[u8]>,
    first: usize,
    length: usize,
}

/// Returns the number of a free buffer.
fn take(free: &mut u32) -> Option<usize> {
    let buffer = free.trailing_zeros() as usize;
    *free &= free.wrapping_sub(1);
    (buffer < BUFFERS).then_some(buffer)
}

impl Port {
    /// Offers the device as many buffers as the room for input allows. Returns whether it got any.
    fn offer(&mut self, device: &Device<'_>) -> bool {
        let Some(queue) = &mut self.receive else { return false };
        let mut offered = false;
        while self.length + BUFFER * (queue.in_flight() + 1) <= INPUT {
            let Some(buffer) = take(&mut self.receive_free) else { break };
            let address = device.window + buffer_at(device, buffer) as u64;
            let piece = Piece { address, bytes: BUFFER as u32, device_writes: true };
            let Some(head) = queue.submit(&device.words, &[piece]) else { break };
            self.receive_buffer[usize::from(head) % queue::ENTRIES] = buffer as u8;
            offered = true;
        }
        offered
    }

    /// Copies what the device has received. Returns whether there was anything.
    fn receive(&mut self, device: &Device<'_>) -> bool {
        let mut found = false;
        while let Some(done) = self.receive.as_mut().and_then(|it| it.complete(&device.words)) {
            let Completion { head, bytes } = done;
            let buffer = usize::from(self.receive_buffer[usize::from(head) % queue::ENTRIES]);
            let mut data = [0; BUFFER];
            let length = (bytes as usize).min(BUFFER).min(INPUT - self.length);
            let at = buffer_at(device, buffer % BUFFERS);
            bytes::load_bytes(&device.words, at, &mut data[..length]);
            for &byte in &data[..length] {
                self.input[(self.first + self.length) % INPUT] = byte;
                self.length += 1;
            }
            self.receive_free |= 1 << (buffer % BUFFERS);
            found = true;
        }
        found
    }

    /// Takes input. Returns how much; 0 if there is none, or another kernel has just reset the
    /// device, so that it has the input again.
    fn read(&mut self, device: &Device<'_>, sequence: u64, into: &mut [u8]) -> usize {
        if Registers(device).sequence() != sequence {
            return 0;
        }
        let bytes = into.len().min(self.length);
        for byte in &mut into[..bytes] {
            *byte = self.input[self.first % INPUT];
            self.first = (self.first + 1) % INPUT;
        }
        self.length -= bytes;
        let taken = Registers(device).load(offset_of!(DeviceRegisters, taken));
        let taken = taken.wrapping_add(bytes as u64);
        Registers(device).store(offset_of!(DeviceRegisters, taken), taken);
        if self.offer(device) {
            Registers(device).notify();
        }
        bytes
    }

    /// Queues bytes for output. Returns how many; 0 if all buffers are in flight.
    fn write(&mut self, device: &Device<'_>, from: &[u8]) -> usize {
        let Some(queue) = &mut self.transmit else { return 0 };
        let mut taken = 0;
        for chunk in from.chunks(BUFFER) {
            let Some(buffer) = take(&mut self.transmit_free) else { break };
            let Some(head) = transmit(device, queue, buffer, chunk) else { break };
            self.transmit_buffer[usize::from(head) % queue::ENTRIES] = buffer as u8;
            taken += chunk.len();
        }
        if taken > 0 {
            Registers(device).notify();
        }
        taken
    }
}

impl Driver for Port {
    type For = For;
    const NAME: &'static str = "console";
    const NEEDS: Needs = Needs { id: DEVICE_ID, memory: MEMORY, features: 0 };

    fn start(_: u32) -> Port {
        Port {
            receive: None,
            transmit: None,
            receive_buffer: [0; queue::ENTRIES],
            transmit_buffer: [0; queue::ENTRIES],
            receive_free: 0,
            transmit_free: 0,
            input: vec![0; INPUT].into_boxed_slice(),
            first: 0,
            length: 0,
        }
    }

    fn place_queues(&mut self, device: &Device<'_>) -> [QueueRegisters; 2] {
        // The device has it again.
        self.length = 0;
        (self.receive_free, self.transmit_free) = ((1 << BUFFERS) - 1, (1 << BUFFERS) - 1);
        let receive = self.receive.insert(Queue::new(&device.words, device.memory));
        let at = transmit_queue_at(device);
        let transmit = self.transmit.insert(Queue::new(&device.words, at));
        [receive.place(device.window), transmit.place(device.window)]
    }

    fn opened(&mut self, _: &Device<'_>, _: u64) {}

    fn collect(&mut self, device: &Device<'_>) -> Collected {
        let mut works = self.receive(device);
        while let Some(done) = self.transmit.as_mut().and_then(|it| it.complete(&device.words)) {
            let buffer = self.transmit_buffer[usize::from(done.head) % queue::ENTRIES];
            self.transmit_free |= 1 << (usize::from(buffer) % BUFFERS);
            works = true;
        }
        if self.offer(device) {
            Registers(device).notify();
        }
        Collected { works, more: false }
    }

    fn asked(
        &mut self,
        device: &Device<'_>,
        call: Call<'_>,
        _: &Waiters<For>,
    ) -> Result<Reply, For> {
        let bytes = call.bytes();
        let done = Reply::of(told::DONE);
        match call.request.kind {
            kind::ABOUT => Ok(done),
            kind::READ | kind::WRITE if bytes == 0 => Ok(done),
            kind::READ => match self.read(device, call.sequence, &mut call.bulk[..bytes]) {
                0 => Err(For::Input),
                filled => Ok(Reply { filled: filled as u32, ..done }),
            },
            kind::WRITE => match self.write(device, &call.bulk[..bytes]) {
                0 => Err(For::Room),
                taken => Ok(Reply { taken: taken as u32, ..done }),
            },
            _ => Ok(Reply::of(told::REFUSED)),
        }
    }

    fn forget(&mut self, _: &dyn Fn(Token) -> bool) {}

    fn ready(&self, _: Token, wait: For) -> Ready {
        match wait {
            For::Input => Ready::Nearest(usize::from(self.length > 0)),
            // One writer may need all buffers.
            For::Room => Ready::Oldest(usize::from(self.transmit_free != 0)),
        }
    }
}

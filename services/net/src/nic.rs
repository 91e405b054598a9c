//! The driver of the network device (`abi::ethernet`): frames to and from its buffers.
//!
//! Contract: nothing here waits, and nothing that the device writes is believed: lengths are
//! checked, and a frame is copied once before anything reads it. [`Nic::fetch`] takes the next
//! received frame, and gives its buffer back to the device at once. A frame to send takes a buffer
//! until the device has completed it. Without a free one nothing is sent, nor received, because a
//! received frame may need a response. If the device completes none for [`STUCK`], frames are lost
//! as on any network, so that time limits pass. [`Nic::ring`] tells the device what was done.
//!
//! A device that needs a reset is opened again; frames in flight are lost then, as on any network.
//!
//! ```text
//!   memory of the device:   receive queue | transmit queue | 16 buffers | 16 buffers
//! ```

use crate::addresses::Addresses;
use crate::neighbours::{Mac, Neighbours};
use abi::ethernet::{Config, DEVICE_ID, FEATURES, FRAME, HEADER, HEADER_BUFFERS};
use abi::ethernet::{FRAME_HEADER, FrameHeader, kind};
use abi::ethernet::{RECEIVE, TRANSMIT};
use abi::net::{Address, v4};
use abi::soc::{MAX_QUEUES, QueueRegisters};
use alloc::vec;
use alloc::vec::Vec;
use base::bytes;
use share::Device;
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::{Duration, Instant};
use virtio::queue::{self, ENTRIES, Piece, Queue};
use virtio::transport::{Needs, Progress, Registers, Transport};
use zerocopy::{FromZeros, IntoBytes};

/// Size of a buffer: a header and a frame, in whole words.
const BUFFER: usize = (HEADER + FRAME).next_multiple_of(8);
/// Offset of the buffers in the device's memory.
const BUFFERS: usize = 2 * queue::BYTES;
/// Size of the device memory that this driver needs.
pub const MEMORY: usize = BUFFERS + 2 * ENTRIES * BUFFER;
/// Time after which a device without a free buffer loses frames.
pub const STUCK: Duration = Duration::from_secs(1);
const NEVER: Instant = Instant::from_micros_const(i64::MAX);

const NEEDS: Needs = Needs { id: DEVICE_ID, memory: MEMORY, features: FEATURES };

/// What the driver has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub received: u64,
    pub sent: u64,
    /// Received frames that nothing has looked at, and responses without a buffer.
    pub dropped: u64,
}

/// Frames from the device.
#[derive(Debug)]
struct Receiver {
    queue: Option<Queue>,
    /// The buffer of each request, by its head in the queue.
    of_head: [u8; ENTRIES],
    /// The header and frame that were fetched last.
    bytes: Vec<u8>,
    /// Length of that frame; 0: it is consumed.
    length: usize,
}

/// Frames to the device.
#[derive(Debug)]
struct Sender {
    queue: Option<Queue>,
    of_head: [u8; ENTRIES],
    /// Bit mask of the free buffers.
    free: u32,
    /// Header, which is always 0, and frame.
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub struct Nic {
    transport: Transport,
    receiver: Receiver,
    sender: Sender,
    /// Whether the device is to look at its queues.
    rings: bool,
    /// Since when there is no buffer to send with; [`NEVER`]: there is one. (The unused bytes of an
    /// `Option` could get an address of this kernel's from a register.)
    full_since: Instant,
    counts: Counts,
}

/// Returns the offset of a buffer in the window.
fn buffer(device: &Device<'_>, queue: usize, index: usize) -> usize {
    device.memory + BUFFERS + (queue * ENTRIES + index) * BUFFER
}

impl Default for Nic {
    fn default() -> Nic {
        Nic::new()
    }
}

impl Nic {
    pub fn new() -> Nic {
        let of_head = [0; ENTRIES];
        Nic {
            transport: Transport::new(),
            receiver: Receiver { queue: None, of_head, bytes: vec![0; BUFFER], length: 0 },
            sender: Sender { queue: None, of_head, free: 0, bytes: vec![0; BUFFER] },
            rings: false,
            full_since: NEVER,
            counts: Counts::default(),
        }
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn is_open(&self) -> bool {
        self.transport.is_open()
    }

    pub fn has_failed(&self) -> bool {
        self.transport.has_failed()
    }

    /// Returns whether its opening continues without anything that a request does.
    pub fn is_opening(&self) -> bool {
        !self.is_open() && !self.has_failed()
    }

    /// The device has said something: one that had failed is opened again.
    pub fn retry(&mut self) {
        self.transport.retry();
    }

    /// Opens the device as far as it has acknowledged, and takes back what it has sent. Returns
    /// whether it is open.
    pub fn attend(&mut self, now: u64, device: &Device<'_>) -> bool {
        self.transport.touch(now);
        loop {
            match self.transport.advance(now, device, &NEEDS) {
                Progress::Waiting | Progress::Failed => return false,
                Progress::PlaceQueues => {
                    let queues = self.place_queues(device);
                    self.transport.start(now, device, &queues);
                }
                Progress::Opened => {
                    (0..ENTRIES).for_each(|index| self.offer(device, index));
                }
                Progress::Open => {
                    self.collect(device);
                    let now = Instant::from_micros((now / 1000).cast_signed());
                    self.full_since = if self.is_full() { self.full_since.min(now) } else { NEVER };
                    return true;
                }
            }
        }
    }

    fn place_queues(&mut self, device: &Device<'_>) -> [QueueRegisters; MAX_QUEUES] {
        let at = |index| device.memory + index * queue::BYTES;
        let (receiver, sender) = (&mut self.receiver, &mut self.sender);
        (receiver.length, sender.free) = (0, (1 << ENTRIES) - 1);
        let mut places = [QueueRegisters::default(); MAX_QUEUES];
        for (index, queue) in [(RECEIVE, &mut receiver.queue), (TRANSMIT, &mut sender.queue)] {
            let queue = queue.insert(Queue::new(&device.words, at(index)));
            places[index] = queue.place(device.window);
        }
        places
    }

    /// Gives a buffer to the device, to receive a frame.
    fn offer(&mut self, device: &Device<'_>, index: usize) {
        let address = device.window + buffer(device, RECEIVE, index) as u64;
        let piece = Piece { address, bytes: (HEADER + FRAME) as u32, device_writes: true };
        let queue = self.receiver.queue.as_mut();
        if let Some(head) = queue.and_then(|queue| queue.submit(&device.words, &[piece])) {
            self.receiver.of_head[usize::from(head) % ENTRIES] = index as u8;
            self.rings = true;
        }
    }

    /// Takes back the buffers of frames that the device has sent.
    fn collect(&mut self, device: &Device<'_>) {
        let sender = &mut self.sender;
        while let Some(done) = sender.queue.as_mut().and_then(|it| it.complete(&device.words)) {
            sender.free |= 1 << sender.of_head[usize::from(done.head) % ENTRIES];
            self.transport.works();
        }
    }

    /// Takes the next received frame, which is then returned by [`Nic::frame`] until smoltcp
    /// consumes it or the next is fetched. Returns false if there is none, or no room for a
    /// response. To be called while the device is open.
    pub fn fetch(&mut self, now: Instant, device: &Device<'_>) -> bool {
        self.collect(device);
        self.receiver.length = 0;
        if self.sender.free == 0 && !self.is_stuck(now) {
            return false;
        }
        let receiver = &mut self.receiver;
        let done = receiver.queue.as_mut().and_then(|it| it.complete(&device.words));
        let Some(done) = done else { return false };
        let index = usize::from(receiver.of_head[usize::from(done.head) % ENTRIES]) % ENTRIES;
        let bytes = (done.bytes as usize).min(HEADER + FRAME);
        bytes::load_bytes(
            &device.words,
            buffer(device, RECEIVE, index),
            &mut receiver.bytes[..bytes],
        );
        let buffers = [receiver.bytes[HEADER_BUFFERS], receiver.bytes[HEADER_BUFFERS + 1]];
        if bytes >= HEADER + FRAME_HEADER && buffers == [1, 0] {
            receiver.length = bytes - HEADER;
            self.counts.received += 1;
        } else {
            self.counts.dropped += 1;
        }
        self.transport.works();
        self.offer(device, index);
        true
    }

    /// Returns the frame that was fetched last; empty if it was not valid.
    pub fn frame(&self) -> &[u8] {
        &self.receiver.bytes[HEADER..HEADER + self.receiver.length]
    }

    /// Nothing is to look at the frame that was fetched last.
    pub fn drop_frame(&mut self) {
        self.counts.dropped += u64::from(self.receiver.length != 0);
        self.receiver.length = 0;
    }

    /// Returns whether there is no buffer to send with until the device has completed some.
    fn is_full(&self) -> bool {
        self.sender.free.count_ones() <= 1
    }

    /// Returns whether frames are lost because the device completes none.
    fn is_stuck(&self, now: Instant) -> bool {
        self.full_since <= now - STUCK
    }

    /// Returns until when nothing can be sent unless the device completes something.
    pub fn full_until(&self, now: Instant) -> Option<Instant> {
        let is_full = self.is_full() && !self.is_stuck(now);
        is_full.then(|| self.full_since.min(now) + STUCK)
    }

    /// Sends a frame that is complete but for its destination.
    pub fn send(&mut self, device: &Device<'_>, to: Mac, frame: &[u8]) {
        let length = frame.len().min(FRAME);
        self.sender.bytes[HEADER..HEADER + length].copy_from_slice(&frame[..length]);
        let Nic { sender, rings, counts, .. } = self;
        sender.submit(device, to, length, rings, counts);
    }

    /// Tells the device what was done to its queues.
    pub fn ring(&mut self, device: &Device<'_>) {
        if core::mem::take(&mut self.rings) {
            Registers(device).notify();
        }
    }

    /// Returns the addresses in the configuration space of the open device, and whether a network
    /// is attached.
    pub fn configuration(&self, device: &Device<'_>) -> (Option<Addresses>, bool) {
        let mut config = Config::new_zeroed();
        for (word, bytes) in config.as_mut_bytes().chunks_mut(8).enumerate() {
            let value = Registers(device).config(word).to_le_bytes();
            bytes.copy_from_slice(&value[..bytes.len()]);
        }
        let has = |feature: u64| self.transport.features() & feature == feature;
        if !has(abi::ethernet::MTU_FEATURE) {
            config.mtu = 0.into();
        }
        let is_up = config.status.get() & abi::ethernet::LINK_UP != 0;
        let is_up = is_up || !has(abi::ethernet::STATUS_FEATURE);
        let addresses = Addresses::of(&config).filter(|_| has(abi::ethernet::MAC_FEATURE));
        (addresses, is_up)
    }
}

impl Sender {
    /// Completes the frame of `length` bytes with its destination, and submits it. Without a buffer
    /// it is lost.
    fn submit(
        &mut self,
        device: &Device<'_>,
        to: Mac,
        length: usize,
        rings: &mut bool,
        counts: &mut Counts,
    ) {
        self.bytes[HEADER..HEADER + to.len()].copy_from_slice(&to);
        let is_sent = self.store(device, HEADER + length).is_some();
        *rings |= is_sent;
        counts.sent += u64::from(is_sent);
        counts.dropped += u64::from(!is_sent);
    }

    fn store(&mut self, device: &Device<'_>, bytes: usize) -> Option<()> {
        let index = self.free.trailing_zeros() as usize;
        if index >= ENTRIES {
            return None;
        }
        let at = buffer(device, TRANSMIT, index);
        bytes::store_bytes(&device.words, at, &self.bytes[..bytes]);
        let address = device.window + at as u64;
        let piece = Piece { address, bytes: bytes as u32, device_writes: false };
        let head = self.queue.as_mut()?.submit(&device.words, &[piece])?;
        self.free &= !(1 << index);
        self.of_head[usize::from(head) % ENTRIES] = index as u8;
        Some(())
    }
}

/// The device during one step, as smoltcp uses it: it carries packets of IP, each in a frame to
/// the neighbour that is its next hop.
pub struct Port<'a> {
    pub nic: &'a mut Nic,
    pub device: &'a Device<'a>,
    pub addresses: &'a Addresses,
    pub neighbours: &'a mut Neighbours,
    pub now: Instant,
}

/// A received packet.
pub struct Incoming<'a>(&'a [u8], &'a mut usize);

impl phy::RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        *self.1 = 0;
        read(self.0)
    }
}

/// A packet to send.
pub struct Outgoing<'a> {
    sender: &'a mut Sender,
    rings: &'a mut bool,
    counts: &'a mut Counts,
    device: &'a Device<'a>,
    addresses: &'a Addresses,
    neighbours: &'a mut Neighbours,
    now: Instant,
}

/// Returns the kind of a frame with this packet, and where it goes.
fn destination(packet: &[u8]) -> Option<(u16, Address)> {
    match packet.first()? >> 4 {
        6 => Some((kind::IPV6, *packet.get(24..)?.first_chunk()?)),
        _ => Some((kind::IPV4, v4(*packet.get(16..)?.first_chunk()?))),
    }
}

impl phy::TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let frame = FRAME_HEADER + length;
        if frame > FRAME {
            // No packet is larger than the MTU that smoltcp was given.
            self.counts.dropped += 1;
            return write(&mut vec![0; length]);
        }
        let bytes = &mut self.sender.bytes[HEADER..HEADER + frame];
        let (header, packet) = bytes.split_at_mut(FRAME_HEADER);
        let result = write(packet);
        let Some((kind, to)) = destination(packet) else { return result };
        let (from, kind) = (self.addresses.mac, kind.into());
        header.copy_from_slice(FrameHeader { to: [0; 6], from, kind }.as_bytes());
        let hop = self.addresses.next_hop(to);
        let mac = hop.and_then(|hop| self.neighbours.find(hop, self.now, bytes));
        if let Some(mac) = mac {
            self.sender.submit(self.device, mac, frame, self.rings, self.counts);
        }
        result
    }
}

impl Port<'_> {
    /// Returns the bytes of the packet that was fetched last, where its length is noted, and a
    /// token for a response.
    fn tokens(&mut self) -> (Incoming<'_>, Outgoing<'_>) {
        let Nic { receiver, sender, rings, counts, .. } = &mut *self.nic;
        let packet =
            &receiver.bytes[HEADER + FRAME_HEADER..HEADER + receiver.length.max(FRAME_HEADER)];
        let outgoing = Outgoing {
            sender,
            rings,
            counts,
            device: self.device,
            addresses: self.addresses,
            neighbours: &mut *self.neighbours,
            now: self.now,
        };
        (Incoming(packet, &mut receiver.length), outgoing)
    }
}

impl phy::Device for Port<'_> {
    type RxToken<'b>
        = Incoming<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Outgoing<'b>
    where
        Self: 'b;

    /// Returns the packet that was fetched last; [`Nic::fetch`] takes the next.
    fn receive(&mut self, _: Instant) -> Option<(Incoming<'_>, Outgoing<'_>)> {
        (self.nic.receiver.length > FRAME_HEADER).then(|| self.tokens())
    }

    fn transmit(&mut self, now: Instant) -> Option<Outgoing<'_>> {
        let waits = self.nic.full_until(now).is_some();
        (!waits).then(|| self.tokens().1)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.addresses.mtu;
        capabilities
    }
}

const _: () = assert!(MEMORY <= 64 << 10, "what board files give it");
const _: () = assert!(size_of::<Config>().is_multiple_of(8));

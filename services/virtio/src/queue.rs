//! The driver's side of a split virtqueue (virtio 1.3, 2.7), over 64-bit words.
//!
//! Only the driver writes descriptors and the available ring, and only the device writes the used
//! ring. So each word has one writer, although fields are smaller than words. The device is not
//! trusted: an index that was not submitted is dropped and counted, never followed.
//!
//! [`Queue::submit`] on a full queue returns `None` and changes nothing.

use abi::soc::QueueRegisters;
use base::port::Words;

/// Number of entries of a queue.
pub const ENTRIES: usize = 16;
/// Size of a queue: descriptors 256, available ring 40, used ring 136, each 64-aligned.
pub const BYTES: usize = 256 + 64 + 192;
/// Maximum number of descriptors of a request.
pub const MAX_CHAIN: usize = 3;

const AVAILABLE: usize = 256;
const USED: usize = 320;
const NEXT: u64 = 1;
const DEVICE_WRITES: u64 = 2;

/// A buffer that is part of a request.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Physical address.
    pub address: u64,
    pub bytes: u32,
    /// Whether the device writes it, not reads it.
    pub device_writes: bool,
}

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The value that [`Queue::submit`] returned.
    pub head: u16,
    /// Number of bytes that the device wrote, at most the size of the request's buffers.
    pub bytes: u32,
}

#[derive(Clone, Debug)]
pub struct Queue {
    at: usize,
    /// Bit mask of the free descriptors.
    free: u32,
    /// Number of descriptors of the request with this head; 0: there is none.
    pieces: [u8; ENTRIES],
    /// Number of bytes that the device may write to the request with this head.
    room: [u32; ENTRIES],
    next: [u8; ENTRIES],
    available: u16,
    used: u16,
    /// Number of completions that were not of a submitted request.
    pub bogus: u32,
}

impl Queue {
    /// Creates a cleared queue at byte offset `at` of the window.
    pub fn new(words: &impl Words, at: usize) -> Self {
        for offset in (0..BYTES).step_by(8) {
            words.store(at + offset, 0);
        }
        let free = ((1u64 << ENTRIES) - 1) as u32;
        Queue {
            at,
            free,
            pieces: [0; ENTRIES],
            room: [0; ENTRIES],
            next: [0; ENTRIES],
            available: 0,
            used: 0,
            bogus: 0,
        }
    }

    /// Returns the queue's addresses for the device.
    pub fn place(&self, window: u64) -> QueueRegisters {
        let base = window + self.at as u64;
        QueueRegisters {
            size: ENTRIES as u64,
            descriptors: base,
            driver: base + AVAILABLE as u64,
            device: base + USED as u64,
        }
    }

    /// Returns the number of requests that have not completed.
    pub fn in_flight(&self) -> usize {
        self.pieces.iter().filter(|&&n| n != 0).count()
    }

    /// Makes a request available; the caller must then notify the device. `None` if the queue is
    /// full or `chain` is empty or too long.
    pub fn submit(&mut self, words: &impl Words, chain: &[Piece]) -> Option<u16> {
        if chain.is_empty() || chain.len() > MAX_CHAIN.min(self.free.count_ones() as usize) {
            return None;
        }
        let mut slots = [0u8; MAX_CHAIN];
        for slot in &mut slots[..chain.len()] {
            *slot = self.free.trailing_zeros() as u8;
            self.free &= self.free - 1;
        }
        for (i, piece) in chain.iter().enumerate() {
            let next = (i + 1 < chain.len()).then(|| slots[i + 1]);
            self.describe(words, slots[i] as usize, piece, next);
        }
        let head = slots[0] as usize;
        self.pieces[head] = chain.len() as u8;
        self.room[head] = chain.iter().filter(|p| p.device_writes).map(|p| p.bytes).sum();
        self.store_u16(words, AVAILABLE + 4 + 2 * (self.available as usize % ENTRIES), head as u16);
        words.barrier(); // the request is visible before the index that makes it available
        self.available = self.available.wrapping_add(1);
        self.store_u16(words, AVAILABLE + 2, self.available);
        Some(head as u16)
    }

    fn describe(&mut self, words: &impl Words, slot: usize, piece: &Piece, next: Option<u8>) {
        let mut flags = if piece.device_writes { DEVICE_WRITES } else { 0 };
        flags |= if next.is_some() { NEXT } else { 0 };
        let next = next.unwrap_or(0);
        self.next[slot] = next;
        words.store(self.at + 16 * slot, piece.address);
        let rest = u64::from(piece.bytes) | flags << 32 | u64::from(next) << 48;
        words.store(self.at + 16 * slot + 8, rest);
    }

    /// Returns whether a request has been completed and not been returned yet.
    pub fn has_completed(&self, words: &impl Words) -> bool {
        (words.load(self.at + USED) >> 16) as u16 != self.used
    }

    /// Returns the next completed request, if there is one.
    pub fn complete(&mut self, words: &impl Words) -> Option<Completion> {
        loop {
            let produced = (words.load(self.at + USED) >> 16) as u16;
            if produced == self.used {
                return None;
            }
            if produced.wrapping_sub(self.used) as usize > ENTRIES {
                // More than can be in flight: none of it is believed.
                (self.used, self.bogus) = (produced, self.bogus.saturating_add(1));
                return None;
            }
            words.barrier(); // the entry is read after the index that announces it
            let entry = USED + 4 + 8 * (self.used as usize % ENTRIES);
            let (id, bytes) = (self.load_u32(words, entry), self.load_u32(words, entry + 4));
            self.used = self.used.wrapping_add(1);
            match self.retire(id) {
                Some(room) => return Some(Completion { head: id as u16, bytes: bytes.min(room) }),
                None => self.bogus = self.bogus.saturating_add(1),
            }
        }
    }

    fn retire(&mut self, id: u32) -> Option<u32> {
        let head = id as usize;
        let pieces = *self.pieces.get(head)?;
        if pieces == 0 {
            return None;
        }
        let mut slot = head;
        for _ in 0..pieces {
            self.free |= 1 << slot;
            slot = self.next[slot] as usize;
        }
        self.pieces[head] = 0;
        Some(self.room[head])
    }

    fn store_u16(&self, words: &impl Words, at: usize, value: u16) {
        let (word, shift) = (self.at + at / 8 * 8, at % 8 * 8);
        let old = words.load(word) & !(0xffff << shift);
        words.store(word, old | u64::from(value) << shift);
    }

    fn load_u32(&self, words: &impl Words, at: usize) -> u32 {
        (words.load(self.at + at / 8 * 8) >> (at % 8 * 8)) as u32
    }
}

//! Layout of a message link: memory with one sender and one receiver.
//!
//! Link (a, b) is at `links + (a * domains + b) * LINK_SIZE`. **Only `a` writes it and only `b`
//! reads it.** Everything that goes from b to a, including consumer words and replies, is in link
//! (b, a).
//!
//! ```text
//! 0     producer words of the rings a->b: urgent, blockable, stream; a cache line each
//! 192   consumer words of the rings b->a: urgent, blockable, stream; a cache line each
//! 384   stalled word of the stream ring a->b
//! 448   reply headers: a cache line per reply slot (a answers a call of b)
//! 4096  urgent ring, blockable ring, stream ring, reply payloads
//! ```
//!
//! All accesses are aligned 64-bit loads and stores. Payloads are bytes, packed into words in
//! little-endian order.

/// Bytes of a ring slot. A message takes as many consecutive slots as it needs.
pub const SLOT: usize = 64;
/// Bytes of the header of a message: [`pack_header`] and [`pack_tag`].
pub const HEADER: usize = 16;
/// Maximum payload of a request or a reply in bytes.
pub const MAX_PAYLOAD: usize = 4096;
/// Maximum reply slots of a link.
pub const MAX_REPLIES: usize = 32;
/// Nesting levels of blockable calls: a thread calls at level 0, the handler of that call at level
/// 1, and so on. Each level has reply slots of its own, so a nested call cannot wait for an outer
/// one.
pub const LEVELS: usize = 4;

/// Sizes of a link. Kernels use [`LAYOUT`]; tests use smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Slots of the urgent ring, a power of two.
    pub urgent_slots: u32,
    /// Slots of the blockable ring, a power of two.
    pub blockable_slots: u32,
    /// Slots of the stream ring, a power of two.
    pub stream_slots: u32,
    /// Reply slots of urgent calls, numbered first.
    pub urgent_replies: u8,
    /// Reply slots of blockable calls per level, numbered after the urgent ones.
    pub level_replies: [u8; LEVELS],
    /// Payload bytes of a reply slot, a multiple of 8.
    pub reply_bytes: u32,
}

/// The layout of every link of a board.
pub const LAYOUT: Layout = Layout {
    urgent_slots: 128,
    blockable_slots: 256,
    stream_slots: 256,
    urgent_replies: 8,
    level_replies: [12, 6, 4, 2],
    reply_bytes: MAX_PAYLOAD as u32,
};

pub const LINK_SIZE: u64 = LAYOUT.size() as u64;

/// Rings of a link in one direction: urgent, blockable, stream.
pub const RING_COUNT: usize = 3;
/// Offset of the producer words; the urgent ring's is first.
pub const PRODUCER: usize = 0;
/// Offset of the consumer words; the urgent ring's is first.
pub const CONSUMER: usize = PRODUCER + RING_COUNT * SLOT;
/// Offset of the stream ring's stalled word: [`pack_session`] with the consumer's index at which
/// the producer last found no room.
pub const STALLED: usize = CONSUMER + RING_COUNT * SLOT;
/// Offset of the reply headers.
pub const REPLIES: usize = STALLED + SLOT;
/// Offset of the urgent ring; the other rings and the reply payloads follow.
pub const RINGS: usize = 4096;
/// In a reply header: [`pack_session`] of (server, caller, sequence). Written last.
pub const REPLY_DONE: usize = 0;
/// In a reply header: [`pack_status`].
pub const REPLY_STATUS: usize = 8;

impl Layout {
    /// Total number of reply slots.
    pub const fn replies(&self) -> usize {
        let l = &self.level_replies;
        self.urgent_replies as usize + l[0] as usize + l[1] as usize + l[2] as usize + l[3] as usize
    }
    pub const fn blockable_ring(&self) -> usize {
        RINGS + self.urgent_slots as usize * SLOT
    }
    pub const fn stream_ring(&self) -> usize {
        self.blockable_ring() + self.blockable_slots as usize * SLOT
    }
    pub const fn reply_payloads(&self) -> usize {
        self.stream_ring() + self.stream_slots as usize * SLOT
    }
    pub const fn reply_payload(&self, slot: usize) -> usize {
        self.reply_payloads() + slot * self.reply_bytes as usize
    }
    pub const fn reply_header(&self, slot: usize) -> usize {
        REPLIES + slot * SLOT
    }
    pub const fn size(&self) -> usize {
        self.reply_payload(self.replies()).next_multiple_of(4096)
    }
}

/// Returns how many slots a message with `payload` bytes takes.
pub const fn slots_for(payload: usize) -> u32 {
    (HEADER + payload).div_ceil(SLOT) as u32
}

/// Kind of a message.
pub mod kind {
    /// A request; the reply comes in its reply slot.
    pub const CALL: u8 = 1;
    /// A one-way message without a reply.
    pub const NOTICE: u8 = 2;
}

/// Result of a call, in [`pack_status`].
pub mod status {
    /// The payload is the reply.
    pub const OK: u16 = 0;
    pub const NO_SUCH_PROC: u16 = 1;
    pub const TOO_LARGE: u16 = 2;
    /// The callee has no memory or no free handler.
    pub const NO_MEMORY: u16 = 3;
    /// The request is malformed, or the caller is not permitted to make it.
    pub const REFUSED: u16 = 4;
    /// The handler failed.
    pub const FAULT: u16 = 5;
}

/// `[writer's epoch:16 | reader's epoch as the writer knows it:16 | index:32]`: a producer word
/// (index: tail), a consumer word (head), or a reply's done word (sequence).
pub const fn pack_session(writer: u16, reader: u16, index: u32) -> u64 {
    (writer as u64) << 48 | (reader as u64) << 32 | index as u64
}

/// Undoes [`pack_session`]: `(writer, reader, index)`.
pub const fn unpack_session(word: u64) -> (u16, u16, u32) {
    ((word >> 48) as u16, (word >> 32) as u16, word as u32)
}

/// First word of a message: `[level:8 | reply slot:8 | kind:8 | 0:8 | proc:16 | bytes:16]`.
pub const fn pack_header(kind: u8, proc: u16, bytes: u16, slot: u8, level: u8) -> u64 {
    (level as u64) << 56
        | (slot as u64) << 48
        | (kind as u64) << 40
        | (proc as u64) << 16
        | bytes as u64
}

/// Undoes [`pack_header`]: `(kind, proc, bytes, slot, level)`.
pub const fn unpack_header(word: u64) -> (u8, u16, u16, u8, u8) {
    ((word >> 40) as u8, (word >> 16) as u16, word as u16, (word >> 48) as u8, (word >> 56) as u8)
}

/// Second word of a message: `[ring index of its first slot:32 | sequence:32]`.
pub const fn pack_tag(index: u32, sequence: u32) -> u64 {
    (index as u64) << 32 | sequence as u64
}

/// Undoes [`pack_tag`]: `(index, sequence)`.
pub const fn unpack_tag(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// Status word of a reply: `[bytes:16 | status:16]`.
pub const fn pack_status(bytes: u16, status: u16) -> u64 {
    (bytes as u64) << 16 | status as u64
}

/// Undoes [`pack_status`]: `(bytes, status)`.
pub const fn unpack_status(word: u64) -> (u16, u16) {
    ((word >> 16) as u16, word as u16)
}

const _: () = assert!(LINK_SIZE.is_multiple_of(4096) && LINK_SIZE <= 176 << 10);
const _: () = assert!(LAYOUT.replies() == MAX_REPLIES);
const _: () = assert!(REPLIES + MAX_REPLIES * SLOT <= RINGS);
const _: () = assert!(LAYOUT.urgent_slots.is_power_of_two());
const _: () = assert!(LAYOUT.blockable_slots.is_power_of_two());
const _: () = assert!(LAYOUT.stream_slots.is_power_of_two());
const _: () = assert!(slots_for(MAX_PAYLOAD) <= LAYOUT.urgent_slots);
const _: () = assert!(slots_for(MAX_PAYLOAD) * 3 <= LAYOUT.blockable_slots);
const _: () = assert!(slots_for(MAX_PAYLOAD) * 3 <= LAYOUT.stream_slots);
const _: () = assert!(MAX_PAYLOAD <= u16::MAX as usize && MAX_PAYLOAD.is_multiple_of(8));

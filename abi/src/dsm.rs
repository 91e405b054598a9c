//! Layout of a DSM link: the mailbox of the coherence protocol between one sender and one receiver.
//!
//! Link (a, b) lies at `dsm + (a * domains + b) * link_size(..)`. **It is written by `a` only and
//! read by `b` only.** It is a ring of [`SLOT`]-byte slots; message `sequence` (from 0) is in slot
//! `sequence % slots`. There is no producer word and no consumer word: the header of the next slot
//! says whether its message is there, and the protocol never has more messages under way than
//! there are slots ([`slots`]).
//! **Link (a, a) has no messages**: its words are a's marks, one for each service of the board's
//! list (`share::custody`).
//!
//! ```text
//! 0   body   [kind:8 | domain:8 | core:8 | argument:8 | page:32]
//! 8   a      24 bytes of message in all
//! 16  b
//! 24  header [sender's epoch:16 | receiver's epoch as the sender knows it:16 | sequence + 1:32],
//!            written last, behind a barrier
//! ```

/// Bytes of a slot; two share a line of 64 bytes.
pub const SLOT: usize = 32;
/// Offset of the first word of a message in its slot.
pub const BODY: usize = 0;
/// Offset of the second word.
pub const FIRST: usize = 8;
/// Offset of the third word.
pub const SECOND: usize = 16;
/// Offset of the word that publishes the message.
pub const HEADER: usize = 24;
/// Messages beside requests, grants, revocations and acknowledgements that can be under way in
/// one direction: see `kernel/dsm/src/wire.rs`.
pub const CONTROL: usize = 12;

/// Slots of a link, when there are so many domains and each has at most so many cores. In one
/// direction there can be a revocation or its acknowledgement for each request of any domain, a
/// request or its grant for each core, and [`CONTROL`] messages.
pub const fn slots(domains: usize, cores: usize) -> usize {
    (2 * domains * cores + 2 * cores + CONTROL).next_power_of_two()
}

/// Bytes of a link.
pub const fn link_size(domains: usize, cores: usize) -> usize {
    slots(domains, cores) * SLOT
}

/// Kind of a message, in its body.
pub mod kind {
    /// A core wants a page.
    pub const GET: u8 = 1;
    /// It has it, or it is lost.
    pub const GRANT: u8 = 2;
    /// Give a page up, or its writing.
    pub const REVOKE: u8 = 3;
    /// Done, and cleaned.
    pub const ACK: u8 = 4;
    /// A domain comes, with nothing valid.
    pub const JOIN: u8 = 5;
    /// The sender is the home.
    pub const HOME: u8 = 6;
    /// A domain goes; all it had is in memory.
    pub const LEAVE: u8 = 7;
    /// It may.
    pub const BYE: u8 = 8;
    /// Be the home: the sender goes.
    pub const TAKE_HOME: u8 = 9;
    /// What do you hold, from this page on?
    pub const ASK: u8 = 10;
    /// This.
    pub const CHUNK: u8 = 11;
    /// There are lost pages: ask.
    pub const LOSSES: u8 = 12;
    /// Which are lost, from this page on?
    pub const ASK_LOST: u8 = 13;
    /// These.
    pub const LOST: u8 = 14;
    /// That was asked in vain.
    pub const VOID: u8 = 15;
    /// Who is the home?
    pub const WHO: u8 = 16;
}

/// Packs a body.
pub const fn pack_body(kind: u8, domain: u8, core: u8, argument: u8, page: u32) -> u64 {
    (kind as u64) << 56
        | (domain as u64) << 48
        | (core as u64) << 40
        | (argument as u64) << 32
        | page as u64
}

/// Takes [`pack_body`] apart: `(kind, domain, core, argument, page)`.
pub const fn unpack_body(word: u64) -> (u8, u8, u8, u8, u32) {
    ((word >> 56) as u8, (word >> 48) as u8, (word >> 40) as u8, (word >> 32) as u8, word as u32)
}

/// Packs a header.
pub const fn pack_header(sender: u16, receiver: u16, sequence: u32) -> u64 {
    (sender as u64) << 48 | (receiver as u64) << 32 | sequence.wrapping_add(1) as u64
}

/// Takes [`pack_header`] apart.
pub const fn unpack_header(word: u64) -> (u16, u16, u32) {
    ((word >> 48) as u16, (word >> 32) as u16, (word as u32).wrapping_sub(1))
}

const _: () = assert!(HEADER + 8 == SLOT && 64 % SLOT == 0);
const _: () = assert!(link_size(2, 2) == 1024 && link_size(8, 8) == 8192);

//! Layout of a DSM link: the mailbox of the coherence protocol between one sender and one receiver.
//!
//! Link (a, b) is at `dsm + (a * domains + b) * link_size(..)`. **Only `a` writes it and only `b`
//! reads it.** It is a ring of [`SLOT`]-byte slots; message `sequence` (from 0) is in slot
//! `sequence % slots`. There are no producer or consumer words: the header of the next slot tells
//! whether its message has arrived, and the protocol never has more messages in flight than there
//! are slots ([`slots`]).
//!
//! Link (a, a) is not used.
//!
//! ```text
//! 0   body   [kind:8 | domain:8 | core:8 | argument:8 | page:32]
//! 8   first  argument words
//! 16  second
//! 24  header [sender's epoch:16 | receiver's epoch as known to the sender:16 | sequence + 1:32],
//!            written last, after a barrier
//! ```

/// Bytes of a slot; two share a cache line.
pub const SLOT: usize = 32;
/// Offset of [`pack_body`] in a slot.
pub const BODY: usize = 0;
/// Offset of the first argument word.
pub const FIRST: usize = 8;
/// Offset of the second argument word.
pub const SECOND: usize = 16;
/// Offset of [`pack_header`], the word that publishes the message.
pub const HEADER: usize = 24;
/// Messages other than GET, GRANT, REVOKE and ACK that can be in flight in one direction: see
/// `kernel/dsm/src/wire.rs`.
pub const CONTROL: usize = 12;

/// Returns the number of slots of a link on a board with `domains` domains of at most `cores`
/// cores. In flight in one direction there can be one REVOKE or ACK for each request of any domain,
/// one GET or GRANT for each core, and [`CONTROL`] other messages.
pub const fn slots(domains: usize, cores: usize) -> usize {
    (2 * domains * cores + 2 * cores + CONTROL).next_power_of_two()
}

pub const fn link_size(domains: usize, cores: usize) -> usize {
    slots(domains, cores) * SLOT
}

/// Kinds of messages, in the body.
pub mod kind {
    /// A core requests a page.
    pub const GET: u8 = 1;
    /// The page is granted, or it is lost.
    pub const GRANT: u8 = 2;
    /// Give up the page, or write access to it.
    pub const REVOKE: u8 = 3;
    /// Revoked, and the cache is cleaned.
    pub const ACK: u8 = 4;
    /// A domain joins, with no valid pages.
    pub const JOIN: u8 = 5;
    /// The sender is the home node.
    pub const HOME: u8 = 6;
    /// A domain wants to leave; all its pages are in memory.
    pub const LEAVE: u8 = 7;
    /// It may leave.
    pub const BYE: u8 = 8;
    /// The sender leaves; the receiver becomes the home node.
    pub const TAKE_HOME: u8 = 9;
    /// Request the pages that the receiver holds, from this page on.
    pub const ASK: u8 = 10;
    /// Answer to ASK: some of these pages.
    pub const CHUNK: u8 = 11;
    /// Pages have been lost: send ASK_LOST.
    pub const LOSSES: u8 = 12;
    /// Request the list of lost pages, from this page on.
    pub const ASK_LOST: u8 = 13;
    /// Answer to ASK_LOST: some of these pages.
    pub const LOST: u8 = 14;
    /// The sender has abandoned its claim to be the home node.
    pub const VOID: u8 = 15;
    /// Request the identity of the home node.
    pub const WHO: u8 = 16;
}

pub const fn pack_body(kind: u8, domain: u8, core: u8, argument: u8, page: u32) -> u64 {
    (kind as u64) << 56
        | (domain as u64) << 48
        | (core as u64) << 40
        | (argument as u64) << 32
        | page as u64
}

/// Undoes [`pack_body`]: `(kind, domain, core, argument, page)`.
pub const fn unpack_body(word: u64) -> (u8, u8, u8, u8, u32) {
    ((word >> 56) as u8, (word >> 48) as u8, (word >> 40) as u8, (word >> 32) as u8, word as u32)
}

pub const fn pack_header(sender: u16, receiver: u16, sequence: u32) -> u64 {
    (sender as u64) << 48 | (receiver as u64) << 32 | sequence.wrapping_add(1) as u64
}

/// Undoes [`pack_header`]: `(sender, receiver, sequence)`.
pub const fn unpack_header(word: u64) -> (u16, u16, u32) {
    ((word >> 48) as u16, (word >> 32) as u16, (word as u32).wrapping_sub(1))
}

const _: () = assert!(HEADER + 8 == SLOT && 64 % SLOT == 0);
const _: () = assert!(link_size(2, 2) == 1024 && link_size(8, 8) == 8192);

//! Messages about ends of a private pipe that another kernel uses: 64-bit words, little-endian.
//!
//! ```text
//!   4 | what << 16 | number << 32, id, handle, bytes         an ask, to the pipe's home
//!   4 | what << 16 | number << 32, id, outcome, bytes        its answer
//! ```
//! `number` is what a read asks for, how many uses of the end are over, or how many bytes were
//! moved. `id` is the asking kernel's, and comes back with the answer.
//!
//! Other requests are calls between kernels: a [`abi::fs::Request`], answered by [`Called`].

use abi::fs::{Errno, Reply};
use base::bytes::{get_words, put_words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The kind of these messages among those of a stream between kernels: the lowest 16 bits.
pub const KIND: u64 = 4;
/// Bytes before the data.
pub const HEAD: usize = 24;
/// The most bytes that one message moves.
pub const MOST: usize = 512;
/// The longest message.
pub const LONGEST: usize = HEAD + MOST;

const READ: u64 = 0;
const WRITE: u64 = 1;
const CANCEL: u64 = 2;
const CLOSE: u64 = 3;
const ANSWER: u64 = 4;

/// Outcomes that are neither bytes (0) nor errors.
const CANCELLED: u64 = 1 << 16;
const ELSEWHERE: u64 = 2 << 16;

/// The answer to a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Called {
    /// The handle by which the file service knows the end, if the pipe has left for it; 0 if not.
    /// It is the home's, which keeps it as long as it counts a use of the end.
    pub elsewhere: u64,
    pub reply: Reply,
}

/// What a kernel asks the home of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<'a> {
    /// To read at most so many bytes. Waits for them.
    Read(u32),
    /// To write these bytes.
    Write(&'a [u8]),
    /// To answer the read with this id now.
    Cancel,
    /// To count so many uses of the end as over. Has no answer.
    Close(u32),
}

/// What became of a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// So many bytes were moved.
    Moved(u32),
    Failed(Errno),
    /// Nothing was read.
    Cancelled,
    /// Nothing was done: the pipe has left for the file service, or is about to.
    Elsewhere,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    Ask {
        id: u64,
        handle: u64,
        ask: Ask<'a>,
    },
    /// With the bytes that were read.
    Answer {
        id: u64,
        outcome: Outcome,
        bytes: &'a [u8],
    },
}

impl<'a> Message<'a> {
    /// Writes it to `into`. Returns its length.
    pub fn put(&self, into: &mut [u8; LONGEST]) -> usize {
        let (what, number, id, last, bytes) = match *self {
            Message::Ask { id, handle, ask } => {
                let (what, number, bytes): (_, _, &[u8]) = match ask {
                    Ask::Read(most) => (READ, most, &[]),
                    Ask::Write(bytes) => (WRITE, 0, bytes),
                    Ask::Cancel => (CANCEL, 0, &[]),
                    Ask::Close(uses) => (CLOSE, uses, &[]),
                };
                (what, number, id, handle, bytes)
            }
            Message::Answer { id, outcome, bytes } => {
                let (number, code) = match outcome {
                    Outcome::Moved(count) => (count, 0),
                    Outcome::Failed(why) => (0, why as u64),
                    Outcome::Cancelled => (0, CANCELLED),
                    Outcome::Elsewhere => (0, ELSEWHERE),
                };
                (ANSWER, number, id, code, bytes)
            }
        };
        let bytes = &bytes[..bytes.len().min(MOST)];
        put_words(&[KIND | what << 16 | u64::from(number) << 32, id, last], &mut into[..HEAD]);
        into[HEAD..HEAD + bytes.len()].copy_from_slice(bytes);
        HEAD + bytes.len()
    }

    /// Reads a message. `None` if these bytes are none.
    pub fn of(payload: &'a [u8]) -> Option<Message<'a>> {
        let (head, bytes) = payload.split_at_checked(HEAD)?;
        let mut words = [0; HEAD / 8];
        get_words(head, &mut words);
        let [first, id, last] = words;
        let number = (first >> 32) as u32;
        if first as u16 as u64 != KIND || bytes.len() > MOST {
            return None;
        }
        let ask = match first >> 16 & 0xffff {
            READ => Ask::Read(number),
            WRITE => Ask::Write(bytes),
            CANCEL => Ask::Cancel,
            CLOSE => Ask::Close(number),
            ANSWER => {
                let outcome = outcome(number, last)?;
                return Some(Message::Answer { id, outcome, bytes });
            }
            _ => return None,
        };
        let is_right = matches!(ask, Ask::Write(_)) || bytes.is_empty();
        is_right.then_some(Message::Ask { id, handle: last, ask })
    }
}

fn outcome(number: u32, code: u64) -> Option<Outcome> {
    match code {
        0 => Some(Outcome::Moved(number)),
        CANCELLED => Some(Outcome::Cancelled),
        ELSEWHERE => Some(Outcome::Elsewhere),
        code => Errno::from_code(u16::try_from(code).ok()?).map(Outcome::Failed),
    }
}

/// Returns whether a message of a stream is of this kind.
#[inline]
pub fn is_ours(payload: &[u8]) -> bool {
    payload.first_chunk().is_some_and(|kind| u16::from_le_bytes(*kind) == KIND as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let long = [7; MOST];
        let asks = [Ask::Read(9), Ask::Write(&long), Ask::Write(&[]), Ask::Cancel, Ask::Close(2)];
        let outcomes = [
            Outcome::Moved(3),
            Outcome::Failed(Errno::Pipe),
            Outcome::Cancelled,
            Outcome::Elsewhere,
        ];
        let asks = asks.map(|ask| Message::Ask { id: u64::MAX, handle: 1 << 63 | 5, ask });
        let answers = outcomes.map(|outcome| Message::Answer { id: 8, outcome, bytes: &long[..3] });
        for message in asks.iter().chain(&answers) {
            let mut room = [0; LONGEST];
            let length = message.put(&mut room);
            assert!(is_ours(&room[..length]));
            assert_eq!(Message::of(&room[..length]).as_ref(), Some(message));
            assert_eq!(Message::of(&room[..HEAD - 1]), None);
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let word = |kind: u64, what: u64| kind | what << 16;
        let of = |first: u64, last: u64, bytes: usize| {
            let mut room = [0; LONGEST + 8];
            put_words(&[first, 0, last], &mut room[..HEAD]);
            Message::of(&room[..HEAD + bytes]).is_some()
        };
        assert!(of(word(KIND, ANSWER), 0, 0) && !of(word(KIND, ANSWER), 0xffff, 0));
        assert!(!of(word(3, READ), 0, 0) && !of(word(KIND, 5), 0, 0));
        assert!(!of(word(KIND, READ), 0, 8) && !of(word(KIND, CLOSE), 0, 1));
        assert!(of(word(KIND, WRITE), 0, MOST) && !of(word(KIND, WRITE), 0, MOST + 8));
        assert!(!of(word(KIND, ANSWER), 3 << 16, 0) && !is_ours(&[4]));
    }
}

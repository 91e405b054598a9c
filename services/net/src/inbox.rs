//! Datagrams that wait to be received.
//!
//! Contract: at most [`WAITING`] datagrams with [`LARGEST`] bytes together wait at a socket; a
//! further one is lost. What a socket does not hear, or a connected one gets from others than its
//! peer, is refused before it takes room (`Datagrams::hears`).

use crate::addresses::Peer;
use crate::budget::{LARGEST, WAITING};
use abi::net::Errno;
use alloc::collections::VecDeque;

/// The head of a datagram.
#[derive(Clone, Copy, Debug)]
struct Head {
    from: Peer,
    length: u16,
}

const _: () = assert!(LARGEST <= u16::MAX as usize);

/// The datagrams of a socket, the oldest first.
#[derive(Debug)]
pub struct Inbox {
    heads: VecDeque<Head>,
    bytes: VecDeque<u8>,
}

impl Inbox {
    /// Creates an empty one, with all its memory.
    pub fn new() -> Result<Inbox, Errno> {
        let mut inbox = Inbox { heads: VecDeque::new(), bytes: VecDeque::new() };
        inbox.heads.try_reserve_exact(WAITING).map_err(|_| Errno::Nomem)?;
        inbox.bytes.try_reserve_exact(LARGEST).map_err(|_| Errno::Nomem)?;
        Ok(inbox)
    }

    /// Adds a datagram, unless it has no room.
    pub fn push(&mut self, from: Peer, datagram: &[u8]) {
        let has_room = self.bytes.len() + datagram.len() <= LARGEST;
        if has_room && self.heads.len() < WAITING {
            self.heads.push_back(Head { from, length: datagram.len() as u16 });
            self.bytes.extend(datagram);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Returns the number of bytes of all datagrams.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Copies as much of the oldest datagram as fits. Returns its sender, and its length.
    pub fn peek(&self, into: &mut [u8]) -> Option<(Peer, usize)> {
        let Head { from, length } = *self.heads.front()?;
        let length = usize::from(length);
        let some = length.min(into.len());
        copy_first(&self.bytes, &mut into[..some]);
        Some((from, length))
    }

    /// Removes the oldest datagram.
    pub fn pop(&mut self) {
        if let Some(head) = self.heads.pop_front() {
            if self.heads.is_empty() {
                // The next ones are in one piece again.
                self.bytes.clear();
            } else {
                self.bytes.drain(..usize::from(head.length));
            }
        }
    }

    /// Removes the datagrams that are not from `peer`.
    pub fn keep(&mut self, peer: Peer) {
        for _ in 0..self.heads.len() {
            let Some(head) = self.heads.pop_front() else { break };
            let length = usize::from(head.length);
            if head.from == peer {
                self.bytes.rotate_left(length);
                self.heads.push_back(head);
            } else {
                self.bytes.drain(..length);
            }
        }
    }
}

/// Copies as many of a queue's first bytes as there are and fit. Returns their number.
pub fn copy_first(queue: &VecDeque<u8>, into: &mut [u8]) -> usize {
    let count = into.len().min(queue.len());
    let (first, second) = queue.as_slices();
    let before = count.min(first.len());
    into[..before].copy_from_slice(&first[..before]);
    into[before..count].copy_from_slice(&second[..count - before]);
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn an_inbox_is_a_bounded_queue_of_datagrams() {
        let (mut inbox, mut random) = (Inbox::new().unwrap(), Prng::new(3));
        let mut model: VecDeque<(Peer, Vec<u8>)> = VecDeque::new();
        for number in 0..20_000u32 {
            match random.below(5) {
                0 | 1 => {
                    let from = ([1; 16], random.below(2) as u16);
                    let datagram = vec![number as u8; random.below(1473) as usize];
                    inbox.push(from, &datagram);
                    let bytes: usize = model.iter().map(|it| it.1.len()).sum();
                    if model.len() < WAITING && bytes + datagram.len() <= LARGEST {
                        model.push_back((from, datagram));
                    }
                }
                2 if random.chance(1, 20) => {
                    inbox.keep(([1; 16], 1));
                    model.retain(|it| it.0.1 == 1);
                }
                _ => {
                    let mut into = vec![0; random.below(2000) as usize];
                    let found = inbox.peek(&mut into);
                    let front = model.pop_front();
                    assert_eq!(found, front.as_ref().map(|it| (it.0, it.1.len())));
                    if let Some((_, datagram)) = front {
                        let some = datagram.len().min(into.len());
                        assert_eq!(into[..some], datagram[..some]);
                    }
                    inbox.pop();
                }
            }
            assert_eq!(inbox.is_empty(), model.is_empty());
            assert!(inbox.bytes.capacity() < 2 * LARGEST);
        }
    }
}

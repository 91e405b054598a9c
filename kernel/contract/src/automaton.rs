//! An automaton: parsed once with every check (`parse`), then read in constant time.
//!
//! After [`Automaton::parse`] succeeded, these hold, and the accessors rely on them:
//! 1. The tables fill the bytes exactly, and all reserved bytes are 0.
//! 2. Every next state exists, and the message that leads to it is sent by the state's side.
//! 3. An end state has no next states, any other state has at least one, and all are reachable.
//! 4. No cycle consists of messages of one side only, so queues are bounded.
//! 5. The level is at most 7, and 0 exactly if no endpoint is carried.

mod parse;

use crate::types::{Bound, Carried, Hash, Message, Side, State};
use crate::{ENDPOINT, HEAD, MESSAGE, NO_SIDE, STATE};

/// A valid automaton in the bytes `B`.
///
/// `B` must return the same bytes whenever it is asked.
#[derive(Clone, Debug)]
pub struct Automaton<B> {
    bytes: B,
    states: usize,
    messages: usize,
    carried: usize,
    start: State,
    level: u8,
    hash: Hash,
    bounds: [Bound; 2],
}

impl<B: AsRef<[u8]>> Automaton<B> {
    /// Returns the state in which a channel begins.
    pub fn start(&self) -> State {
        self.start
    }

    /// Returns the contract's level, at most [`crate::MAX_LEVEL`]. It is 0 exactly if no message
    /// carries an endpoint.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Returns the number of states.
    pub fn states(&self) -> usize {
        self.states
    }

    /// Returns the number of messages; tags are 0 to this.
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Returns the state with this number; `None` if there is none.
    pub fn state(&self, number: u8) -> Option<State> {
        (usize::from(number) < self.states).then_some(State(number))
    }

    /// Returns the side that may send in `state`; `None` in an end state.
    pub fn side(&self, state: State) -> Option<Side> {
        Side::of(self.state_entry(state)?[0])
    }

    /// Returns whether `side` may close the channel in `state`: in an end state, and where the
    /// contract says so, instead of sending.
    pub fn may_close(&self, state: State, side: Side) -> bool {
        match self.state_entry(state) {
            Some([NO_SIDE, _]) => true,
            Some([sender, close]) => close == 1 && Side::of(sender) == Some(side),
            None => false,
        }
    }

    /// Returns the shape of the message with this tag; `None` if there is none.
    pub fn message(&self, tag: u16) -> Option<Message> {
        if usize::from(tag) >= self.messages {
            return None;
        }
        let entry: [u8; MESSAGE] = field(self.bytes.as_ref(), self.message_at(tag))?;
        let [from, endpoints, i0, i1, b0, b1, b2, b3, f0, f1, _, _] = entry;
        Some(Message {
            from: Side::of(from)?,
            inline: u16::from_le_bytes([i0, i1]).into(),
            block: u32::from_le_bytes([b0, b1, b2, b3]) as usize,
            endpoints: endpoints.into(),
            first: u16::from_le_bytes([f0, f1]).into(),
        })
    }

    /// Returns what the endpoint with this index must be, of those that `message` carries.
    pub fn carried(&self, message: &Message, index: usize) -> Option<Carried> {
        if index >= message.endpoints {
            return None;
        }
        let entry = self.endpoint_entry(message.first + index)?;
        let side = Side::of(entry[16])?;
        let contract = Hash(core::array::from_fn(|at| entry[at]));
        Some(Carried { contract, side })
    }

    /// Returns the state after the message `tag` in `state`; `None` if it is not allowed there.
    pub fn next(&self, state: State, tag: u16) -> Option<State> {
        self.state(self.transition(state, tag)?)
    }

    /// Returns the most that can be in the queue of messages that `from` has sent.
    pub fn bound(&self, from: Side) -> Bound {
        self.bounds[usize::from(from.number())]
    }

    /// Returns the contract's name in binary form.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    fn state_entry(&self, state: State) -> Option<[u8; STATE]> {
        self.state(state.0)?;
        field(self.bytes.as_ref(), HEAD + STATE * usize::from(state.0))
    }

    fn message_at(&self, tag: u16) -> usize {
        HEAD + STATE * self.states + MESSAGE * usize::from(tag)
    }

    fn endpoint_entry(&self, index: usize) -> Option<[u8; ENDPOINT]> {
        let table = HEAD + STATE * self.states + MESSAGE * self.messages;
        field(self.bytes.as_ref(), table + ENDPOINT * index).filter(|_| index < self.carried)
    }

    /// Returns the entry of the table of next states.
    fn transition(&self, state: State, tag: u16) -> Option<u8> {
        let (row, column) = (usize::from(state.0), usize::from(tag));
        if row >= self.states || column >= self.messages {
            return None;
        }
        let table = HEAD + STATE * self.states + MESSAGE * self.messages + ENDPOINT * self.carried;
        self.bytes.as_ref().get(table + row * self.messages + column).copied()
    }
}

/// Returns the `N` bytes at `at`.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

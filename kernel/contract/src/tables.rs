//! Tables of an automaton, and their encoding. Nothing is checked here: [`Automaton::parse`] does.
//!
//! [`Automaton::parse`]: crate::Automaton::parse

use crate::types::{Carried, Side};
use crate::{ENDPOINT, HEAD, MAGIC, MESSAGE, NO_SIDE, NONE, STATE, VERSION};
use alloc::vec;
use alloc::vec::Vec;

/// An automaton that is being made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Index of the start state.
    pub start: u8,
    /// The level: one more than the highest of the carried endpoints' contracts, 0 without any.
    pub level: u8,
    /// Digest of all names and fields.
    pub names: [u8; 16],
    /// The states.
    pub states: Vec<Turn>,
    /// The messages; an index is a tag.
    pub messages: Vec<Shape>,
    /// State, message, next state.
    pub transitions: Vec<(u8, u8, u8)>,
}

/// A state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The side that may send; `None` in an end state.
    pub side: Option<Side>,
    /// Whether that side may close the channel instead.
    pub may_close: bool,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The side that sends it.
    pub from: Side,
    /// Number of inline bytes.
    pub inline: u16,
    /// Maximum length of its block; 0 without one.
    pub block: u32,
    /// The endpoints that it carries.
    pub endpoints: Vec<Carried>,
}

impl Tables {
    /// Returns the bytes of the automaton. Tables that are too large become invalid bytes.
    pub fn encode(&self) -> Vec<u8> {
        let carried: Vec<Carried> =
            self.messages.iter().flat_map(|it| it.endpoints.iter().copied()).collect();
        let (states, messages) = (self.states.len(), self.messages.len());
        let length = HEAD
            + STATE * states
            + MESSAGE * messages
            + ENDPOINT * carried.len()
            + states * messages;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([small(states), small(messages), self.start, self.level]);
        bytes.extend((carried.len() as u16).to_le_bytes());
        bytes.extend((length as u32).to_le_bytes());
        bytes.extend(self.names);
        for turn in &self.states {
            bytes.extend([turn.side.map_or(NO_SIDE, Side::number), turn.may_close.into()]);
        }
        self.encode_messages(&mut bytes);
        for endpoint in carried {
            bytes.extend(endpoint.contract.0);
            bytes.extend([endpoint.side.number(), 0, 0, 0]);
        }
        bytes.extend(self.next_states());
        bytes
    }

    fn encode_messages(&self, bytes: &mut Vec<u8>) {
        let mut first = 0u16;
        for message in &self.messages {
            bytes.extend([message.from.number(), small(message.endpoints.len())]);
            bytes.extend(message.inline.to_le_bytes());
            bytes.extend(message.block.to_le_bytes());
            bytes.extend(first.to_le_bytes());
            bytes.extend([0, 0]);
            first = first.saturating_add(small(message.endpoints.len()).into());
        }
    }

    fn next_states(&self) -> Vec<u8> {
        let width = self.messages.len();
        let mut table = vec![NONE; self.states.len() * width];
        for &(state, message, next) in &self.transitions {
            let at = usize::from(state) * width + usize::from(message);
            if let Some(entry) = table.get_mut(at) {
                *entry = next;
            }
        }
        table
    }
}

/// Returns a number for a table; one that is too large becomes one that is refused.
fn small(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

//! An automaton: parsed once with every check, then read in constant time.
//!
//! After [`Automaton::parse`] succeeded, these hold, and the accessors rely on them:
//! 1. The tables fill the bytes exactly, and all reserved bytes are 0.
//! 2. Every next state exists, and the message that leads to it is sent by the state's side.
//! 3. An end state has no next states, any other state has at least one, and all are reachable.
//! 4. No cycle consists of messages of one side only, so queues are bounded.

use crate::bounds::{bounds, reachable};
use crate::types::{Bound, Carried, Hash, Invalid, Message, Side, State};
use crate::{
    BLOCK, BYTES, ENDPOINT, ENDPOINTS, HEAD, INLINE, MAGIC, MESSAGE, MESSAGES, NO_SIDE, NONE,
    STATE, STATES, VERSION,
};

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
    hash: Hash,
    bounds: [Bound; 2],
}

impl<B: AsRef<[u8]>> Automaton<B> {
    /// Verifies `bytes`, which may be hostile.
    pub fn parse(bytes: B) -> Result<Self, Invalid> {
        let mut automaton = Self::head(bytes)?;
        automaton.check_states()?;
        automaton.check_messages()?;
        automaton.check_endpoints()?;
        automaton.check_transitions()?;
        let unseen = (!reachable(&automaton)).trailing_zeros();
        if (unseen as usize) < automaton.states {
            return Err(Invalid::Unreachable(unseen as u8));
        }
        automaton.bounds = [bounds(&automaton, Side::Client)?, bounds(&automaton, Side::Server)?];
        let digest = *blake3::hash(automaton.bytes.as_ref()).as_bytes();
        automaton.hash = Hash(core::array::from_fn(|at| digest[at]));
        Ok(automaton)
    }

    /// Checks the head and the length.
    fn head(bytes: B) -> Result<Self, Invalid> {
        let all = bytes.as_ref();
        if field(all, 0) != Some(MAGIC) {
            return Err(Invalid::Magic);
        }
        if number(all, 4) != Some(VERSION) {
            return Err(Invalid::Version);
        }
        let head: [u8; HEAD] = field(all, 0).ok_or(Invalid::Length)?;
        let (states, messages) = (usize::from(head[6]), usize::from(head[7]));
        let carried = usize::from(u16::from_le_bytes([head[10], head[11]]));
        let possible = (1..=STATES).contains(&states) && (1..=MESSAGES).contains(&messages);
        if !possible || carried > MESSAGES * ENDPOINTS || usize::from(head[8]) >= states {
            return Err(Invalid::Count);
        }
        if head[9] != 0 {
            return Err(Invalid::Reserved);
        }
        let length =
            HEAD + STATE * states + MESSAGE * messages + ENDPOINT * carried + states * messages;
        let named = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
        if all.len() != length || named as usize != length || length > BYTES {
            return Err(Invalid::Length);
        }
        let start = State(head[8]);
        let (hash, bounds) = (Hash([0; 16]), [Bound::default(); 2]);
        Ok(Self { bytes, states, messages, carried, start, hash, bounds })
    }

    fn check_states(&self) -> Result<(), Invalid> {
        for state in 0..self.states as u8 {
            let [side, close] = self.state_entry(State(state)).ok_or(Invalid::Length)?;
            if side > NO_SIDE || close > 1 || (side == NO_SIDE && close != 0) {
                return Err(Invalid::State(state));
            }
        }
        Ok(())
    }

    fn check_messages(&self) -> Result<(), Invalid> {
        let mut first = 0;
        for tag in 0..self.messages as u8 {
            let message = self.message(tag.into()).ok_or(Invalid::Message(tag))?;
            let is_small = message.inline <= INLINE
                && message.block <= BLOCK
                && message.endpoints <= ENDPOINTS;
            if !is_small || message.first != first {
                return Err(Invalid::Message(tag));
            }
            if number(self.bytes.as_ref(), self.message_at(tag.into()) + 10) != Some(0) {
                return Err(Invalid::Reserved);
            }
            first += message.endpoints;
        }
        if first == self.carried { Ok(()) } else { Err(Invalid::Count) }
    }

    fn check_endpoints(&self) -> Result<(), Invalid> {
        for index in 0..self.carried {
            let entry = self.endpoint_entry(index).ok_or(Invalid::Length)?;
            let (hash, rest) = entry.split_at(16);
            let [side, this, 0, 0] = *rest else { return Err(Invalid::Reserved) };
            let has_hash = hash.iter().any(|&byte| byte != 0);
            if Side::of(side).is_none() || this > 1 || (this == 1) == has_hash {
                return Err(Invalid::Endpoint(index as u16));
            }
        }
        Ok(())
    }

    fn check_transitions(&self) -> Result<(), Invalid> {
        for state in 0..self.states as u8 {
            let mut count = 0;
            for message in 0..self.messages as u8 {
                let next = self.transition(State(state), message.into());
                let next = next.ok_or(Invalid::Length)?;
                if next == NONE {
                    continue;
                }
                let from = self.message(message.into()).map(|it| it.from);
                if usize::from(next) >= self.states || self.side(State(state)) != from {
                    return Err(Invalid::Transition { state, message });
                }
                count += 1;
            }
            if (count == 0) != self.side(State(state)).is_none() {
                return Err(Invalid::State(state));
            }
        }
        Ok(())
    }

    /// Returns the state in which a channel begins.
    pub fn start(&self) -> State {
        self.start
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
        let hash = Hash(core::array::from_fn(|at| entry[at]));
        let contract = if entry[17] == 1 { self.hash } else { hash };
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

    /// Returns the bytes that were parsed.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
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

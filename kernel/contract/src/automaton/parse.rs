//! The checks of bytes that may be hostile. What holds afterwards is listed at the parent module.

use super::{Automaton, field, number};
use crate::bounds::{bounds, reachable};
use crate::types::{Bound, Hash, Invalid, Side, State};
use crate::{
    BLOCK, BYTES, ENDPOINT, ENDPOINTS, HEAD, INLINE, MAGIC, MAX_LEVEL, MESSAGE, MESSAGES, NO_SIDE,
    NONE, STATE, STATES, VERSION,
};

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
        let level = head[9];
        if level > MAX_LEVEL || (level == 0) != (carried == 0) {
            return Err(Invalid::Level);
        }
        let length =
            HEAD + STATE * states + MESSAGE * messages + ENDPOINT * carried + states * messages;
        let named = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
        if all.len() != length || named as usize != length || length > BYTES {
            return Err(Invalid::Length);
        }
        let start = State(head[8]);
        let (hash, bounds) = (Hash([0; 16]), [Bound::default(); 2]);
        Ok(Self { bytes, states, messages, carried, start, level, hash, bounds })
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
            let [side, 0, 0, 0] = entry[16..] else { return Err(Invalid::Reserved) };
            if Side::of(side).is_none() {
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
}

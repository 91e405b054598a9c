//! The check of one message, where it is sent: in constant time, with a lookup in each table.

use crate::automaton::Automaton;
use crate::types::{Carried, Side, State};

/// What a message consists of, apart from its tag.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parcel<'a> {
    /// Number of inline bytes.
    pub inline: usize,
    /// Length of the block, which may be 0; `None` without a block.
    pub block: Option<usize>,
    /// The endpoints that it carries. Whether their channels are of a lower level, and whether
    /// nothing was sent on them yet, is for the kernel to check.
    pub endpoints: &'a [Carried],
}

/// Why a message may not be sent or received. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The contract has no message with this tag.
    UnknownMessage,
    /// The other side may send now, or the contract is at its end.
    NotItsTurn,
    /// The message is not allowed in this state.
    NotAllowed,
    /// It has another number of inline bytes.
    Inline,
    /// Its block is too long, is missing, or must not be there.
    Block,
    /// Its endpoints are not those of the contract.
    Endpoints,
    /// The other side does not have the turn here, so no message of it can be on its way.
    NothingSent,
}

impl<B: AsRef<[u8]>> Automaton<B> {
    /// Returns the state after `from` has sent the message `tag` with `parcel` in `state`, which is
    /// the state as `from` sees it.
    pub fn permits(
        &self,
        state: State,
        from: Side,
        tag: u16,
        parcel: &Parcel<'_>,
    ) -> Result<State, Breach> {
        let message = self.message(tag).ok_or(Breach::UnknownMessage)?;
        if self.side(state) != Some(from) {
            return Err(Breach::NotItsTurn);
        }
        let next = self.next(state, tag).ok_or(Breach::NotAllowed)?;
        if parcel.inline != message.inline {
            return Err(Breach::Inline);
        }
        let has_block = message.block > 0;
        if parcel.block.is_some() != has_block || parcel.block > Some(message.block) {
            return Err(Breach::Block);
        }
        let is_right = |(index, carried)| self.carried(&message, index) == Some(carried);
        let mut endpoints = parcel.endpoints.iter().copied().enumerate();
        if parcel.endpoints.len() != message.endpoints || !endpoints.all(is_right) {
            return Err(Breach::Endpoints);
        }
        Ok(next)
    }

    /// Returns the state after a message of fields alone, as [`Automaton::permits`] does; `None` if
    /// it may not be sent.
    #[inline]
    pub fn permits_fields(
        &self,
        state: State,
        from: Side,
        tag: u16,
        inline: usize,
    ) -> Option<State> {
        let message = self.message(tag)?;
        let is_right = message.inline == inline && message.block == 0 && message.endpoints == 0;
        self.next(state, tag).filter(|_| is_right && self.side(state) == Some(from))
    }
}

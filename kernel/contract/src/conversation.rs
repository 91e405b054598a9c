//! The state of one channel: where each side is in the contract, and what it may do next.
//!
//! Each side has a view of the state. Sending a message advances the sender's view, receiving it
//! the receiver's:
//! ```text
//!   views        equal              client ahead                equal
//!             +---------+  send   +--------------+  receive   +-------+
//!    client:  |  idle   | ------> |    asked     | ---------> | asked |    server may send now
//!    server:  |  idle   |         |    idle      |            | asked |
//!             +---------+         +--------------+            +-------+
//! ```
//! A side may send only where *its own* view gives it the turn. The other side's view cannot be
//! ahead of it then, so a message cannot cross another, and [`Automaton::bound`] holds.

use crate::automaton::Automaton;
use crate::types::{Carried, Side, State};

/// The state of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversation {
    client: State,
    server: State,
}

/// What a message consists of, apart from its tag.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parcel<'a> {
    /// Number of inline bytes.
    pub inline: usize,
    /// Length of the block, which may be 0; `None` without a block.
    pub block: Option<usize>,
    /// The endpoints that it carries. The contract's rule that nothing was sent on their channels
    /// yet, so that their receivers begin in the start state, is not checked yet. Levels are not
    /// checked here either: a kernel compares those of the two channels.
    pub endpoints: &'a [Carried],
}

/// Why a message may not be sent or received. The conversation is unchanged.
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

impl Conversation {
    /// Begins a conversation.
    pub fn start<B: AsRef<[u8]>>(automaton: &Automaton<B>) -> Self {
        Self { client: automaton.start(), server: automaton.start() }
    }

    /// Returns the state as `side` sees it.
    pub fn view(&self, side: Side) -> State {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }

    /// Advances the view of `from`, which sends the message `tag` with `parcel`.
    pub fn send<B: AsRef<[u8]>>(
        &mut self,
        automaton: &Automaton<B>,
        from: Side,
        tag: u16,
        parcel: &Parcel<'_>,
    ) -> Result<(), Breach> {
        let message = automaton.message(tag).ok_or(Breach::UnknownMessage)?;
        let view = self.view(from);
        if automaton.side(view) != Some(from) {
            return Err(Breach::NotItsTurn);
        }
        let next = automaton.next(view, tag).ok_or(Breach::NotAllowed)?;
        if parcel.inline != message.inline {
            return Err(Breach::Inline);
        }
        let has_block = message.block > 0;
        if parcel.block.is_some() != has_block || parcel.block > Some(message.block) {
            return Err(Breach::Block);
        }
        let is_right = |(index, carried)| automaton.carried(&message, index) == Some(carried);
        let count = parcel.endpoints.len();
        let mut endpoints = parcel.endpoints.iter().copied().enumerate();
        if count != message.endpoints || !endpoints.all(is_right) {
            return Err(Breach::Endpoints);
        }
        self.set(from, next);
        Ok(())
    }

    /// Advances the view of `to`, which receives the message `tag`. Messages must be received in
    /// the order in which they were sent.
    pub fn receive<B: AsRef<[u8]>>(
        &mut self,
        automaton: &Automaton<B>,
        to: Side,
        tag: u16,
    ) -> Result<(), Breach> {
        let view = self.view(to);
        if automaton.side(view) != Some(to.other()) {
            return Err(Breach::NothingSent);
        }
        let next = automaton.next(view, tag).ok_or(Breach::NotAllowed)?;
        self.set(to, next);
        Ok(())
    }

    /// Returns whether `side` may close the channel now. Otherwise the contract is broken.
    pub fn may_close<B: AsRef<[u8]>>(&self, automaton: &Automaton<B>, side: Side) -> bool {
        automaton.may_close(self.view(side), side)
    }

    fn set(&mut self, side: Side, state: State) {
        match side {
            Side::Client => self.client = state,
            Side::Server => self.server = state,
        }
    }
}

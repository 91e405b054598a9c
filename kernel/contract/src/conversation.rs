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
use crate::parcel::{Breach, Parcel};
use crate::types::{Side, State};

/// The state of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversation {
    client: State,
    server: State,
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
        let next = automaton.permits(self.view(from), from, tag, parcel)?;
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

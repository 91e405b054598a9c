//! Sides, states, messages, hashes, bounds, and the reasons to refuse an automaton.

/// The name of a contract in binary form: equal hashes are equal contracts. Its alignment lets
/// kernels compare it by words.
#[repr(align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub [u8; 16]);

/// One of the two sides of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The side that asked for the channel.
    Client,
    /// The side that serves it.
    Server,
}

impl Side {
    /// Returns the other side.
    pub const fn other(self) -> Self {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }

    /// Returns its number in the tables.
    pub const fn number(self) -> u8 {
        match self {
            Side::Client => 0,
            Side::Server => 1,
        }
    }

    pub(crate) const fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(Side::Client),
            1 => Some(Side::Server),
            _ => None,
        }
    }
}

/// A state of an automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State(pub(crate) u8);

impl State {
    /// Returns its number, which [`crate::Automaton::state`] accepts.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// A message's shape, which each message sent must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The side that sends it.
    pub from: Side,
    /// Its exact number of inline bytes.
    pub inline: usize,
    /// Maximum length of its block; 0 if it has none.
    pub block: usize,
    /// Number of endpoints that it carries.
    pub endpoints: usize,
    /// Index of the first one in the table of all carried endpoints.
    pub(crate) first: usize,
}

/// The contract and the side of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The contract of its channel.
    pub contract: Hash,
    /// Its side of that channel.
    pub side: Side,
}

/// Why bytes are not a valid automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// They do not begin with [`crate::MAGIC`].
    Magic,
    /// They have another format version.
    Version,
    /// They have no states, no messages, or too many.
    Count,
    /// The level is above [`crate::MAX_LEVEL`], 0 although endpoints are carried, or not 0 although
    /// none are.
    Level,
    /// They are shorter or longer than their tables.
    Length,
    /// A reserved byte is not 0.
    Reserved,
    /// An entry of the table of states.
    State(u8),
    /// An entry of the table of messages.
    Message(u8),
    /// An entry of the table of carried endpoints.
    Endpoint(u16),
    /// A next state that does not exist, or whose message the state's side does not send.
    Transition { state: u8, message: u8 },
    /// A state that no conversation reaches.
    Unreachable(u8),
    /// A side that may send forever without an answer.
    Unbounded(Side),
}

impl core::fmt::Display for Invalid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "not the automaton of a contract ({self:?}): make it with `./pen contract`")
    }
}

impl core::error::Error for Invalid {}

/// The most that a queue of one direction can contain. The four maxima need not be reached at the
/// same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Messages.
    pub messages: u32,
    /// Their inline bytes.
    pub inline: u32,
    /// The bytes of their blocks.
    pub block: u32,
    /// The endpoints that they carry.
    pub endpoints: u32,
}

impl Bound {
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            messages: self.messages.max(other.messages),
            inline: self.inline.max(other.inline),
            block: self.block.max(other.block),
            endpoints: self.endpoints.max(other.endpoints),
        }
    }
}

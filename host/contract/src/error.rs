//! Why a contract was rejected, always with file, line, what is wrong and what to do.

use kernel_contract::{ENDPOINTS, INLINE, MAX_LEVEL, Side};
use thiserror::Error;

/// An error in the file of a contract.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}: {reason}")]
pub struct ContractError {
    /// Name of the file, as given.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// The error.
    pub reason: Reason,
}

/// A kind of error.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Reason {
    /// The file cannot be read.
    #[error(
        "cannot read the contract: {0}; name a file NAME.vN.toml, or make one with `./pen new \
         contract NAME`"
    )]
    Unreadable(String),
    /// The file is not named after its contract.
    #[error(
        "\"{0}\" is not the file of a contract: call it NAME.vN.toml, where NAME has {NAMES}, and \
         is no keyword of Rust or C, and N is a number from 1 to 65535"
    )]
    FileName(String),
    /// It is not TOML, or a key is unknown or missing.
    #[error("{0} (docs/reference/contracts.md describes the format)")]
    Syntax(String),
    /// A name with other characters.
    #[error("\"{name}\" is not a valid {what} name: use {NAMES}")]
    Name {
        /// The named thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name that generated code cannot have.
    #[error("\"{name}\" is a word of Rust, C or the generated code: rename the {what}")]
    Reserved {
        /// The named thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Two things with one name.
    #[error("there are two {what}s named \"{name}\": rename one of them")]
    Twice {
        /// The named things.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A field that has the name of another field's length.
    #[error("\"{0}\" is what the length of another field is called in C: rename one of the two")]
    Length(String),
    /// Too many or none.
    #[error("there are {count} {what}: write 1 to {most}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// The maximum.
        most: usize,
    },
    /// A field of an unknown type.
    #[error(
        "\"{0}\" is not a field type: use u8, u16, u32, u64, i8, i16, i32, i64, u8[N] (N bytes) or \
         bytes[N] (0 to N bytes)"
    )]
    Type(String),
    /// A message that is too long.
    #[error(
        "message \"{message}\" has {bytes} inline bytes, {INLINE} are the most: move what is long \
         to a block"
    )]
    Inline {
        /// The message.
        message: String,
        /// Its length.
        bytes: usize,
    },
    /// A block of an invalid length.
    #[error(
        "\"{0}\" is not a valid block length: write \"N B\", \"N KiB\" or \"N MiB\", from 1 B to \
         16 MiB"
    )]
    Block(String),
    /// Too many endpoints.
    #[error(
        "message \"{0}\" carries more than {ENDPOINTS} endpoints: send them in several messages"
    )]
    Endpoints(String),
    /// The contract of a carried endpoint has no valid name.
    #[error("\"{0}\" is not the name of a contract: write NAME.vN, its file name without .toml")]
    NoContract(String),
    /// A contract that carries its own endpoints.
    #[error(
        "{0} carries an endpoint of its own kind, and ends that are queued in each other could \
         never be freed: carry it by a message of another contract"
    )]
    OwnKind(String),
    /// Contracts that carry endpoints of each other.
    #[error(
        "contracts carry endpoints of each other ({0}), and ends that are queued in each other \
         could never be freed: carry the endpoint in one direction only"
    )]
    Circle(String),
    /// A contract whose level would be too high.
    #[error(
        "{0} would have a level above {MAX_LEVEL}, because more than {row} contracts in a row each \
         carry an endpoint of the next: make the row shorter", row = MAX_LEVEL + 1
    )]
    Level(String),
    /// A message, state or contract that is not defined.
    #[error("there is no {what} \"{name}\": define it, or use one of: {known}")]
    Undefined {
        /// What is missing.
        what: &'static str,
        /// Its name.
        name: String,
        /// Those that are defined.
        known: String,
    },
    /// A message that no state allows.
    #[error("no state allows message \"{0}\": add it to a state (on.{0} = \"STATE\") or remove it")]
    Unused(String),
    /// A state in which both sides may send.
    #[error(
        "both sides may send in state \"{state}\" (\"{client}\" is the client's, \"{server}\" the \
         server's), so messages could cross: split it into two states"
    )]
    Race {
        /// The state.
        state: String,
        /// A message of the client.
        client: String,
        /// A message of the server.
        server: String,
    },
    /// A state without messages that is not marked as an end.
    #[error(
        "state \"{0}\" allows no message: add one (on.MESSAGE = \"STATE\"), or write `end = true`"
    )]
    DeadEnd(String),
    /// An end state with messages.
    #[error("state \"{0}\" is an end, but allows messages: remove them, or `end = true`")]
    NoEnd(String),
    /// `close` in an end state.
    #[error("state \"{0}\" is an end, where both sides may close the channel: remove `close`")]
    CloseAtEnd(String),
    /// A state that no conversation reaches.
    #[error(
        "no conversation reaches state \"{0}\": let a message lead to it (on.MESSAGE = \"{0}\"), \
         or remove it"
    )]
    Unreachable(String),
    /// A state from which no end can be reached.
    #[error(
        "no end can be reached from state \"{0}\": add a message that leads to one, or say why \
         there is none (perpetual = \"...\")"
    )]
    Endless(String),
    /// A perpetual state from which an end can be reached.
    #[error("an end can be reached from state \"{0}\": remove `perpetual`")]
    NotPerpetual(String),
    /// A cycle on which only one side sends.
    #[error(
        "the {} can send forever without an answer ({path}), so no queue would be long enough: \
         let the {} answer on the way", side_name(*.side), side_name(.side.other())
    )]
    OneSided {
        /// The side that sends.
        side: Side,
        /// The cycle.
        path: String,
    },
}

/// The rule for names.
const NAMES: &str = "at most 31 of a-z, 0-9 and '_', in words that begin with a letter";

/// Returns a side as it is written in contracts.
pub fn side_name(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

/// A result whose error carries a byte offset in the file.
pub(crate) type Place<T> = Result<T, (usize, Reason)>;

impl ContractError {
    pub(crate) fn at(file: &str, text: &str, (at, reason): (usize, Reason)) -> Self {
        let line = text.bytes().take(at).filter(|&b| b == b'\n').count() + 1;
        Self { file: file.to_string(), line, reason }
    }
}

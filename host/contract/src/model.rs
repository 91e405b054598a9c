//! A contract after all checks: what the generators read.

use crate::names;
use kernel_contract::{Automaton, Carried, Hash, Side};

/// A valid contract.
#[derive(Clone, Debug)]
pub struct Contract {
    /// Its name, without the version.
    pub name: String,
    /// Its version.
    pub version: u16,
    /// What it is for, in a sentence.
    pub about: String,
    /// Messages in the order of their tags.
    pub messages: Vec<Message>,
    /// States in the order of their numbers.
    pub states: Vec<State>,
    /// Index of the state in which a channel begins.
    pub start: usize,
    /// Its binary form.
    pub bytes: Vec<u8>,
    /// The same, parsed.
    pub automaton: Automaton<Vec<u8>>,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its name.
    pub name: String,
    /// What it is for; may be empty.
    pub about: String,
    /// The side that sends it.
    pub from: Side,
    /// Its fields, in order.
    pub fields: Vec<Field>,
    /// Its length in bytes without the block.
    pub inline: usize,
    /// Maximum length of its block, if it has one.
    pub block: Option<u32>,
    /// The endpoints that it carries.
    pub endpoints: Vec<Endpoint>,
    /// Offset of its name in the file.
    pub(crate) at: usize,
}

/// A field of a message.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it is; may be empty.
    pub about: String,
    /// Its type.
    pub kind: Type,
    /// Its offset in the message.
    pub offset: usize,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A little-endian number of 1, 2, 4 or 8 bytes.
    Number {
        /// Its length in bytes.
        bytes: usize,
        /// Whether it can be negative.
        is_signed: bool,
    },
    /// Exactly this many bytes.
    Array(usize),
    /// A length of 2 bytes, and room for this many bytes.
    Bytes(usize),
}

/// An endpoint that a message carries.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its name.
    pub name: String,
    /// What it is for; may be empty.
    pub about: String,
    /// Its contract, as `NAME.vN`.
    pub contract: String,
    /// The contract's hash.
    pub hash: Hash,
    /// The contract's level.
    pub level: u8,
    /// Its side.
    pub side: Side,
}

/// A state.
#[derive(Clone, Debug)]
pub struct State {
    /// Its name.
    pub name: String,
    /// What it means; may be empty.
    pub about: String,
    /// The side that may send; `None` in an end state.
    pub side: Option<Side>,
    /// Whether that side may close the channel instead.
    pub may_close: bool,
    /// Why no end can be reached from here.
    pub perpetual: Option<String>,
    /// Allowed messages and next states, as indices, in the order of the messages.
    pub transitions: Vec<(usize, usize)>,
    /// Offset of its name in the file.
    pub(crate) at: usize,
}

/// A contract whose automaton is not checked and not encoded.
pub(crate) struct Draft {
    pub name: String,
    pub version: u16,
    pub about: String,
    pub messages: Vec<Message>,
    pub states: Vec<State>,
    /// States that are marked as ends.
    pub ends: Vec<bool>,
    pub start: usize,
}

impl Draft {
    /// Returns the level: one more than the highest of the carried endpoints' contracts.
    pub fn level(&self) -> u8 {
        let carried = self.messages.iter().flat_map(|message| &message.endpoints);
        carried.map(|endpoint| endpoint.level + 1).max().unwrap_or(0)
    }
}

impl Contract {
    /// Returns `NAME.vN`.
    pub fn full_name(&self) -> String {
        format!("{}.v{}", self.name, self.version)
    }

    /// Returns `NAME_vN`: what generated code is named after.
    pub fn symbol(&self) -> String {
        format!("{}_v{}", self.name, self.version)
    }

    /// Returns the contract's hash.
    pub fn hash(&self) -> Hash {
        self.automaton.hash()
    }

    /// Returns the hash in hex digits, as kernels show it.
    pub fn digits(&self) -> String {
        self.hash().0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Type {
    /// Parses `u32`, `u8[N]`, `bytes[N]`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some((kind, rest)) = text.split_once('[') {
            let count: u16 = names::number(rest.strip_suffix(']')?)?.try_into().ok()?;
            return match kind {
                "u8" => Some(Type::Array(count.into())),
                "bytes" => Some(Type::Bytes(count.into())),
                _ => None,
            };
        }
        let (kind, bits) = text.split_at_checked(1)?;
        let bytes = match bits {
            "8" => 1,
            "16" => 2,
            "32" => 4,
            "64" => 8,
            _ => return None,
        };
        ["u", "i"].contains(&kind).then_some(Type::Number { bytes, is_signed: kind == "i" })
    }

    /// Returns its length in a message.
    pub fn size(self) -> usize {
        match self {
            Type::Number { bytes, .. } => bytes,
            Type::Array(count) => count,
            Type::Bytes(most) => 2 + most,
        }
    }

    /// Returns the number of which its offset is a multiple.
    pub fn align(self) -> usize {
        match self {
            Type::Number { bytes, .. } => bytes,
            Type::Array(_) => 1,
            Type::Bytes(_) => 2,
        }
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Type::Number { bytes, is_signed } => {
                write!(f, "{}{}", if *is_signed { "i" } else { "u" }, 8 * bytes)
            }
            Type::Array(count) => write!(f, "u8[{count}]"),
            Type::Bytes(most) => write!(f, "bytes[{most}]"),
        }
    }
}

impl Endpoint {
    /// Returns it as a row of the automaton.
    pub(crate) fn carried(&self) -> Carried {
        Carried { contract: self.hash, side: self.side }
    }
}

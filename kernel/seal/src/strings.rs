//! The strings of an image, each terminated by NUL, and the format of preopens and endpoints.

use abi::names::Name;
use abi::program::{AFFINITY, OWN_CONTRACT};

/// A directory that is open when a program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preopen<'a> {
    /// Whether the program gets it from any parent.
    pub grant: bool,
    /// Whether the program may change its contents.
    pub write: bool,
    /// The absolute path.
    pub path: &'a [u8],
    /// The program's name for it.
    pub name: &'a [u8],
}

impl<'a> Preopen<'a> {
    /// Parses `RIGHTS PATH=NAME`, after a `+` for a grant.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let (rights, rest) = cut(text, b' ')?;
        let (grant, rights) = match rights.strip_prefix(b"+") {
            Some(rights) => (true, rights),
            None => (false, rights),
        };
        let write = match rights {
            b"r" => false,
            b"rw" => true,
            _ => return None,
        };
        let (path, name) = cut(rest, b'=')?;
        let whole = path.first() == Some(&b'/') && !name.is_empty();
        whole.then_some(Preopen { grant, write, path, name })
    }
}

/// What a program talks to, and where it wants to run relative to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// Positive: near to it, negative: apart from it, 0: it does not matter.
    pub affinity: i32,
    /// The program serves the contract itself.
    pub is_own: bool,
    pub to: To<'a>,
}

/// What an endpoint leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To<'a> {
    /// All servers of a contract. Its name is for people; it has no hash in images of older tools.
    Contract { name: &'a [u8], hash: Option<[u8; HASH]> },
    /// What is registered by this name, or by names below it ([`abi::names`]).
    Name(&'a [u8]),
}

/// The affinity of instances of a program to each other, if it serves the contract itself.
pub const OWN_AFFINITY: i32 = -1;
/// Bytes of the hash of a contract.
pub const HASH: usize = 16;

impl<'a> Endpoint<'a> {
    /// Parses `AFFINITY CONTRACT HASH`, or without HASH, or `AFFINITY /NAME`.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let (affinity, rest) = cut(text, b' ')?;
        let is_own = affinity == OWN_CONTRACT.as_bytes();
        let affinity = match is_own {
            true => OWN_AFFINITY,
            false => core::str::from_utf8(affinity).ok()?.parse().ok()?,
        };
        let to = match (rest.strip_prefix(b"/"), cut(rest, b' ')) {
            (Some(name), _) => To::Name(name),
            (None, Some((name, digits))) => To::Contract { name, hash: Some(bytes_of(digits)?) },
            (None, None) => To::Contract { name: rest, hash: None },
        };
        let is_right = match to {
            To::Contract { name, .. } => !name.is_empty(),
            To::Name(name) => !is_own && Name::new(name).is_some(),
        };
        let valid = (-AFFINITY..=AFFINITY).contains(&affinity) && is_right;
        valid.then_some(Endpoint { affinity, is_own, to })
    }
}

/// Parses a hash in lower-case hexadecimal digits.
fn bytes_of(digits: &[u8]) -> Option<[u8; HASH]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; HASH];
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != HASH || !rest.is_empty() {
        return None;
    }
    for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = value(high)? << 4 | value(low)?;
    }
    Some(bytes)
}

/// Splits `text` at the first `at`.
fn cut(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().position(|&byte| byte == at)?;
    Some((text.get(..place)?, text.get(place + 1..)?))
}

/// Iterates over NUL-terminated strings; bytes after the last NUL are ignored.
pub fn strings(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        let (text, after) = cut(rest, 0)?;
        rest = after;
        Some(text)
    })
}

/// Iterates over preopens; `None` in place of an invalid one.
pub fn preopens(bytes: &[u8]) -> impl Iterator<Item = Option<Preopen<'_>>> {
    strings(bytes).map(Preopen::parse)
}

/// Iterates over endpoints; `None` in place of an invalid one.
pub fn endpoints(bytes: &[u8]) -> impl Iterator<Item = Option<Endpoint<'_>>> {
    strings(bytes).map(Endpoint::parse)
}

/// Returns whether the last string is terminated too.
pub(crate) fn are_whole(bytes: &[u8]) -> bool {
    bytes.last().is_none_or(|&last| last == 0)
}

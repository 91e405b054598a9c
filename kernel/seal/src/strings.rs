//! The strings of an image, each terminated by NUL, and the format of preopens and endpoints.

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

/// A service that a program talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// How much the program gains from running near the service: -100 (loses) to 100.
    pub affinity: i32,
    /// The name of the service's contract.
    pub contract: &'a [u8],
}

impl<'a> Endpoint<'a> {
    /// Parses `AFFINITY CONTRACT`.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let (affinity, contract) = cut(text, b' ')?;
        let affinity: i32 = core::str::from_utf8(affinity).ok()?.parse().ok()?;
        let valid = (-100..=100).contains(&affinity) && !contract.is_empty();
        valid.then_some(Endpoint { affinity, contract })
    }
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

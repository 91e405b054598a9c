//! The strings of an image: texts with a NUL behind each, and what preopens and endpoints among
//! them mean.

/// A directory that a program begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preopen<'a> {
    /// May the program change what is in it?
    pub write: bool,
    /// Where it is, from the root.
    pub path: &'a [u8],
    /// What the program calls it.
    pub name: &'a [u8],
}

impl<'a> Preopen<'a> {
    /// Of `RIGHTS PATH=NAME`.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let (rights, rest) = cut(text, b' ')?;
        let write = match rights {
            b"r" => false,
            b"rw" => true,
            _ => return None,
        };
        let (path, name) = cut(rest, b'=')?;
        let whole = path.first() == Some(&b'/') && !name.is_empty();
        whole.then_some(Preopen { write, path, name })
    }
}

/// What a program talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// How much it gains by being near: -100 (far away) to 100.
    pub affinity: i32,
    /// The contract that is spoken there.
    pub contract: &'a [u8],
}

impl<'a> Endpoint<'a> {
    /// Of `AFFINITY CONTRACT`.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let (affinity, contract) = cut(text, b' ')?;
        let affinity: i32 = core::str::from_utf8(affinity).ok()?.parse().ok()?;
        let sensible = (-100..=100).contains(&affinity) && !contract.is_empty();
        sensible.then_some(Endpoint { affinity, contract })
    }
}

/// What is before and behind the first `at`.
fn cut(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().position(|&byte| byte == at)?;
    Some((text.get(..place)?, text.get(place + 1..)?))
}

/// The texts of which each has a NUL behind it; what is behind the last NUL is none.
pub fn strings(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        let (text, behind) = cut(rest, 0)?;
        rest = behind;
        Some(text)
    })
}

/// The preopens that [`strings`] finds; `None` in the place of one that makes no sense.
pub fn preopens(bytes: &[u8]) -> impl Iterator<Item = Option<Preopen<'_>>> {
    strings(bytes).map(Preopen::parse)
}

/// The endpoints that [`strings`] finds; `None` in the place of one that makes no sense.
pub fn endpoints(bytes: &[u8]) -> impl Iterator<Item = Option<Endpoint<'_>>> {
    strings(bytes).map(Endpoint::parse)
}

/// Is there a NUL behind the last one too?
pub(crate) fn are_whole(bytes: &[u8]) -> bool {
    bytes.last().is_none_or(|&last| last == 0)
}

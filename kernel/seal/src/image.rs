//! Sealing and checking of images.

use crate::strings::{Endpoint, Preopen, are_whole, endpoints, preopens, strings};
use abi::platform;
use abi::program::{
    IMAGE_ALIGN, IMAGE_BYTES, IMAGE_MAGIC, IMAGE_STRINGS, IMAGE_UNSEALED, IMAGE_VERSION, ImageHead,
    class, right,
};
use abi::reach::{RULES, Rule, listener};
use alloc::vec::Vec;
use blake3::{Hash, Hasher};
use core::mem::offset_of;
use core::ops::{Deref, Range};
use zerocopy::{FromBytes, IntoBytes};

/// Offset of the first byte after the seal.
const SEALED: usize = IMAGE_UNSEALED + 32;
const HEAD: usize = size_of::<ImageHead>();

const _: () = assert!(SEALED == offset_of!(ImageHead, bytes));
const _: () = assert!((HEAD + IMAGE_STRINGS) as u64 <= 3 * IMAGE_ALIGN);

/// The contents of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents<'a> {
    /// One of [`abi::boot::isa`].
    pub isa: u32,
    /// One of [`class`].
    pub class: u32,
    /// Platforms that the kernel must have.
    pub required: u8,
    /// Platforms that it prefers, packed ([`platform::pack`]).
    pub preferred: u16,
    /// Limit on memory in bytes; 0 for the board's limit.
    pub memory: u64,
    /// Limit on open descriptors; 0 for the kernel's limit.
    pub files: u32,
    /// Bit mask of [`right`].
    pub rights: u32,
    /// Limits of the process tree or branch that it begins ([`abi::quota`]); 0 for the usual ones.
    pub tree_processes: u16,
    pub tree_files: u16,
    /// Arguments, each terminated by NUL.
    pub arguments: &'a [u8],
    /// `NAME=VALUE` strings, each terminated by NUL.
    pub environment: &'a [u8],
    /// Preopened directories, in the format of [`preopens`].
    pub preopens: &'a [u8],
    /// Endpoints, in the format of [`endpoints`].
    pub endpoints: &'a [u8],
    /// Rules of what it may reach ([`abi::reach`]), each terminated by NUL.
    pub net: &'a [u8],
    /// Listeners that it starts with ([`abi::reach::listener`]), each terminated by NUL.
    pub listen: &'a [u8],
    /// BLAKE3 of the .wasm file.
    pub source: [u8; 32],
    /// The compiled code, at a multiple of [`IMAGE_ALIGN`] in the file.
    pub code: &'a [u8],
}

impl<'a> Contents<'a> {
    pub fn arguments(&self) -> impl Iterator<Item = &'a [u8]> {
        strings(self.arguments)
    }

    pub fn environment(&self) -> impl Iterator<Item = &'a [u8]> {
        strings(self.environment)
    }

    pub fn preopens(&self) -> impl Iterator<Item = Preopen<'a>> {
        preopens(self.preopens).flatten()
    }

    pub fn net(&self) -> impl Iterator<Item = &'a [u8]> {
        strings(self.net)
    }

    pub fn endpoints(&self) -> impl Iterator<Item = Endpoint<'a>> {
        endpoints(self.endpoints).flatten()
    }

    /// Iterates over the ports of the listeners.
    pub fn listen(&self) -> impl Iterator<Item = u16> {
        strings(self.listen).filter_map(listener)
    }

    fn strings(&self) -> [&'a [u8]; 6] {
        let Contents { arguments, environment, preopens, endpoints, net, listen, .. } = *self;
        [arguments, environment, preopens, endpoints, net, listen]
    }

    fn is_valid(&self) -> bool {
        let parts = self.strings();
        is_class(self.class)
            && platform::can_be_one(self.required)
            && platform::is_packed(self.preferred)
            && self.rights & !right::ALL == 0
            && parts.iter().map(|part| part.len()).sum::<usize>() <= IMAGE_STRINGS
            && parts.iter().all(|part| are_whole(part))
            && preopens(self.preopens).all(|found| found.is_some())
            && endpoints(self.endpoints).all(|found| found.is_some())
            && strings(self.net).all(|rule| Rule::parse(rule).is_some())
            && strings(self.net).count() <= RULES
            && strings(self.listen).all(|text| listener(text).is_some())
            && (self.rights & right::NET == 0 || self.net.is_empty())
            && !self.code.is_empty()
    }
}

/// The contents of an authentic image. Only [`check`] creates this type, so the code in an `Image`
/// is what the installer sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image<'a>(Contents<'a>);

impl<'a> Deref for Image<'a> {
    type Target = Contents<'a>;

    fn deref(&self) -> &Contents<'a> {
        &self.0
    }
}

/// What the head of an image says of the kernel that is to run it, read without checking the seal:
/// it may be used to choose a kernel, and for nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preferences {
    /// One of [`class`].
    pub class: u32,
    /// Platforms that the kernel must have.
    pub required: u8,
    /// Platforms that it prefers, packed ([`platform::pack`]).
    pub preferred: u16,
    /// Where the endpoints are in the file, in the format of [`endpoints`]; at most
    /// [`IMAGE_STRINGS`] bytes.
    pub endpoints: Range<usize>,
}

impl Preferences {
    /// Returns those in the first bytes of an image; `None` if this is no image of this version, or
    /// not a valid one.
    pub fn of(head: &[u8]) -> Option<Preferences> {
        let (head, _) = ImageHead::read_from_prefix(head).ok()?;
        let is_known = head.magic == IMAGE_MAGIC && head.version == IMAGE_VERSION;
        let before = [head.arguments, head.environment, head.preopens].map(|it| it as usize);
        let from = before.iter().try_fold(HEAD, |sum, &bytes| sum.checked_add(bytes))?;
        let to = from.checked_add(head.endpoints as usize)?;
        let is_valid = is_class(head.class.into())
            && platform::can_be_one(head.required)
            && platform::is_packed(head.preferred)
            && to <= HEAD + IMAGE_STRINGS;
        (is_known && is_valid).then_some(Preferences {
            class: head.class.into(),
            required: head.required,
            preferred: head.preferred,
            endpoints: from..to,
        })
    }
}

fn is_class(class: u32) -> bool {
    [class::NORMAL, class::LIGHT].contains(&class)
}

/// Why an image was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not an image.
    Magic,
    /// Made by another version of the tools.
    Version,
    /// Made for another ISA.
    Isa,
    /// The file has another length than the image, or is too large.
    Size,
    /// Damaged, or sealed for another board.
    Seal,
    /// Fields of the head are invalid or contradict each other.
    Shape,
}

impl Refused {
    /// Returns the reason as a message for people, with advice.
    pub const fn text(self) -> &'static str {
        match self {
            Refused::Magic => "not a program image: make one from a .wasm file with `pen install`",
            Refused::Version => "made by another version of Penumbra: `pen install` it again",
            Refused::Isa => "made for another ISA: `pen install` it again",
            Refused::Size => "truncated, or too large: `pen install` it again",
            Refused::Seal => "damaged, or sealed for another board: `pen install` it again",
            Refused::Shape => "its head is invalid: `pen install` it again",
        }
    }
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Refused {}

/// Returns the seal of an image, given the pieces before and after the seal.
fn seal_of(before: &[u8], after: &[u8], key: &[u8; crate::KEY]) -> Hash {
    Hasher::new_keyed(key).update(before).update(after).finalize()
}

/// Verifies that `bytes` is an image for `isa` that was sealed with `key`, and returns it.
pub fn check<'a>(bytes: &'a [u8], isa: u32, key: &[u8; crate::KEY]) -> Result<Image<'a>, Refused> {
    let (head, _) = ImageHead::read_from_prefix(bytes).map_err(|_| Refused::Magic)?;
    if head.magic != IMAGE_MAGIC {
        return Err(Refused::Magic);
    }
    if head.version != IMAGE_VERSION {
        return Err(Refused::Version);
    }
    if head.isa != isa {
        return Err(Refused::Isa);
    }
    if head.bytes != bytes.len() as u64 || head.bytes > IMAGE_BYTES {
        return Err(Refused::Size);
    }
    let before = bytes.get(..IMAGE_UNSEALED).ok_or(Refused::Size)?;
    let after = bytes.get(SEALED..).ok_or(Refused::Size)?;
    // `Hash` compares in constant time.
    if seal_of(before, after, key) != Hash::from_bytes(head.seal) {
        return Err(Refused::Seal);
    }
    contents(bytes, &head).filter(Contents::is_valid).map(Image).ok_or(Refused::Shape)
}

/// Returns the pieces that the head describes; `None` if they lie outside the file or are
/// misplaced.
fn contents<'a>(bytes: &'a [u8], head: &ImageHead) -> Option<Contents<'a>> {
    let mut at = HEAD;
    let mut take = |length: u32| {
        let from = at;
        at = from.checked_add(length as usize)?;
        bytes.get(from..at)
    };
    let arguments = take(head.arguments)?;
    let environment = take(head.environment)?;
    let preopens = take(head.preopens)?;
    let endpoints = take(head.endpoints)?;
    let net = take(head.net)?;
    let listen = take(head.listen)?;
    let code = usize::try_from(head.code).ok()?;
    let placed = head.code.is_multiple_of(IMAGE_ALIGN) && code >= at;
    let whole = head.code.checked_add(head.code_bytes) == Some(head.bytes);
    let code = bytes.get(code..)?;
    (placed && whole).then_some(Contents {
        isa: head.isa,
        class: head.class.into(),
        required: head.required,
        preferred: head.preferred,
        memory: head.memory,
        files: head.files,
        rights: head.rights,
        tree_processes: head.tree_processes,
        tree_files: head.tree_files,
        arguments,
        environment,
        preopens,
        endpoints,
        net,
        listen,
        source: head.source,
        code,
    })
}

/// Creates the file of an image. Fails with the error that [`check`] would return.
pub fn seal(image: &Contents<'_>, key: &[u8; crate::KEY]) -> Result<Vec<u8>, Refused> {
    if !image.is_valid() {
        return Err(Refused::Shape);
    }
    let strings = image.strings().concat();
    let code = (HEAD + strings.len()).next_multiple_of(IMAGE_ALIGN as usize);
    let bytes = code.checked_add(image.code.len()).ok_or(Refused::Size)?;
    if bytes as u64 > IMAGE_BYTES {
        return Err(Refused::Size);
    }
    let head = ImageHead {
        magic: IMAGE_MAGIC,
        version: IMAGE_VERSION,
        isa: image.isa,
        seal: [0; 32],
        bytes: bytes as u64,
        code: code as u64,
        code_bytes: image.code.len() as u64,
        memory: image.memory,
        // `is_valid` has checked that it is one of few.
        class: image.class as u8,
        required: image.required,
        preferred: image.preferred,
        files: image.files,
        // `is_valid` has checked that IMAGE_STRINGS bounds these.
        arguments: image.arguments.len() as u32,
        environment: image.environment.len() as u32,
        preopens: image.preopens.len() as u32,
        endpoints: image.endpoints.len() as u32,
        rights: image.rights,
        tree_processes: image.tree_processes,
        tree_files: image.tree_files,
        source: image.source,
        net: image.net.len() as u32,
        listen: image.listen.len() as u32,
    };
    let mut file = Vec::with_capacity(bytes);
    file.extend_from_slice(head.as_bytes());
    file.extend_from_slice(&strings);
    file.resize(code, 0);
    file.extend_from_slice(image.code);
    let (before, rest) = file.split_at_mut(IMAGE_UNSEALED);
    let (place, after) = rest.split_at_mut(SEALED - IMAGE_UNSEALED);
    place.copy_from_slice(seal_of(before, after, key).as_bytes());
    Ok(file)
}

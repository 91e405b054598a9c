//! Sealing an image, and checking one.

use crate::strings::{Endpoint, Preopen, are_whole, endpoints, preopens, strings};
use abi::program::{
    IMAGE_ALIGN, IMAGE_BYTES, IMAGE_MAGIC, IMAGE_STRINGS, IMAGE_UNSEALED, IMAGE_VERSION, ImageHead,
    class, right,
};
use alloc::vec::Vec;
use blake3::{Hash, Hasher};
use core::mem::offset_of;
use core::ops::Deref;
use zerocopy::{FromBytes, IntoBytes};

/// First byte behind the seal.
const SEALED: usize = IMAGE_UNSEALED + 32;
const HEAD: usize = size_of::<ImageHead>();

const _: () = assert!(SEALED == offset_of!(ImageHead, bytes));
const _: () = assert!((HEAD + IMAGE_STRINGS) as u64 <= 3 * IMAGE_ALIGN);

/// What is in an image, or is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents<'a> {
    /// For which ISA: [`abi::boot::isa`].
    pub isa: u32,
    /// [`class`].
    pub class: u32,
    /// Most bytes of memory; 0: no limit but the board's.
    pub memory: u64,
    /// Most descriptors; 0: the kernel's limit.
    pub files: u32,
    /// [`right`]s.
    pub rights: u32,
    /// Arguments, each with a NUL behind it.
    pub arguments: &'a [u8],
    /// `NAME=VALUE`, each with a NUL behind it.
    pub environment: &'a [u8],
    /// Preopens, as [`preopens`] reads them.
    pub preopens: &'a [u8],
    /// Endpoints, as [`endpoints`] reads them.
    pub endpoints: &'a [u8],
    /// BLAKE3 of the .wasm.
    pub source: [u8; 32],
    /// What the engine loads. In the file it begins at a multiple of [`IMAGE_ALIGN`].
    pub code: &'a [u8],
}

impl<'a> Contents<'a> {
    /// The arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &'a [u8]> {
        strings(self.arguments)
    }

    /// The environment.
    pub fn environment(&self) -> impl Iterator<Item = &'a [u8]> {
        strings(self.environment)
    }

    /// The directories that it begins with.
    pub fn preopens(&self) -> impl Iterator<Item = Preopen<'a>> {
        preopens(self.preopens).flatten()
    }

    /// What it talks to.
    pub fn endpoints(&self) -> impl Iterator<Item = Endpoint<'a>> {
        endpoints(self.endpoints).flatten()
    }

    fn strings(&self) -> [&'a [u8]; 4] {
        [self.arguments, self.environment, self.preopens, self.endpoints]
    }

    fn is_sensible(&self) -> bool {
        let parts = self.strings();
        [class::NORMAL, class::LIGHT].contains(&self.class)
            && self.rights & !right::ALL == 0
            && parts.iter().map(|part| part.len()).sum::<usize>() <= IMAGE_STRINGS
            && parts.iter().all(|part| are_whole(part))
            && preopens(self.preopens).all(|found| found.is_some())
            && endpoints(self.endpoints).all(|found| found.is_some())
            && !self.code.is_empty()
    }
}

/// The contents of an image that was found to be authentic. [`check`] makes them, and nobody else
/// can: what an `Image` holds as code is what the installer sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image<'a>(Contents<'a>);

impl<'a> Deref for Image<'a> {
    type Target = Contents<'a>;

    fn deref(&self) -> &Contents<'a> {
        &self.0
    }
}

/// For which cores the image is whose first bytes these are, without a look at its seal: good for
/// a choice between kernels, and for nothing else. `None`: it is no image of this version.
pub fn class_of(head: &[u8]) -> Option<u32> {
    let (head, _) = ImageHead::read_from_prefix(head).ok()?;
    let known = head.magic == IMAGE_MAGIC && head.version == IMAGE_VERSION;
    (known && [class::NORMAL, class::LIGHT].contains(&head.class)).then_some(head.class)
}

/// Why an image is none that runs here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another kind of file.
    Magic,
    /// Of another version of the tools.
    Version,
    /// For another ISA.
    Isa,
    /// Longer or shorter than it was made.
    Size,
    /// Damaged, or sealed for another board.
    Seal,
    /// Its own fields contradict each other.
    Shape,
}

impl Refused {
    /// Why, for people, and what to do about it.
    pub const fn text(self) -> &'static str {
        match self {
            Refused::Magic => "no image of a program: `pen install` makes them of .wasm files",
            Refused::Version => "made by another version of Penumbra: `pen install` it again",
            Refused::Isa => "made for cores of another kind: `pen install` it again",
            Refused::Size => "a part of it is missing, or too large: `pen install` it again",
            Refused::Seal => "damaged, or sealed for another board: `pen install` it again",
            Refused::Shape => "its head makes no sense: `pen install` it again",
        }
    }
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Refused {}

/// The seal of the two pieces of an image around it.
fn seal_of(before: &[u8], behind: &[u8], key: &[u8; crate::KEY]) -> Hash {
    Hasher::new_keyed(key).update(before).update(behind).finalize()
}

/// What is in the image `bytes`, once it was found to be one for `isa`, sealed with `key`.
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
    let behind = bytes.get(SEALED..).ok_or(Refused::Size)?;
    // Hashes compare in the same time wherever they differ.
    if seal_of(before, behind, key) != Hash::from_bytes(head.seal) {
        return Err(Refused::Seal);
    }
    contents(bytes, &head).filter(Contents::is_sensible).map(Image).ok_or(Refused::Shape)
}

/// The pieces that the head tells of; `None`: they are not in the file, or not as they must be.
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
    let code = usize::try_from(head.code).ok()?;
    let placed = head.code.is_multiple_of(IMAGE_ALIGN) && code >= at;
    let whole = head.code.checked_add(head.code_bytes) == Some(head.bytes);
    let code = bytes.get(code..)?;
    (placed && whole).then_some(Contents {
        isa: head.isa,
        class: head.class,
        memory: head.memory,
        files: head.files,
        rights: head.rights,
        arguments,
        environment,
        preopens,
        endpoints,
        source: head.source,
        code,
    })
}

/// Makes the file of an image. It is refused where [`check`] would refuse the file.
pub fn seal(image: &Contents<'_>, key: &[u8; crate::KEY]) -> Result<Vec<u8>, Refused> {
    if !image.is_sensible() {
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
        class: image.class,
        files: image.files,
        // Bounded by IMAGE_STRINGS, as is_sensible found.
        arguments: image.arguments.len() as u32,
        environment: image.environment.len() as u32,
        preopens: image.preopens.len() as u32,
        endpoints: image.endpoints.len() as u32,
        rights: image.rights,
        reserved: 0,
        source: image.source,
    };
    let mut file = Vec::with_capacity(bytes);
    file.extend_from_slice(head.as_bytes());
    file.extend_from_slice(&strings);
    file.resize(code, 0);
    file.extend_from_slice(image.code);
    let (before, rest) = file.split_at_mut(IMAGE_UNSEALED);
    let (place, behind) = rest.split_at_mut(SEALED - IMAGE_UNSEALED);
    place.copy_from_slice(seal_of(before, behind, key).as_bytes());
    Ok(file)
}

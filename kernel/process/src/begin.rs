//! What a process begins with, as bytes: [`abi::program::Begin`] and what is behind it.
//!
//! Contract: [`decode`] takes any bytes, and what it gives is whole: sizes add up, strings end
//! where they say, names belong to directories, no descriptor is there twice. [`encode`] gives
//! nothing that [`decode`] would refuse.

use crate::errno::Errno;
use crate::wasi::rights;
use abi::fs::PATH;
use abi::program::{
    BEGIN_BYTES, BEGIN_DIRECTORY, BEGIN_FILES, BEGIN_FOLDERS, BEGIN_MAGIC, BEGIN_SIGNALS, Begin,
    BeginFile,
};
use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of the head.
const HEAD: usize = size_of::<Begin>();
/// Bytes of a file behind it.
const FILE: usize = size_of::<BeginFile>();

/// What a process may have, and all that it begins: 0 is no limit but the manifest's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of memory.
    pub memory: u64,
    /// Most descriptors.
    pub descriptors: u32,
}

impl Limits {
    /// The lower one of each.
    pub fn within(self, other: Limits) -> Limits {
        let lower = |one: u64, other: u64| match (one, other) {
            (0, limit) | (limit, 0) => limit,
            (one, other) => one.min(other),
        };
        Limits {
            memory: lower(self.memory, other.memory),
            // Of two numbers of 32 bits.
            descriptors: lower(self.descriptors.into(), other.descriptors.into()) as u32,
        }
    }

    /// With those of `other` where there are none.
    pub fn or(self, other: Limits) -> Limits {
        let set = |own: u64, other: u64| if own == 0 { other } else { own };
        Limits {
            memory: set(self.memory, other.memory),
            descriptors: set(self.descriptors.into(), other.descriptors.into()) as u32,
        }
    }
}

/// A beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning<'a> {
    /// The program.
    pub path: &'a [u8],
    /// Its arguments, each with a NUL behind it.
    pub arguments: &'a [u8],
    /// Its environment, in the same way.
    pub environment: &'a [u8],
    /// What it may have.
    pub limits: Limits,
    /// Who begins it may signal anybody.
    pub signals: bool,
    /// Its directories, but for `/`, are there by somebody's wish.
    pub folders: bool,
    files: &'a [u8],
    names: &'a [u8],
}

/// A file that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given<'a> {
    /// The file service's handle, of who asked.
    pub handle: u64,
    /// WASI's rights.
    pub rights: u64,
    /// WASI's rights of what is opened through it.
    pub inheriting: u64,
    /// Which descriptor it is to be, or [`BEGIN_DIRECTORY`].
    pub descriptor: u32,
    /// The name of a preopened directory.
    pub name: Option<&'a [u8]>,
}

impl<'a> Beginning<'a> {
    /// All files, the directory of the program too.
    pub fn files(&self) -> impl Iterator<Item = Given<'a>> + use<'a> {
        let mut names = strings(self.names);
        let files = self.files.chunks_exact(FILE);
        files.filter_map(|bytes| BeginFile::read_from_bytes(bytes).ok()).map(move |file| Given {
            handle: file.handle,
            rights: file.rights,
            inheriting: file.inheriting,
            descriptor: file.descriptor,
            name: if file.preopened == 0 { None } else { names.next() },
        })
    }

    /// The file service's handle of the directory where the path begins; `None`: it is `/`.
    pub fn directory(&self) -> Option<u64> {
        self.files().find(|file| file.descriptor == BEGIN_DIRECTORY).map(|file| file.handle)
    }
}

/// The strings of a block, without their NULs.
pub fn strings(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    block.split_inclusive(|byte| *byte == 0).map(|one| one.strip_suffix(&[0]).unwrap_or(one))
}

/// Has each string of a block its NUL?
pub fn is_block(block: &[u8]) -> bool {
    block.last().is_none_or(|last| *last == 0)
}

/// A path: text of at most [`PATH`] bytes, without NUL.
pub fn is_path(path: &[u8]) -> bool {
    !path.is_empty() && path.len() <= PATH && is_name(path)
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&0) && core::str::from_utf8(name).is_ok()
}

/// Takes `length` bytes from the front of `rest`.
fn cut<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Errno> {
    let (front, behind) = rest.split_at_checked(length).ok_or(Errno::INVAL)?;
    *rest = behind;
    Ok(front)
}

/// From bytes.
pub fn decode(bytes: &[u8]) -> Result<Beginning<'_>, Errno> {
    if bytes.len() > BEGIN_BYTES {
        return Err(Errno::TOOBIG);
    }
    let (head, mut rest) = Begin::read_from_prefix(bytes).map_err(|_| Errno::INVAL)?;
    let odd = head.reserved != 0 || head.flags & !(BEGIN_SIGNALS | BEGIN_FOLDERS) != 0;
    if head.magic != BEGIN_MAGIC || odd || head.files as usize > BEGIN_FILES {
        return Err(Errno::INVAL);
    }
    let beginning = Beginning {
        files: cut(&mut rest, head.files as usize * FILE)?,
        path: cut(&mut rest, head.path as usize)?,
        arguments: cut(&mut rest, head.arguments as usize)?,
        environment: cut(&mut rest, head.environment as usize)?,
        names: cut(&mut rest, head.names as usize)?,
        limits: Limits { memory: head.memory, descriptors: head.descriptors },
        signals: head.flags & BEGIN_SIGNALS != 0,
        folders: head.flags & BEGIN_FOLDERS != 0,
    };
    let blocks = [beginning.arguments, beginning.environment, beginning.names];
    if !rest.is_empty() || !is_path(beginning.path) || !blocks.into_iter().all(is_block) {
        return Err(Errno::INVAL);
    }
    check_files(&beginning)?;
    Ok(beginning)
}

fn check_files(beginning: &Beginning<'_>) -> Result<(), Errno> {
    let mut named = 0;
    for (at, bytes) in beginning.files.chunks_exact(FILE).enumerate() {
        let file = BeginFile::read_from_bytes(bytes).map_err(|_| Errno::INVAL)?;
        let unknown = (file.rights | file.inheriting) & !rights::ALL != 0;
        let nameless = file.descriptor == BEGIN_DIRECTORY && file.preopened != 0;
        let twice = beginning.files().take(at).any(|other| other.descriptor == file.descriptor);
        if unknown || nameless || twice || file.preopened > 1 {
            return Err(Errno::INVAL);
        }
        named += file.preopened as usize;
    }
    let fit = strings(beginning.names).count() == named && strings(beginning.names).all(is_name);
    if fit { Ok(()) } else { Err(Errno::INVAL) }
}

/// What [`encode`] is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan<'a> {
    /// The program.
    pub path: &'a [u8],
    /// Its arguments, each with a NUL behind it.
    pub arguments: &'a [u8],
    /// Its environment, in the same way.
    pub environment: &'a [u8],
    /// What it may have.
    pub limits: Limits,
    /// Who begins it may signal anybody.
    pub signals: bool,
    /// Its directories, but for `/`, are there by somebody's wish.
    pub folders: bool,
    /// What is handed over.
    pub files: &'a [Given<'a>],
}

/// To bytes. [`Errno::TOOBIG`]: there are more than [`BEGIN_BYTES`], or [`BEGIN_FILES`].
pub fn encode(plan: &Plan<'_>) -> Result<Vec<u8>, Errno> {
    let names = plan.files.iter().filter_map(|file| file.name);
    let names = names.fold(0usize, |sum, name| sum.saturating_add(name.len()).saturating_add(1));
    let parts = [plan.path.len(), plan.arguments.len(), plan.environment.len(), names];
    let fixed = HEAD.saturating_add(plan.files.len().saturating_mul(FILE));
    let total = parts.into_iter().fold(fixed, usize::saturating_add);
    if plan.files.len() > BEGIN_FILES || total > BEGIN_BYTES {
        return Err(Errno::TOOBIG);
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(total).map_err(|_| Errno::NOMEM)?;
    let head = Begin {
        magic: BEGIN_MAGIC,
        files: plan.files.len() as u32,
        path: plan.path.len() as u32,
        arguments: plan.arguments.len() as u32,
        environment: plan.environment.len() as u32,
        names: names as u32,
        descriptors: plan.limits.descriptors,
        memory: plan.limits.memory,
        flags: set(plan.signals, BEGIN_SIGNALS) | set(plan.folders, BEGIN_FOLDERS),
        reserved: 0,
    };
    bytes.extend_from_slice(head.as_bytes());
    for file in plan.files {
        bytes.extend_from_slice(begin_file(file).as_bytes());
    }
    for part in [plan.path, plan.arguments, plan.environment] {
        bytes.extend_from_slice(part);
    }
    for name in plan.files.iter().filter_map(|file| file.name) {
        bytes.extend_from_slice(name);
        bytes.push(0);
    }
    decode(&bytes).map(|_| ())?;
    Ok(bytes)
}

fn set(is_set: bool, flag: u32) -> u32 {
    if is_set { flag } else { 0 }
}

fn begin_file(file: &Given<'_>) -> BeginFile {
    BeginFile {
        handle: file.handle,
        rights: file.rights,
        inheriting: file.inheriting,
        descriptor: file.descriptor,
        preopened: u32::from(file.name.is_some()),
    }
}

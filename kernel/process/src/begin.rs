//! Encoding of the start data of a process: [`abi::program::Begin`] and what follows it.
//!
//! [`decode`] accepts arbitrary bytes. What it returns is consistent: sizes add up, strings are
//! terminated, names belong to directories, descriptors are distinct. [`encode`] returns nothing
//! that [`decode`] would refuse.

use crate::errno::Errno;
use crate::object::Object;
use crate::polls::Realm;
use crate::reach::Reach;
pub use crate::strings::{is_block, strings};
use crate::table::Preopen;
use crate::wasi::rights;
use abi::fs::PATH;
use abi::program::{
    ARGUMENTS, BEGIN_AT_PATH, BEGIN_AUTHORITY, BEGIN_BYTES, BEGIN_DIRECTORY, BEGIN_END,
    BEGIN_FILES, BEGIN_FOLDERS, BEGIN_MAGIC, BEGIN_NET, BEGIN_PREOPENED, BEGIN_RECORDS, BEGIN_ROOT,
    BEGIN_SIGNALS, BEGIN_SOCKET, Begin, BeginFile,
};
use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of the header.
const HEAD: usize = size_of::<Begin>();
/// Flags of a socket and of an end of a channel.
const REALMS: [u32; 2] = [BEGIN_SOCKET, BEGIN_END];
/// Flags of a preopened directory whose name is its path.
const AT_PATH: u32 = BEGIN_PREOPENED | BEGIN_AT_PATH;
/// Bytes of a file record.
const FILE: usize = size_of::<BeginFile>();

/// Limits of a process and of every process that it starts; 0: only the manifest's limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum memory in bytes.
    pub memory: u64,
    /// Maximum number of descriptors.
    pub descriptors: u32,
}

impl Limits {
    /// Returns the lower limit of each.
    pub fn within(self, other: Limits) -> Limits {
        let lower = |one: u64, other: u64| match (one, other) {
            (0, limit) | (limit, 0) => limit,
            (one, other) => one.min(other),
        };
        Limits {
            memory: lower(self.memory, other.memory),
            // The minimum of two 32-bit numbers.
            descriptors: lower(self.descriptors.into(), other.descriptors.into()) as u32,
        }
    }

    /// Returns these limits, with those of `other` where there is none.
    pub fn or(self, other: Limits) -> Limits {
        let set = |own: u64, other: u64| if own == 0 { other } else { own };
        Limits {
            memory: set(self.memory, other.memory),
            descriptors: set(self.descriptors.into(), other.descriptors.into()) as u32,
        }
    }
}

/// Directories that were passed on purpose: a program gets them even if its manifest names others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Folders {
    /// None.
    #[default]
    Usual,
    /// All but `/`.
    Wanted,
    /// All.
    WantedWithRoot,
}

impl Folders {
    /// `None` if the flags contradict each other.
    fn of(flags: u32) -> Option<Folders> {
        match (flags & BEGIN_FOLDERS != 0, flags & BEGIN_ROOT != 0) {
            (false, false) => Some(Folders::Usual),
            (true, false) => Some(Folders::Wanted),
            (true, true) => Some(Folders::WantedWithRoot),
            (false, true) => None,
        }
    }

    fn flags(self) -> u32 {
        match self {
            Folders::Usual => 0,
            Folders::Wanted => BEGIN_FOLDERS,
            Folders::WantedWithRoot => BEGIN_FOLDERS | BEGIN_ROOT,
        }
    }

    /// Returns whether the directory of this name was passed on purpose.
    pub fn has(self, name: &[u8]) -> bool {
        match self {
            Folders::Usual => false,
            Folders::Wanted => name != b"/",
            Folders::WantedWithRoot => true,
        }
    }
}

/// Decoded start data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartData<'a> {
    /// Path of the program.
    pub path: &'a [u8],
    /// Arguments, each NUL terminated.
    pub arguments: &'a [u8],
    /// Environment, each string NUL terminated.
    pub environment: &'a [u8],
    pub limits: Limits,
    /// The parent may signal any process.
    pub signals: bool,
    /// Which directories were passed on purpose.
    pub folders: Folders,
    /// What the parent may reach.
    pub net: Option<&'a [u8]>,
    files: &'a [u8],
    names: &'a [u8],
}

/// A file passed to the new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedFile<'a> {
    /// What it refers to, owned by the parent.
    pub object: Object,
    pub rights: u64,
    /// WASI's rights of files opened through it.
    pub inheriting: u64,
    /// Its descriptor in the new process, or [`BEGIN_DIRECTORY`] or [`BEGIN_AUTHORITY`].
    pub descriptor: u32,
    /// If it is a preopened directory.
    pub preopen: Option<Preopen<'a>>,
}

impl<'a> StartData<'a> {
    /// Iterates over the files that the new process gets.
    pub fn passed(&self) -> impl Iterator<Item = PassedFile<'a>> + use<'a> {
        self.files().filter(|file| is_passed(file.descriptor))
    }

    /// Iterates over all files, including the program's directory and those of the parent.
    pub fn files(&self) -> impl Iterator<Item = PassedFile<'a>> + use<'a> {
        let mut names = strings(self.names);
        let files = self.files.chunks_exact(FILE);
        files.filter_map(|bytes| BeginFile::read_from_bytes(bytes).ok()).map(move |file| {
            PassedFile {
                object: Object::of_parts(file.handle, Realm::of_flags(file.flags, REALMS)),
                rights: file.rights,
                inheriting: file.inheriting,
                descriptor: file.descriptor,
                preopen: match file.flags & BEGIN_PREOPENED {
                    0 => None,
                    _ => names
                        .next()
                        .map(|name| Preopen { name, is_path: file.flags & BEGIN_AT_PATH != 0 }),
                },
            }
        })
    }

    /// Returns the parent's handle of the directory that the path is relative to; `None`: it is
    /// `/`.
    pub fn directory(&self) -> Option<u64> {
        let directory = self.files().find(|file| file.descriptor == BEGIN_DIRECTORY);
        directory.and_then(|file| file.object.file().ok())
    }
}

fn is_passed(descriptor: u32) -> bool {
    !matches!(descriptor, BEGIN_DIRECTORY | BEGIN_AUTHORITY)
}

/// Returns whether this is a path: UTF-8 of at most [`PATH`] bytes, without NUL.
pub fn is_path(path: &[u8]) -> bool {
    !path.is_empty() && path.len() <= PATH && is_name(path)
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&0) && core::str::from_utf8(name).is_ok()
}

/// Returns whether arguments and environment together are within the limit of a process.
pub fn has_room(arguments: &[u8], environment: &[u8]) -> bool {
    arguments.len().saturating_add(environment.len()) <= ARGUMENTS
}

/// Takes `length` bytes off the front of `rest`.
fn cut<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Errno> {
    let (front, tail) = rest.split_at_checked(length).ok_or(Errno::INVAL)?;
    *rest = tail;
    Ok(front)
}

pub fn decode(bytes: &[u8]) -> Result<StartData<'_>, Errno> {
    if bytes.len() > BEGIN_BYTES {
        return Err(Errno::TOOBIG);
    }
    let (head, mut rest) = Begin::read_from_prefix(bytes).map_err(|_| Errno::INVAL)?;
    let known = BEGIN_SIGNALS | BEGIN_FOLDERS | BEGIN_ROOT | BEGIN_NET;
    let has_rules = head.flags & BEGIN_NET != 0;
    let odd = (head.net != 0 && !has_rules) || head.flags & !known != 0;
    if head.magic != BEGIN_MAGIC || odd || head.files as usize > BEGIN_RECORDS {
        return Err(Errno::INVAL);
    }
    let start_data = StartData {
        files: cut(&mut rest, head.files as usize * FILE)?,
        path: cut(&mut rest, head.path as usize)?,
        arguments: cut(&mut rest, head.arguments as usize)?,
        environment: cut(&mut rest, head.environment as usize)?,
        names: cut(&mut rest, head.names as usize)?,
        net: Some(cut(&mut rest, head.net as usize)?).filter(|_| has_rules),
        limits: Limits { memory: head.memory, descriptors: head.descriptors },
        signals: head.flags & BEGIN_SIGNALS != 0,
        folders: Folders::of(head.flags).ok_or(Errno::INVAL)?,
    };
    let rules = start_data.net.unwrap_or_default();
    let blocks = [start_data.arguments, start_data.environment, start_data.names, rules];
    if !rest.is_empty() || !is_path(start_data.path) || !blocks.into_iter().all(is_block) {
        return Err(Errno::INVAL);
    }
    if !has_room(start_data.arguments, start_data.environment) {
        return Err(Errno::TOOBIG);
    }
    Reach::of(rules)?;
    check_files(&start_data)?;
    Ok(start_data)
}

fn check_files(start_data: &StartData<'_>) -> Result<(), Errno> {
    let (mut named, mut passed) = (0, 0);
    for (at, bytes) in start_data.files.chunks_exact(FILE).enumerate() {
        let file = BeginFile::read_from_bytes(bytes).map_err(|_| Errno::INVAL)?;
        let unknown = (file.rights | file.inheriting) & !rights::ALL != 0;
        let preopened = file.flags & BEGIN_PREOPENED;
        let odd = (!is_passed(file.descriptor) && file.flags != 0)
            || !matches!(file.flags, 0 | BEGIN_PREOPENED | AT_PATH | BEGIN_SOCKET | BEGIN_END);
        let mut before = start_data.files().take(at);
        let twice = file.descriptor != BEGIN_AUTHORITY
            && before.any(|other| other.descriptor == file.descriptor);
        if unknown || odd || twice {
            return Err(Errno::INVAL);
        }
        named += preopened as usize;
        passed += usize::from(file.descriptor != BEGIN_AUTHORITY);
    }
    let fit = strings(start_data.names).count() == named && strings(start_data.names).all(is_name);
    if fit && passed <= BEGIN_FILES { Ok(()) } else { Err(Errno::INVAL) }
}

/// Start data to encode.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan<'a> {
    pub path: &'a [u8],
    /// Each NUL terminated.
    pub arguments: &'a [u8],
    /// Each NUL terminated.
    pub environment: &'a [u8],
    pub limits: Limits,
    /// The parent may signal any process.
    pub signals: bool,
    /// What the parent may reach; `None`: everything.
    pub net: Option<&'a [u8]>,
    /// Which directories were passed on purpose.
    pub folders: Folders,
    pub files: &'a [PassedFile<'a>],
}

/// Fails with [`Errno::TOOBIG`] above [`BEGIN_BYTES`], [`BEGIN_RECORDS`] or [`ARGUMENTS`].
pub fn encode(plan: &Plan<'_>) -> Result<Vec<u8>, Errno> {
    let names = plan.files.iter().filter_map(|file| Some(file.preopen?.name));
    let total_of = |sum: usize, name: &[u8]| sum.saturating_add(name.len()).saturating_add(1);
    let names = names.fold(0, total_of);
    let rules = plan.net.unwrap_or_default();
    let parts = [plan.path.len(), plan.arguments.len(), plan.environment.len(), names, rules.len()];
    let fixed = HEAD.saturating_add(plan.files.len().saturating_mul(FILE));
    let total = parts.into_iter().fold(fixed, usize::saturating_add);
    let is_long = total > BEGIN_BYTES || !has_room(plan.arguments, plan.environment);
    if plan.files.len() > BEGIN_RECORDS || is_long {
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
        flags: rights(plan.signals, plan.net.is_some()) | plan.folders.flags(),
        net: rules.len() as u32,
    };
    bytes.extend_from_slice(head.as_bytes());
    for file in plan.files {
        bytes.extend_from_slice(begin_file(file).as_bytes());
    }
    for part in [plan.path, plan.arguments, plan.environment] {
        bytes.extend_from_slice(part);
    }
    for name in plan.files.iter().filter_map(|file| Some(file.preopen?.name)) {
        bytes.extend_from_slice(name);
        bytes.push(0);
    }
    bytes.extend_from_slice(rules);
    decode(&bytes).map(|_| ())?;
    Ok(bytes)
}

/// Returns the flags of what a process may do.
pub fn rights(signals: bool, is_restricted: bool) -> u32 {
    set(signals, BEGIN_SIGNALS) | set(is_restricted, BEGIN_NET)
}

fn set(is_set: bool, flag: u32) -> u32 {
    if is_set { flag } else { 0 }
}

fn begin_file(file: &PassedFile<'_>) -> BeginFile {
    let (handle, realm) = file.object.parts();
    BeginFile {
        handle,
        rights: file.rights,
        inheriting: file.inheriting,
        descriptor: file.descriptor,
        flags: file.preopen.map_or(0, |it| if it.is_path { AT_PATH } else { BEGIN_PREOPENED })
            | realm.flag(REALMS),
    }
}

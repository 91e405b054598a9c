//! What crosses into the system, byte for byte: the same as `abi::program` and `abi::process`,
//! which a test compares.

/// `Spawn::kernel`: whichever its manifest, or the load, suggests.
pub const ANY_KERNEL: u32 = u32::MAX;
/// `Spawn::flags`: in a group of its own, which has its number.
pub const NEW_GROUP: u32 = 1;
/// `wait`: does not wait.
pub const NO_HANG: u32 = 1;
/// Most bytes of a process's name.
pub const NAME: usize = 32;
/// Most files that are handed over.
pub const FILES: usize = 64;
/// Most bytes of arguments and environment of a new process.
pub const ARGUMENTS: usize = 128 * 1024;

/// What `spawn` gets. Each (address, bytes) pair is a piece of the program's memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Spawn {
    /// The program: a path that `directory` leads to.
    pub path: [u32; 2],
    /// Arguments, each with a NUL behind it.
    pub arguments: [u32; 2],
    /// `NAME=VALUE`, each with a NUL behind it.
    pub environment: [u32; 2],
    /// [`InheritedFile`]s: address and number.
    pub files: [u32; 2],
    /// Descriptor of the directory where the path begins.
    pub directory: u32,
    /// Which kernel, or [`ANY_KERNEL`].
    pub kernel: u32,
    /// Its group; 0: the caller's.
    pub group: u32,
    /// [`NEW_GROUP`].
    pub flags: u32,
    /// Most bytes of memory for it and each that it begins; 0: no limit but those there are.
    pub memory: u64,
    /// Most descriptors, likewise.
    pub descriptors: u32,
    /// 0.
    pub reserved: u32,
}

/// A file that `spawn` hands over.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct InheritedFile {
    /// The caller's descriptor.
    pub descriptor: u32,
    /// Which one it is to be there.
    pub becomes: u32,
    /// A preopened directory of this name (address, bytes); 0 bytes: none.
    pub preopen: [u32; 2],
}

/// How a child ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    /// Which; 0: none yet.
    pub pid: u32,
    /// 1 exit, 2 signal, 3 trap, 4 lost.
    pub kind: u32,
    /// Exit code, signal, trap.
    pub status: u32,
    /// 0.
    pub reserved: u32,
    /// Time on a core, in ns.
    pub cpu: u64,
    /// Most bytes of memory.
    pub memory: u64,
}

/// Who the caller is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity {
    /// Its number.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its group.
    pub group: u32,
    /// Its kernel.
    pub kernel: u32,
}

/// One process of a list.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Listed {
    /// Its number.
    pub pid: u32,
    /// Its parent's; 0: the system.
    pub parent: u32,
    /// Its group.
    pub group: u32,
    /// Its kernel.
    pub kernel: u16,
    /// 1 waiting, 2 starting, 3 running, 4 ended.
    pub state: u16,
    /// As [`Ended::kind`], once it ended.
    pub kind: u32,
    /// Exit code, signal, trap.
    pub status: u32,
    /// When it was asked for, in ns of the chip.
    pub began: u64,
    /// Time on a core, in ns.
    pub cpu: u64,
    /// Most bytes of memory.
    pub memory: u64,
    /// Requests to services.
    pub messages: u64,
    /// Its name, NUL padded.
    pub name: [u8; NAME],
}

/// What `poll_oneoff` waits for.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Subscription {
    /// Comes back in the event.
    pub user: u64,
    /// 0 clock, 1 read, 2 write.
    pub tag: u32,
    /// 0.
    pub pad: u32,
    /// The descriptor, or the clock.
    pub subject: u32,
    /// 0.
    pub pad2: u32,
    /// Clock: how long, in ns.
    pub timeout: u64,
    /// Clock: how exact, in ns.
    pub precision: u64,
    /// Clock: 1 when `timeout` is a time.
    pub flags: u32,
    /// 0.
    pub pad3: u32,
}

/// What `poll_oneoff` answers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    /// Of the subscription.
    pub user: u64,
    /// An error, or 0.
    pub error: u16,
    /// The subscription's tag.
    pub kind: u8,
    /// 0.
    pub pad: [u8; 5],
    /// How many bytes.
    pub bytes: u64,
    /// 1: the other side is gone.
    pub flags: u16,
    /// 0.
    pub pad2: [u8; 6],
}

/// What `fd_fdstat_get` answers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Fdstat {
    /// WASI's file type.
    pub kind: u8,
    /// 0.
    pub pad: u8,
    /// WASI's descriptor flags.
    pub flags: u16,
    /// 0.
    pub pad2: u32,
    /// Rights.
    pub rights: u64,
    /// Rights of what is opened through it.
    pub inheriting: u64,
}

/// What `path_filestat_get` answers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Filestat {
    /// Which file system.
    pub device: u64,
    /// Which file there.
    pub node: u64,
    /// WASI's file type.
    pub kind: u8,
    /// 0.
    pub pad: [u8; 7],
    /// Names.
    pub links: u64,
    /// Bytes.
    pub size: u64,
    /// Time of access, in ns.
    pub accessed: u64,
    /// Time of the last write, in ns.
    pub modified: u64,
    /// Time of the last change, in ns.
    pub changed: u64,
}

const _: () = assert!(size_of::<Filestat>() == 64);
const _: () = assert!(size_of::<Spawn>() == 64 && size_of::<InheritedFile>() == 16);
const _: () = assert!(size_of::<Ended>() == 32 && size_of::<Identity>() == 16);
const _: () = assert!(size_of::<Listed>() == 88 && size_of::<Fdstat>() == 24);
const _: () = assert!(size_of::<Subscription>() == 48 && size_of::<Event>() == 32);

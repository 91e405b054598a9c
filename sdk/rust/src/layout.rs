//! Layouts of the structures that are passed to the system: copies of those in `abi::program`,
//! `abi::channel` and `abi::process`. A test compares them.

/// `Spawn::kernel`: the kernel that the manifest names or, without one, that the load suggests.
pub const ANY_KERNEL: u32 = u32::MAX;
/// `Spawn::flags`: start a new group, whose number is the child's.
pub const NEW_GROUP: u32 = 1;
/// `wait`: return at once if no child has ended.
pub const NO_HANG: u32 = 1;
/// Maximum length of a process's name in bytes.
pub const NAME: usize = 32;
/// Maximum number of files passed to a child.
pub const FILES: usize = 64;
/// Maximum bytes of arguments and environment of a new process.
pub const ARGUMENTS: usize = 128 * 1024;

/// Argument of `spawn`. Each (address, bytes) pair is a range of the program's memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Spawn {
    /// Path of the program, relative to `directory`.
    pub path: [u32; 2],
    /// Arguments, each followed by a NUL.
    pub arguments: [u32; 2],
    /// `NAME=VALUE` variables, each followed by a NUL.
    pub environment: [u32; 2],
    /// [`InheritedFile`]s: address and count.
    pub files: [u32; 2],
    /// Descriptor of the directory that the path is relative to.
    pub directory: u32,
    /// Index of the kernel, or [`ANY_KERNEL`].
    pub kernel: u32,
    /// Process group; 0: the caller's.
    pub group: u32,
    /// [`NEW_GROUP`].
    pub flags: u32,
    /// Memory limit of the child and of each of its descendants, in bytes; 0: none of its own.
    pub memory: u64,
    /// Limit on descriptors, in the same way.
    pub descriptors: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// A file that `spawn` passes to the child.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct InheritedFile {
    /// The caller's descriptor.
    pub descriptor: u32,
    /// The child's descriptor.
    pub becomes: u32,
    /// Name (address, bytes) if it is a preopened directory of the child; 0 bytes: it is not.
    pub preopen: [u32; 2],
}

/// `ChannelMessage::ends`: no end here.
pub const NO_END: u32 = u32::MAX;
/// The same, received: an end that was lost on its way.
pub const LOST_END: u32 = u32::MAX - 1;
/// `channel_receive`: fail instead of waiting.
pub const NO_WAIT: u32 = 1;
/// `channel_receive`: share the memory of a window.
pub const WINDOWS: u32 = 2;
/// Flag of `name_connect`: wait until the name is served.
pub const AWAIT: u32 = 1;
/// `ChannelMessage::flags`: it has a block.
pub const HAS_BLOCK: u16 = 1;
/// Flag of a [`ChannelMessage`]: its block is a window.
pub const WINDOW: u16 = 2;
/// The shortest block in bytes whose pages pass to a receiver on the same kernel.
pub const PASSES: usize = 16 << 10;

/// A message of a channel. To receive, the lengths are room; afterwards what has come, or would.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ChannelMessage {
    /// Its fields: address and length.
    pub bytes: [u32; 2],
    /// Its block, likewise.
    pub block: [u32; 2],
    /// Descriptors of the carried ends, or [`NO_END`], or [`LOST_END`].
    pub ends: [u32; 2],
    /// The number of the message in its contract.
    pub tag: u16,
    /// [`HAS_BLOCK`], and with it [`WINDOW`].
    pub flags: u16,
    /// 0.
    pub reserved: u32,
}

/// Family of IPv4 addresses.
pub const INET: u16 = 1;
/// Family of IPv6 addresses.
pub const INET6: u16 = 2;

/// Address of a socket.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketAddress {
    /// [`INET`] or [`INET6`].
    pub family: u16,
    /// Number of the port.
    pub port: u16,
    /// 0.
    pub flow: u32,
    /// IPv4: the first four bytes.
    pub address: [u8; 16],
    /// 0.
    pub scope: u32,
}

/// Options of sockets.
pub mod option {
    /// An error of a connection that no call has returned.
    pub const ERROR: u32 = 1;
    /// Small pieces are sent at once.
    pub const NODELAY: u32 = 5;
    /// A socket of IPv6 reaches and hears IPv6 alone.
    pub const V6ONLY: u32 = 9;
}

/// Directions of a stream.
pub mod shut {
    /// Receiving.
    pub const READ: u32 = 1;
    /// Sending.
    pub const WRITE: u32 = 2;
}

/// How a child ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    /// Number of the child; 0: no child has ended.
    pub pid: u32,
    /// 1 exit, 2 signal, 3 trap, 4 lost.
    pub kind: u32,
    /// Exit code, signal or trap.
    pub status: u32,
    /// Always 0.
    pub reserved: u32,
    /// CPU time in ns.
    pub cpu: u64,
    /// Peak memory in bytes.
    pub memory: u64,
}

/// The caller's identity.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity {
    /// Process number.
    pub pid: u32,
    /// Parent's number.
    pub parent: u32,
    /// Process group.
    pub group: u32,
    /// Index of its kernel.
    pub kernel: u32,
}

/// A process in a list.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Listed {
    /// Process number.
    pub pid: u32,
    /// Parent's number; 0: the system.
    pub parent: u32,
    /// Process group.
    pub group: u32,
    /// Index of its kernel.
    pub kernel: u16,
    /// 1 waiting, 2 starting, 3 running, 4 ended.
    pub state: u16,
    /// As [`Ended::kind`], once it has ended.
    pub kind: u32,
    /// Exit code, signal or trap.
    pub status: u32,
    /// soc time of the spawn request, in ns.
    pub began: u64,
    /// CPU time in ns.
    pub cpu: u64,
    /// Peak memory in bytes.
    pub memory: u64,
    /// Number of requests to services.
    pub messages: u64,
    /// Name, NUL padded.
    pub name: [u8; NAME],
}

/// A condition that `poll_oneoff` waits for.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Subscription {
    /// Returned in the event.
    pub user: u64,
    /// 0 clock, 1 read, 2 write.
    pub tag: u32,
    /// Must be 0.
    pub pad: u32,
    /// The descriptor or the clock.
    pub subject: u32,
    /// Must be 0.
    pub pad2: u32,
    /// Clock: timeout in ns.
    pub timeout: u64,
    /// Clock: precision in ns.
    pub precision: u64,
    /// Clock: 1 if `timeout` is an absolute time.
    pub flags: u32,
    /// Must be 0.
    pub pad3: u32,
}

/// An event that `poll_oneoff` returns.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    /// `user` of the subscription.
    pub user: u64,
    /// An error number, or 0.
    pub error: u16,
    /// Tag of the subscription.
    pub kind: u8,
    /// Always 0.
    pub pad: [u8; 5],
    /// Number of bytes that can be transferred.
    pub bytes: u64,
    /// 1: the other end is closed.
    pub flags: u16,
    /// Always 0.
    pub pad2: [u8; 6],
}

/// Result of `fd_fdstat_get`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Fdstat {
    /// WASI's file type.
    pub kind: u8,
    /// Always 0.
    pub pad: u8,
    /// WASI's descriptor flags.
    pub flags: u16,
    /// Always 0.
    pub pad2: u32,
    /// Rights.
    pub rights: u64,
    /// Rights that files opened through it inherit.
    pub inheriting: u64,
}

/// Result of `path_filestat_get`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Filestat {
    /// Number of the file system.
    pub device: u64,
    /// Inode number.
    pub node: u64,
    /// WASI's file type.
    pub kind: u8,
    /// Always 0.
    pub pad: [u8; 7],
    /// Number of hard links.
    pub links: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of access, in ns.
    pub accessed: u64,
    /// Time of the last write, in ns.
    pub modified: u64,
    /// Time of the last change of data or metadata, in ns.
    pub changed: u64,
}

const _: () = assert!(size_of::<Filestat>() == 64);
const _: () = assert!(size_of::<Spawn>() == 64 && size_of::<InheritedFile>() == 16);
const _: () = assert!(size_of::<Ended>() == 32 && size_of::<Identity>() == 16);
const _: () = assert!(size_of::<Listed>() == 88 && size_of::<Fdstat>() == 24);
const _: () = assert!(size_of::<Subscription>() == 48 && size_of::<Event>() == 32);

//! Programs: how a process starts, what it may call beyond WASI, and the file of compiled code that
//! a kernel loads.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Import module that a program has besides `wasi_snapshot_preview1`. Each function returns 0 or
/// one of WASI's error numbers; addresses are offsets in the program's memory.
///
/// | function | does |
/// | --- | --- |
/// | `spawn(what, pid)` | starts the program of a [`Spawn`]; stores its pid (u32) at `pid` |
/// | `wait(pid, flags, ended)` | as `waitpid`; stores an [`Ended`]. Flag 1: do not wait |
/// | `kill(pid, signal)` | signals a process, or (negative pid) a group |
/// | `group(pid, group)` | as `setpgid` |
/// | `move(pid, kernel)` | moves a running process to another kernel ([`crate::moves`]) |
/// | `move_point()` | nothing: the program may move here |
/// | `self(what)` | stores an [`Identity`] at `what` |
/// | `list(above, buffer, bytes, used)` | a [`crate::process::Listed`] of each pid above `above` |
/// | `pipe(ends)` | creates a pipe; stores two descriptors (u32): read end, write end |
/// | `light_spawn(start)` | as `thread-spawn` of wasi-threads: starts a light thread |
/// | `dup(descriptor, new)` | duplicates a descriptor; stores the new one (u32) |
/// | `terminal(descriptor, mode, group)` | sets mode ([`terminal`]) and foreground group |
/// | `socket(family, kind, flags, new)` | creates a socket; stores its descriptor (u32) |
/// | `bind(descriptor, address)` | gives it the local address of a [`SocketAddress`] |
/// | `listen(descriptor, backlog)` | makes it accept connections |
/// | `connect(descriptor, address)` | connects it to a peer |
/// | `accept(descriptor, flags, address, new)` | as `sock_accept`; stores the peer's address |
/// | `send_to(descriptor, iovs, count, flags, address, sent)` | sends to a peer |
/// | `recv_from(descriptor, iovs, count, flags, address, received, found)` | as `sock_recv` |
/// | `local_address(descriptor, address)` | stores its [`SocketAddress`] |
/// | `peer_address(descriptor, address)` | stores that of its peer |
/// | `get_option(descriptor, option, value)` | stores a [`crate::net::option`] (u32) |
/// | `set_option(descriptor, option, value)` | changes one |
/// | `channel(contract, bytes, ends)` | creates a channel; stores two descriptors: client, server |
/// | `channel_use(descriptor, contract, bytes, side)` | says by which contract, and as which side |
/// | `channel_send(descriptor, message)` | sends a [`crate::channel::ChannelMessage`] |
/// | `channel_receive(descriptor, message, flags)` | receives one |
/// | `channel_call(descriptor, message, reply)` | sends one, then receives one |
pub const MODULE: &str = "penumbra";

/// Import module of the functions that the installer puts in place of instructions of modules with
/// threads. A program cannot import it itself. `address` is what the instruction takes from the
/// stack, `offset` its constant; the sum of the two may be beyond 32 bits.
///
/// ```text
/// memory.grow            grow(pages: i32) -> i32
/// memory.atomic.wait32   wait32(address: i32, expected: i32, timeout: i64, offset: i32) -> i32
/// memory.atomic.wait64   wait64(address: i32, expected: i64, timeout: i64, offset: i32) -> i32
/// memory.atomic.notify   notify(address: i32, count: i32, offset: i32) -> i32
/// ```
/// An address that is outside the memory or not aligned is a trap, as it is for the instruction.
pub const THREADS: &str = "penumbra_threads";

/// The function of [`MODULE`] that starts a light thread. It returns the thread's number, or a
/// negative one as `thread-spawn` does.
pub const LIGHT_SPAWN: &str = "light_spawn";

pub mod terminal {
    /// Each key arrives as it is pressed, without echo.
    pub const RAW: u32 = 1;
    /// Whole lines arrive, already echoed and edited.
    pub const COOKED: u32 = 1 << 1;
    /// Ctrl-C signals the processes of the given group; 0: no group.
    pub const GROUP: u32 = 1 << 2;
}

/// `Spawn::kernel`: the kernel is chosen by the manifest, else by load.
pub const ANY_KERNEL: u32 = u32::MAX;

/// Argument of `spawn`. Each (address, bytes) pair is a range of the program's memory.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Spawn {
    /// Path of the program, relative to `directory`.
    pub path: [u32; 2],
    /// Arguments, each NUL terminated; the first is the name of the program.
    pub arguments: [u32; 2],
    /// `NAME=VALUE` strings, each NUL terminated.
    pub environment: [u32; 2],
    /// Address and number of [`InheritedFile`]s.
    pub files: [u32; 2],
    /// Descriptor of the directory that `path` is relative to.
    pub directory: u32,
    /// Index of the kernel, or [`ANY_KERNEL`].
    pub kernel: u32,
    /// Process group; 0: the caller's.
    pub group: u32,
    /// [`crate::process::flag::NEW_GROUP`].
    pub flags: u32,
    /// Maximum memory in bytes of the process, and of each process that it starts; 0: the caller's
    /// own limit.
    pub memory: u64,
    /// Maximum number of descriptors, likewise.
    pub descriptors: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// A file that `spawn` passes to the new process.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct InheritedFile {
    /// Descriptor of the caller, which keeps it.
    pub descriptor: u32,
    /// Descriptor in the new process.
    pub becomes: u32,
    /// Name (address, bytes) if this is a preopened directory; 0 bytes: it is not.
    pub preopen: [u32; 2],
}

/// Families of addresses, as wasi-libc numbers them.
pub mod family {
    pub const INET: u16 = 1;
    pub const INET6: u16 = 2;
}

/// Flag of `send_to` and `recv_from`, besides WASI's: do not wait.
pub const DONTWAIT: u32 = 1 << 2;

/// Address of a socket.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct SocketAddress {
    /// [`family`].
    pub family: u16,
    /// Little endian, as all numbers here.
    pub port: u16,
    /// IPv6 only; otherwise 0.
    pub flow: u32,
    /// IPv4: the first four bytes.
    pub address: [u8; 16],
    /// IPv6 only; otherwise 0.
    pub scope: u32,
}

const _: () = assert!(size_of::<SocketAddress>() == 28);

/// How a child ended.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Ended {
    /// The process; 0: none has ended yet.
    pub pid: u32,
    /// [`crate::process::End`].
    pub kind: u32,
    /// Exit code, signal or trap ([`trap`]).
    pub status: u32,
    /// 0.
    pub reserved: u32,
    /// CPU time in ns.
    pub cpu: u64,
    /// Peak memory in bytes.
    pub memory: u64,
}

#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Identity {
    pub pid: u32,
    pub parent: u32,
    pub group: u32,
    pub kernel: u32,
}

/// Traps, in the status of a process that a trap ended.
pub mod trap {
    /// The cause is unknown.
    pub const OTHER: u32 = 0;
    /// Stack overflow.
    pub const STACK: u32 = 1;
    /// A load or store outside its memory.
    pub const MEMORY: u32 = 2;
    /// An index outside a table, or a null or mistyped entry.
    pub const TABLE: u32 = 3;
    /// The `unreachable` instruction: the program panicked or aborted.
    pub const UNREACHABLE: u32 = 4;
    /// A division by zero, or a result that does not fit.
    pub const NUMBER: u32 = 5;
    /// Out of memory.
    pub const NO_MEMORY: u32 = 6;
}

/// `b"PENBEGIN"`, little endian.
pub const BEGIN_MAGIC: u64 = u64::from_le_bytes(*b"PENBEGIN");
/// Maximum bytes of a process's arguments and environment together, with the NUL of each string.
pub const ARGUMENTS: usize = 128 * 1024;
/// Maximum bytes of a [`Begin`] and everything that follows it.
pub const BEGIN_BYTES: usize = ARGUMENTS + 16 * 1024;
/// Maximum number of files passed to a new process.
pub const BEGIN_FILES: usize = 64;
/// [`BeginFile::descriptor`] of the directory that the program's path is relative to. The new
/// process does not get it. Without one, the path starts at `/`.
pub const BEGIN_DIRECTORY: u32 = u32::MAX;
/// [`BeginFile::descriptor`] of a directory that the parent may use but does not pass on. The new
/// process does not get it, but its manifest may name directories within it.
pub const BEGIN_AUTHORITY: u32 = u32::MAX - 1;
/// Maximum number of [`BeginFile`]s: files that are passed, and directories of the parent.
pub const BEGIN_RECORDS: usize = 2 * BEGIN_FILES;
/// Flag of a [`Begin`]: the parent may signal any process, so the new one may, too, if its manifest
/// says so.
pub const BEGIN_SIGNALS: u32 = 1;
/// Flag of a [`Begin`]: its directories except `/` were passed on purpose, so the program gets them
/// even if its manifest names others.
pub const BEGIN_FOLDERS: u32 = 1 << 1;
/// Flag of a [`Begin`], with [`BEGIN_FOLDERS`]: its `/` was passed on purpose, too.
pub const BEGIN_ROOT: u32 = 1 << 2;

/// Flag of a [`BeginFile`]: a preopened directory, which has a name.
pub const BEGIN_PREOPENED: u32 = 1;
/// Flag of a [`BeginFile`]: a socket.
pub const BEGIN_SOCKET: u32 = 1 << 1;
/// Flag of a [`BeginFile`]: an end of a channel.
pub const BEGIN_END: u32 = 1 << 2;

/// Flag of a [`BeginFile`], with [`BEGIN_PREOPENED`]: its name is its path from the root.
pub const BEGIN_AT_PATH: u32 = 1 << 3;

/// Flag of a [`Begin`]: the parent may reach only what its rules allow.
pub const BEGIN_NET: u32 = 1 << 3;

/// Start data of a new process. It is followed by `files` x [`BeginFile`], then the path of the
/// program, its arguments, its environment and the names of the preopened directories in the order
/// of their files, and the rules of what it may reach. Each string of the last four is NUL
/// terminated.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Begin {
    /// [`BEGIN_MAGIC`].
    pub magic: u64,
    /// Number of [`BeginFile`]s.
    pub files: u32,
    pub path: u32,
    pub arguments: u32,
    pub environment: u32,
    pub names: u32,
    /// Maximum number of descriptors; 0: as the manifest says.
    pub descriptors: u32,
    /// Maximum bytes of memory; 0: as the manifest says.
    pub memory: u64,
    /// [`BEGIN_SIGNALS`], [`BEGIN_FOLDERS`], [`BEGIN_ROOT`], [`BEGIN_NET`].
    pub flags: u32,
    /// Bytes of the parent's rules ([`crate::reach`]), which follow the names, with [`BEGIN_NET`].
    pub net: u32,
}

/// A file of a new process.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct BeginFile {
    /// Handle of the file service, or of the network service. It belongs to the parent; the new
    /// process gets a duplicate.
    pub handle: u64,
    pub rights: u64,
    /// WASI's rights of files opened through it.
    pub inheriting: u64,
    /// Its descriptor in the new process.
    pub descriptor: u32,
    /// [`BEGIN_PREOPENED`], perhaps with [`BEGIN_AT_PATH`], [`BEGIN_SOCKET`] or [`BEGIN_END`].
    pub flags: u32,
}

const _: () = assert!(size_of::<Spawn>() == 64 && size_of::<InheritedFile>() == 16);
const _: () = assert!(size_of::<Ended>() == 32 && size_of::<Identity>() == 16);
const _: () = assert!(size_of::<Begin>() == 48 && size_of::<BeginFile>() == 32);

/// `b"PENIMAGE"`, little endian.
pub const IMAGE_MAGIC: u64 = u64::from_le_bytes(*b"PENIMAGE");
/// Incremented with every change of the engine, its settings ([`engine`]) or this layout.
pub const IMAGE_VERSION: u32 = 8;
/// Directory of program images: `/bin/NAME.aarch64`, `/bin/NAME.riscv64`.
pub const FOLDER: &str = "bin";
/// Maximum size of an image in bytes.
pub const IMAGE_BYTES: u64 = 256 << 20;
/// Alignment of the code in the file.
pub const IMAGE_ALIGN: u64 = 4096;

/// Maximum bytes of all strings of the manifest together.
pub const IMAGE_STRINGS: usize = 8192;

/// Maximum number of a program's tables.
pub const MAX_TABLES: u32 = 8;
/// Maximum number of entries of all its tables.
pub const MAX_TABLE_ENTRIES: u64 = 128 * 1024;

/// Settings on which the compiler on the host and the engine in a kernel must agree. Compiled code
/// relies on page protection instead of bounds checks, so a difference would be a hole.
///
/// Both sides also fix: traps by signals, no copy-on-write memory, no concurrency support, no
/// backtrace details, atomic instructions but no shared memory, SIMD as in [`engine::has_simd`];
/// everything else is wasmtime's default. The last function of a module is not the module's own: it
/// traps at once, and a process that is killed while it computes is redirected to it.
pub mod engine {
    /// Exact version of wasmtime.
    pub const VERSION: &str = "49.0.3";
    /// Bytes of address space of a program's memory: everything that a 32-bit address reaches.
    pub const RESERVATION: u64 = 1 << 32;
    /// Unmapped bytes after [`RESERVATION`], which catch the constant offset that an instruction
    /// adds to an address.
    pub const GUARD: u64 = 32 << 20;
    /// Extra address space for a memory that grows beyond [`RESERVATION`], which none can.
    pub const GROWTH: u64 = 0;
    /// Maximum bytes of stack of a program's own frames. The kernel's frames come on top of it.
    pub const STACK: usize = 256 << 10;

    /// Returns the compiler's target for an ISA, or `None` if programs cannot run on it.
    pub const fn target(isa: u32) -> Option<&'static str> {
        match isa {
            crate::boot::isa::AARCH64 => Some("aarch64-unknown-none"),
            crate::boot::isa::RISCV64 => Some("riscv64gc-unknown-none-elf"),
            _ => None,
        }
    }

    /// Returns the extensions that code for an ISA may use, by Cranelift's names. Every RV64 domain
    /// has those for address generation, basic and single-bit manipulation, as in profile RVA22.
    pub const fn extensions(isa: u32) -> &'static [&'static str] {
        match isa {
            crate::boot::isa::RISCV64 => &["has_zba", "has_zbb", "has_zbs"],
            _ => &[],
        }
    }

    /// Returns the code that the compiler makes of a function that traps at once: a frame, and an
    /// undefined instruction. Such a function is the last one of each program. A kernel that stops
    /// a program makes it continue there, so it loads no program whose last function is another.
    pub const fn trap_at_once(isa: u32) -> &'static [u8] {
        match isa {
            // stp x29, x30, [sp, #-16]!; mov x29, sp; udf #0xc11f
            crate::boot::isa::AARCH64 => {
                &[0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0, 0x91, 0x1f, 0xc1, 0, 0]
            }
            // addi sp, sp, -16; sd ra, 8(sp); sd s0, 0(sp); mv s0, sp; unimp
            crate::boot::isa::RISCV64 => &[
                0x13, 0x01, 0x01, 0xff, 0x23, 0x34, 0x11, 0, 0x23, 0x30, 0x81, 0, 0x13, 0x04, 0x01,
                0, 0, 0, 0, 0,
            ],
            _ => &[],
        }
    }

    /// Returns whether an ISA has SIMD. Our RV64 has no vector extension, which Cranelift would
    /// need.
    pub const fn has_simd(isa: u32) -> bool {
        isa == crate::boot::isa::AARCH64
    }
}

/// Rights that a manifest grants besides files.
pub mod right {
    /// The parent's directories. Not granted by a manifest that names directories: the program has
    /// only those.
    pub const FOLDERS: u32 = 1;
    /// Signals to any process, if the parent has this right, too.
    pub const SIGNALS: u32 = 1 << 1;
    /// What the parent may reach by sockets. Not granted by a manifest with rules
    /// ([`crate::reach`]): the program has only those.
    pub const NET: u32 = 1 << 2;
    pub const ALL: u32 = FOLDERS | SIGNALS | NET;
}

/// Classes of programs: the cores that they are meant for.
pub mod class {
    /// The fast cores.
    pub const NORMAL: u32 = 1;
    /// The low-power cores.
    pub const LIGHT: u32 = 2;
}

/// The affinity of an endpoint whose contract the program itself serves: its instances start apart
/// from each other.
pub const OWN_CONTRACT: &str = "self";
/// Maximum positive affinity; negative ones have the same size.
pub const AFFINITY: i32 = 100;

/// Header of a sealed program image, which the installer makes for one ISA and seals with the
/// board's key. The strings of the manifest follow it; the engine's code is at [`ImageHead::code`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ImageHead {
    /// [`IMAGE_MAGIC`].
    pub magic: u64,
    /// [`IMAGE_VERSION`].
    pub version: u32,
    /// [`crate::boot::isa`].
    pub isa: u32,
    /// BLAKE3, keyed with the board's program key ([`crate::boot::BootSecrets`]), of everything but
    /// this field: the [`IMAGE_UNSEALED`] bytes before it, then everything after it.
    pub seal: [u8; 32],
    /// Size of the whole file in bytes.
    pub bytes: u64,
    /// Offset of the engine's code in the file.
    pub code: u64,
    /// Size of the engine's code.
    pub code_bytes: u64,
    /// Maximum memory in bytes; 0: no limit but the board's.
    pub memory: u64,
    /// [`class`].
    pub class: u8,
    /// Platforms that the kernel must have ([`crate::platform`]); older tools wrote 0.
    pub required: u8,
    /// Platforms that it prefers, packed ([`crate::platform::pack`]); older tools wrote 0.
    pub preferred: u16,
    /// Maximum descriptors; 0: the kernel's limit.
    pub files: u32,
    /// Bytes of the manifest's arguments, the first strings, each NUL terminated.
    pub arguments: u32,
    /// Bytes of its environment, which follows.
    pub environment: u32,
    /// Bytes of its preopens, which follow: `RIGHTS PATH=NAME`, each NUL terminated; rights are `r`
    /// or `rw`, after a `+` if the program gets the directory from any parent.
    pub preopens: u32,
    /// Bytes of its endpoints, which follow: `AFFINITY CONTRACT HASH`, each NUL terminated.
    /// AFFINITY is a number or [`OWN_CONTRACT`]; older tools wrote no HASH.
    pub endpoints: u32,
    /// [`right`]s.
    pub rights: u32,
    /// Limits of the tree or branch that a process of this program begins ([`crate::quota`]): most
    /// processes, and most handles; 0: the usual limit.
    pub tree_processes: u16,
    pub tree_files: u16,
    /// BLAKE3 of the .wasm file that it was made from.
    pub source: [u8; 32],
    /// Bytes of its rules of what it may reach, which follow the endpoints:
    /// [`crate::reach::Rule`]s, each NUL terminated.
    pub net: u32,
    /// Bytes of the listeners that it starts with, which follow: [`crate::reach::listener`]s, each
    /// NUL terminated.
    pub listen: u32,
}

/// Bytes of an image that precede the seal.
pub const IMAGE_UNSEALED: usize = core::mem::offset_of!(ImageHead, seal);

const _: () = assert!(IMAGE_UNSEALED == 16);
const _: () = assert!(size_of::<ImageHead>() == 152 && align_of::<ImageHead>() == 8);

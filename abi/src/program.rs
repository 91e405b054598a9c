//! Programs: how one begins, what it may call beyond WASI, and the file of compiled code that a
//! kernel loads.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the import module beside `wasi_snapshot_preview1`. All functions answer an error of
/// WASI's numbering, or 0; addresses are offsets in the program's memory.
///
/// | function | does |
/// | --- | --- |
/// | `spawn(what, pid)` | begins the program of a [`Spawn`]; its number to `pid` (u32) |
/// | `wait(pid, flags, ended)` | as `waitpid`; an [`Ended`] to `ended`. Flag 1: do not wait |
/// | `kill(pid, signal)` | a signal for a process, or (negative) for a group |
/// | `group(pid, group)` | as `setpgid` |
/// | `self(what)` | an [`Identity`] to `what` |
/// | `list(above, buffer, bytes, used)` | [`crate::process::Listed`]s of processes above a number |
/// | `pipe(ends)` | two descriptors (u32): to read, to write |
/// | `dup(descriptor, new)` | a second one of the same file (u32) |
/// | `terminal(descriptor, mode, group)` | how it is read, of [`terminal`], and whose it is |
pub const MODULE: &str = "penumbra";

/// Modes of `terminal`.
pub mod terminal {
    /// Each key comes as it is pressed, and nobody shows it but who reads it.
    pub const RAW: u32 = 1;
    /// Lines come, which were shown and could be corrected.
    pub const COOKED: u32 = 1 << 1;
    /// Ctrl-c ends processes of the group that is named; 0: nobody.
    pub const GROUP: u32 = 1 << 2;
}

/// `Spawn::kernel`: whichever its manifest, or the load, suggests.
pub const ANY_KERNEL: u32 = u32::MAX;

/// What `spawn` gets. Each (address, bytes) pair is a piece of the program's memory.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Spawn {
    /// The program: a path that `directory` leads to.
    pub path: [u32; 2],
    /// Arguments, the program's name first, each with a NUL behind it.
    pub arguments: [u32; 2],
    /// `NAME=VALUE`, each with a NUL behind it.
    pub environment: [u32; 2],
    /// [`GivenFile`]s: address and number.
    pub files: [u32; 2],
    /// Descriptor of the directory where the path begins.
    pub directory: u32,
    /// Which kernel, by its number, or [`ANY_KERNEL`].
    pub kernel: u32,
    /// Its group; 0: the caller's.
    pub group: u32,
    /// [`crate::process::flag::NEW_GROUP`].
    pub flags: u32,
    /// Most bytes of memory for it, and for each that it begins; 0: no other limit than the
    /// caller's own.
    pub memory: u64,
    /// Most descriptors, in the same way.
    pub descriptors: u32,
    /// 0.
    pub reserved: u32,
}

/// A file that `spawn` hands over.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct GivenFile {
    /// The caller's descriptor. The caller keeps it.
    pub descriptor: u32,
    /// Which one it is to be there.
    pub becomes: u32,
    /// A preopened directory of this name (address, bytes); 0 bytes: none.
    pub preopen: [u32; 2],
}

/// How a child ended.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Ended {
    /// Which; 0: none yet.
    pub pid: u32,
    /// [`crate::process::End`].
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
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
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

/// Traps, as status of a process that ended with one.
pub mod trap {
    /// Nobody knows which.
    pub const OTHER: u32 = 0;
    /// Recursion without end.
    pub const STACK: u32 = 1;
    /// A load or store outside its memory.
    pub const MEMORY: u32 = 2;
    /// An index outside a table, or an empty or wrong entry.
    pub const TABLE: u32 = 3;
    /// `unreachable`: a panic or an abort of the program.
    pub const UNREACHABLE: u32 = 4;
    /// A division by zero, or a number that does not fit.
    pub const NUMBER: u32 = 5;
    /// No memory for it any more.
    pub const NO_MEMORY: u32 = 6;
}

/// `b"PENBEGIN"`, little endian.
pub const BEGIN_MAGIC: u64 = u64::from_le_bytes(*b"PENBEGIN");
/// Most bytes of a beginning, with all that is behind its head.
pub const BEGIN_BYTES: usize = 16 * 1024;
/// Most files that are handed over at a beginning.
pub const BEGIN_FILES: usize = 64;
/// Descriptor of the directory where the path of the program begins: the new process does not get
/// that one. Without it the path begins at `/`.
pub const BEGIN_DIRECTORY: u32 = u32::MAX;
/// Flag of a beginning: who begins it may signal anybody, so it may too if its manifest says so.
pub const BEGIN_SIGNALS: u32 = 1;
/// Flag of a beginning: its directories, but for `/`, are there by somebody's wish, and so for a
/// program whose manifest names others too.
pub const BEGIN_FOLDERS: u32 = 1 << 1;

/// The head of what a new process gets. Behind it: `files` x [`BeginFile`], then the path of the
/// program, its arguments, its environment, and the names of preopened directories, in the order of
/// their files; each string of the last three with a NUL behind it.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Begin {
    /// [`BEGIN_MAGIC`].
    pub magic: u64,
    /// How many files.
    pub files: u32,
    /// Bytes of the path.
    pub path: u32,
    /// Bytes of the arguments.
    pub arguments: u32,
    /// Bytes of the environment.
    pub environment: u32,
    /// Bytes of the names of preopened directories.
    pub names: u32,
    /// Most descriptors; 0: what the manifest says.
    pub descriptors: u32,
    /// Most bytes of memory; 0: what the manifest says.
    pub memory: u64,
    /// [`BEGIN_SIGNALS`], [`BEGIN_FOLDERS`].
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

/// A file of a new process.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct BeginFile {
    /// The file service's handle, which belongs to who asked: the new process gets one of its own.
    pub handle: u64,
    /// WASI's rights.
    pub rights: u64,
    /// WASI's rights of what is opened through it.
    pub inheriting: u64,
    /// Which descriptor it is to be.
    pub descriptor: u32,
    /// 1: a preopened directory; its name is among the names.
    pub preopened: u32,
}

const _: () = assert!(size_of::<Spawn>() == 64 && size_of::<GivenFile>() == 16);
const _: () = assert!(size_of::<Ended>() == 32 && size_of::<Identity>() == 16);
const _: () = assert!(size_of::<Begin>() == 48 && size_of::<BeginFile>() == 32);

/// `b"PENIMAGE"`, little endian.
pub const IMAGE_MAGIC: u64 = u64::from_le_bytes(*b"PENIMAGE");
/// Changes with every change of the engine, its settings ([`engine`]), or this layout.
pub const IMAGE_VERSION: u32 = 4;
/// Where images of programs are: `/bin/NAME.aarch64`, `/bin/NAME.riscv64`.
pub const FOLDER: &str = "bin";
/// Most bytes of one.
pub const IMAGE_BYTES: u64 = 64 << 20;
/// Code begins at a multiple of this in the file.
pub const IMAGE_ALIGN: u64 = 4096;

/// Most bytes of the manifest's strings in one, all together.
pub const IMAGE_STRINGS: usize = 8192;

/// What the compiler on the host and the engine in a kernel must agree on, for a program's code
/// checks no address that a page of its memory does. Beside these, the same on both sides: traps by
/// signals, no copy-on-write memory, no concurrency support, no backtrace details, no threads; SIMD
/// as [`engine::has_simd`] says. All else as wasmtime has it. The last function of a module is not
/// its own: it traps at once, and who is to be stopped while it computes goes on there.
pub mod engine {
    /// Which wasmtime, to the digit.
    pub const VERSION: &str = "49.0.3";
    /// Bytes of addresses that a program's memory has: all that a 32-bit address reaches.
    pub const RESERVATION: u64 = 1 << 32;
    /// Unmapped bytes behind these, for what an instruction adds to an address.
    pub const GUARD: u64 = 32 << 20;
    /// Bytes of addresses for a memory to grow into where it outgrows [`RESERVATION`]: none does.
    pub const GROWTH: u64 = 0;
    /// Most bytes of stack that a program's own frames take; a kernel has room for its own behind.
    pub const STACK: usize = 256 << 10;

    /// The target that code for an ISA is made for; `None`: there is no code for it.
    pub const fn target(isa: u32) -> Option<&'static str> {
        match isa {
            crate::boot::isa::AARCH64 => Some("aarch64-unknown-none"),
            crate::boot::isa::RISCV64 => Some("riscv64gc-unknown-none-elf"),
            _ => None,
        }
    }

    /// What code for an ISA may use beside its base, as Cranelift calls it. Every RV64 of a board
    /// has address, basic and single-bit manipulation, as the profile RVA22 asks for.
    pub const fn extensions(isa: u32) -> &'static [&'static str] {
        match isa {
            crate::boot::isa::RISCV64 => &["has_zba", "has_zbb", "has_zbs"],
            _ => &[],
        }
    }

    /// Has an ISA vectors for SIMD? Our RV64 has none, and Cranelift would stop at them.
    pub const fn has_simd(isa: u32) -> bool {
        isa == crate::boot::isa::AARCH64
    }
}

/// What a manifest lets a program have beside its files.
pub mod right {
    /// Directories of who begins it. A manifest that names directories does not give these: those
    /// are what the program has.
    pub const FOLDERS: u32 = 1;
    /// Signals for any process, if who begins it has that too.
    pub const SIGNALS: u32 = 1 << 1;
    /// All that there are.
    pub const ALL: u32 = FOLDERS | SIGNALS;
}

/// Classes of programs.
pub mod class {
    /// For the strong cores.
    pub const NORMAL: u32 = 1;
    /// For the weak ones.
    pub const LIGHT: u32 = 2;
}

/// What a sealed image of a program begins with: what the installer made for one ISA, with the
/// board's key over all of it. The manifest's strings follow the head, the engine's code begins at
/// [`ImageHead::code`].
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
    /// BLAKE3, keyed with the board's program key ([`crate::boot::Given`]), of everything but
    /// this field: the [`IMAGE_UNSEALED`] bytes before it, then all that is behind it.
    pub seal: [u8; 32],
    /// Bytes of the whole file.
    pub bytes: u64,
    /// Where the engine's code begins.
    pub code: u64,
    /// Its bytes.
    pub code_bytes: u64,
    /// Most bytes of memory; 0: no limit but the board's.
    pub memory: u64,
    /// [`class`].
    pub class: u32,
    /// Most descriptors; 0: the kernel's limit.
    pub files: u32,
    /// Bytes of the manifest's arguments behind the head, each with a NUL.
    pub arguments: u32,
    /// Bytes of its environment, behind them.
    pub environment: u32,
    /// Bytes of its preopens behind those: `RIGHTS PATH=NAME` each with a NUL, rights `r` or `rw`.
    pub preopens: u32,
    /// Bytes of its endpoints behind those: `AFFINITY CONTRACT` each with a NUL.
    pub endpoints: u32,
    /// [`right`]s.
    pub rights: u32,
    /// 0.
    pub reserved: u32,
    /// BLAKE3 of the .wasm it was made of.
    pub source: [u8; 32],
}

/// Bytes of an image before its seal.
pub const IMAGE_UNSEALED: usize = core::mem::offset_of!(ImageHead, seal);

const _: () = assert!(IMAGE_UNSEALED == 16);
const _: () = assert!(size_of::<ImageHead>() == 144 && align_of::<ImageHead>() == 8);

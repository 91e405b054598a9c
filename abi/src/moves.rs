//! Programs that move to another kernel while they run (docs/design/moves.md): what the installer
//! adds to their modules, and how a process passes from one kernel to the other.
//!
//! ```text
//!   start data  Departed: the image, and the frames of a book ([`crate::light`])
//!   memory of   the program's memory, as far as it was used; then, on a page of its own, the rest:
//!   the book      Rest, globals (u64), Images, Kin, arguments, environment, rules, descriptors
//! ```

use crate::light::BOOK_PAGES;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The function of [`crate::program::MODULE`] that loops call now and then: the program may move
/// there, as in any function of the kernel. It does nothing else.
pub const POINT: &str = "move_point";

/// Names under which a module exports its globals that change, each followed by a number.
pub const EXPORTED_GLOBAL: &str = "penumbra.global.";

/// The functions that Asyncify exports.
pub mod asyncify {
    pub const START_UNWIND: &str = "asyncify_start_unwind";
    pub const STOP_UNWIND: &str = "asyncify_stop_unwind";
    pub const START_REWIND: &str = "asyncify_start_rewind";
    pub const STOP_REWIND: &str = "asyncify_stop_rewind";
    pub const ALL: [&str; 4] = [START_UNWIND, STOP_UNWIND, START_REWIND, STOP_REWIND];
}

/// Bytes at the start of the area into which a program unwinds its stack: where the frames end, and
/// where the area does.
pub const AREA_HEAD: u32 = 8;
/// Bytes of the area for each byte that the native stack has. A frame there has all locals of a
/// function; a native one those that its registers do not hold.
pub const SPARE: u64 = 4;

/// `b"PENMOVED"`, little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"PENMOVED");

/// Start data of a process that comes from another kernel.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Departed {
    /// [`MAGIC`].
    pub magic: u64,
    /// Handle of an open file: the program for the new kernel's ISA.
    pub image: u64,
    /// Size of the program's memory in bytes.
    pub memory: u64,
    /// Bytes of the rest.
    pub rest: u64,
    /// Limit of the program's memory.
    pub limit: u64,
    /// Limit of descriptors.
    pub descriptors: u32,
    /// The kernel that it comes from, and its epoch.
    pub kernel: u16,
    pub epoch: u16,
    /// Frames of the book's first pages.
    pub book: [u32; BOOK_PAGES],
    /// What the program was made from, so that both kernels run the same one.
    pub source: [u8; 32],
    pub name: [u8; 32],
}

/// What a process has besides its memory.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Rest {
    /// CPU time so far in ns, peak memory in bytes, and requests to services.
    pub cpu: u64,
    pub peak: u64,
    pub messages: u64,
    /// When the call began that it waits in, in chip time.
    pub called: u64,
    /// Limits of processes that it starts.
    pub memory: u64,
    pub descriptors: u32,
    /// What it may do: [`crate::program::BEGIN_SIGNALS`], [`crate::program::BEGIN_NET`].
    pub rights: u32,
    /// The area with its stack.
    pub area: [u32; 2],
    /// Numbers of globals, [`Image`]s and [`Kin`].
    pub globals: u32,
    pub images: u32,
    pub children: u32,
    /// Bytes of arguments, environment, rules of what it may reach ([`crate::reach`]), and
    /// descriptors.
    pub arguments: u32,
    pub environment: u32,
    pub net: u32,
    pub table: u32,
    /// 0.
    pub reserved: u32,
}

/// An open file with the program for an ISA.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Image {
    pub handle: u64,
    /// [`crate::boot::isa`].
    pub isa: u32,
    /// 0.
    pub reserved: u32,
}

/// A child that it has not waited for.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Kin {
    pub pid: u32,
    pub group: u32,
    pub kernel: u32,
    pub epoch: u32,
}

const _: () = assert!(size_of::<Departed>() == 128 && size_of::<Rest>() == 88);
const _: () = assert!(size_of::<Image>() == 16 && size_of::<Kin>() == 16);

//! What the host may ask of a running board, over a stream of [`crate::vsock`] to [`PORT`].
//!
//! Frames go both ways: [`Frame`], then that many bytes. The host asks first, one thing a stream:
//!
//! | host | | board |
//! | --- | --- | --- |
//! | Push, the path; Data ...; End | a file goes in, whole or not at all | Done, or Failed: why |
//! | Pull, the path | a file comes out | Data ..., End; or Failed: why |
//! | Exec, [`Exec`] and what is behind it | a program runs | Out, Err ..., Exit; or Failed: why |
//! | Folder, its name; Said ... | the host serves a folder | Done, its number; Job ... |
//! | Settle | what was written gets to the disks | Done, or Failed: why |
//!
//! While a program runs the host sends Data for its input, End behind the last of it, and Signal.
//! Before Exec it may say which folders the program gets: Given, the number of one, each. A folder
//! is there as long as its own stream; what it is asked are jobs of [`crate::served`].

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the board listens.
pub const PORT: u32 = 1;
/// Most bytes of a frame.
pub const LARGEST: usize = 4096;

crate::codes::codes! {
    /// What a frame is.
    Kind {
        /// The path of a file that comes.
        Push = 1,
        /// The path of a file that is wanted.
        Pull = 2,
        /// Bytes of a file.
        Data = 3,
        /// That was all of it.
        End = 4,
        /// It is done.
        Done = 5,
        /// It is not: why, for people.
        Failed = 6,
        /// A program is to run: an [`Exec`], and its strings.
        Exec = 7,
        /// Bytes that it wrote to its output.
        Out = 8,
        /// Bytes that it wrote to its errors.
        Err = 9,
        /// Its end: an [`Exit`].
        Exit = 10,
        /// A signal for it: its number, 4 bytes.
        Signal = 11,
        /// The host serves a folder: the path by which programs know it.
        Folder = 12,
        /// What is to be done with it: [`FolderJob`], and what is behind it.
        Job = 13,
        /// What became of one: [`FolderSaid`], and bytes.
        Said = 14,
        /// Before Exec: a folder that the program gets, by its number, 4 bytes.
        Given = 15,
        /// Whatever was written is to be on the disks.
        Settle = 16,
    }
}

/// What a frame of kind [`Kind::Exec`] begins with. Behind it: the path of the program, its
/// arguments and its environment, each string of these with a NUL behind it.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct Exec {
    /// Which kernel by its number, or [`crate::program::ANY_KERNEL`].
    pub kernel: U32,
    /// Bytes of the path.
    pub path: U32,
    /// Bytes of the arguments.
    pub arguments: U32,
    /// Bytes of the environment.
    pub environment: U32,
}

/// How a program ended.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct Exit {
    /// [`crate::process::End`].
    pub kind: U32,
    /// Exit code, signal, trap.
    pub status: U32,
}

/// What each frame begins with.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct Frame {
    /// A [`Kind`].
    pub kind: U32,
    /// Bytes behind.
    pub bytes: U32,
}

/// Most folders of a program.
pub const FOLDERS: usize = 8;

/// What is to be done with a folder. Behind it: a [`crate::served::Job`], what is behind that.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct FolderJob {
    /// To answer with.
    pub number: U64,
}

/// What became of it. Behind it: bytes.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct FolderSaid {
    /// The job's.
    pub number: U64,
    /// The job's number in its answer.
    pub value: U64,
    /// [`crate::fs::Errno`].
    pub error: U32,
}

const _: () = assert!(size_of::<FolderJob>() == 8 && size_of::<FolderSaid>() == 20);
const _: () = assert!(size_of::<FolderJob>() + crate::served::ROOM <= LARGEST);
const _: () = assert!(size_of::<Frame>() == 8 && size_of::<Exec>() == 16 && size_of::<Exit>() == 8);

impl Frame {
    /// The head of a frame of `bytes` bytes, [`LARGEST`] at most.
    pub fn new(kind: Kind, bytes: usize) -> Frame {
        Frame { kind: (kind as u32).into(), bytes: (bytes as u32).into() }
    }

    /// What it is and how many bytes are behind; `None`: nothing that anybody of us sends.
    pub fn parse(&self) -> Option<(Kind, usize)> {
        let kind = Kind::from_code(u16::try_from(self.kind.get()).ok()?)?;
        let bytes = self.bytes.get() as usize;
        (bytes <= LARGEST).then_some((kind, bytes))
    }
}

//! Services of a running board for the host, on a [`crate::vsock`] stream to [`PORT`].
//!
//! Both sides send frames: a [`Frame`] header, then its bytes. The host sends the first one; a
//! stream carries one operation:
//!
//! | host | operation | board |
//! | --- | --- | --- |
//! | Push, the path; Data ...; End | store a file, all or nothing | Done, or Failed: why |
//! | Pull, the path | fetch a file | Data ..., End; or Failed: why |
//! | Exec, [`Exec`] and its strings | run a program | Out, Err ..., Exit; or Failed: why |
//! | Folder, its name; JobReply ... | the host serves a folder | Done, its number; Job ... |
//! | Sync | flush all writes to the disks | Done, or Failed: why |
//! | Move, a [`Move`] | move a running process to a kernel | Done, or Failed: why |
//! | MoveService, a [`MoveService`], a name | move a service to a kernel | Done, or Failed: why |
//! | Place, the path of a program | explain where it would start | Data ..., End; or Failed: why |
//!
//! Strings that do not fit into the frame of Exec follow in frames of Data. While a program runs,
//! the host sends Data for its standard input, End at the end of it, and Signal.
//!
//! Before Exec it may send, in any order:
//! - UseFolder with the number of a folder that the program gets. A folder exists as long as its
//!   own stream; requests to it are jobs of [`crate::served`].
//! - Image with the name of an ISA; Data ...; End: the program itself, for kernels of that ISA. An
//!   Exec without a path runs it. The board keeps it in a temporary file until the program runs.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Port on which the board listens.
pub const PORT: u32 = 1;
/// Maximum bytes of a frame after its header.
pub const LARGEST: usize = 4096;

crate::codes::codes! {
    Kind {
        /// Path of a file to store.
        Push = 1,
        /// Path of a file to fetch.
        Pull = 2,
        /// Contents of a file, or standard input.
        Data = 3,
        /// End of the data. In the answer to Place: the name of the kernel, or nothing if the
        /// program cannot start.
        End = 4,
        /// The operation succeeded.
        Done = 5,
        /// The operation failed: a message for people.
        Failed = 6,
        /// Run a program: an [`Exec`] and its strings.
        Exec = 7,
        /// Standard output of the program.
        Out = 8,
        /// Standard error of the program.
        Err = 9,
        /// The program has ended: an [`Exit`].
        Exit = 10,
        /// Signal the program: the number of the signal, 4 bytes.
        Signal = 11,
        /// Serve a folder: the path under which programs see it.
        Folder = 12,
        /// A job for the host: [`FolderJob`] and what follows it.
        Job = 13,
        /// Result of a job: [`FolderReply`] and its bytes.
        JobReply = 14,
        /// Before Exec: number of a folder that the program gets, 4 bytes.
        UseFolder = 15,
        /// Flush all writes to the disks.
        Sync = 16,
        /// Before Exec: name of the ISA of an image that follows.
        Image = 17,
        /// As Failed, because a file system is full: the message says which one, and how full.
        Full = 18,
        /// Before Exit of a program that failed, if the root file system is full: the message says
        /// how full.
        RootFull = 19,
        /// Move a process: a [`Move`].
        Move = 20,
        /// Where a program would start, and why: its path. Nothing is started.
        Place = 21,
        /// Move a shadowed service: a [`MoveService`] and the service's name.
        MoveService = 22,
    }
}

/// Start of an [`Kind::Exec`] frame. The path of the program, its arguments and its environment
/// follow; each argument and variable is NUL terminated.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct Exec {
    /// Index of the kernel, or [`crate::program::ANY_KERNEL`].
    pub kernel: U32,
    /// Length of the path; 0: the images that were sent before.
    pub path: U32,
    pub arguments: U32,
    pub environment: U32,
}

/// Contents of an [`Kind::Exit`] frame: how a program ended.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct Exit {
    /// [`crate::process::End`].
    pub kind: U32,
    /// Exit code, signal or trap.
    pub status: U32,
}

/// Contents of a [`Kind::Move`] frame.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct Move {
    pub pid: U32,
    /// Index of the kernel.
    pub kernel: U32,
}

/// Start of a [`Kind::MoveService`] frame.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct MoveService {
    /// Index of the kernel that is to execute it, or [`crate::program::ANY_KERNEL`]: each kernel
    /// executes its own requests.
    pub kernel: U32,
}

/// Header of a frame.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct Frame {
    /// A [`Kind`].
    pub kind: U32,
    /// Bytes that follow.
    pub bytes: U32,
}

/// Maximum folders of a program.
pub const FOLDERS: usize = 8;

/// Start of a [`Kind::Job`] frame. A [`crate::served::Job`] and what belongs to it follow.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct FolderJob {
    /// Number to return with the result.
    pub number: U64,
}

/// Start of a [`Kind::JobReply`] frame. The bytes of the result follow.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
pub struct FolderReply {
    /// Number of the job.
    pub number: U64,
    /// The number in the result.
    pub value: U64,
    /// [`crate::fs::Errno`].
    pub error: U32,
}

const _: () = assert!(size_of::<FolderJob>() == 8 && size_of::<FolderReply>() == 20);
const _: () = assert!(size_of::<FolderJob>() + crate::served::ROOM <= LARGEST);
const _: () = assert!(size_of::<Frame>() == 8 && size_of::<Exec>() == 16 && size_of::<Exit>() == 8);

impl Frame {
    /// `bytes` is at most [`LARGEST`].
    pub fn new(kind: Kind, bytes: usize) -> Frame {
        Frame { kind: (kind as u32).into(), bytes: (bytes as u32).into() }
    }

    /// Returns the kind and the number of bytes that follow, or `None` if the header is invalid.
    pub fn parse(&self) -> Option<(Kind, usize)> {
        let kind = Kind::from_code(u16::try_from(self.kind.get()).ok()?)?;
        let bytes = self.bytes.get() as usize;
        (bytes <= LARGEST).then_some((kind, bytes))
    }
}

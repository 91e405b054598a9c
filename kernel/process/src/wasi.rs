//! Constants of WASI preview 1.

/// Rights of descriptors, with the functions that need them.
pub mod rights {
    macro_rules! bits {
        ($($(#[$doc:meta])* $name:ident = $bit:literal,)*) => {
            $($(#[$doc])* pub const $name: u64 = 1 << $bit;)*
            pub const ALL: u64 = 0 $(| 1 << $bit)*;
        };
    }

    bits! {
        /// `fd_datasync`; `path_open` with DSYNC.
        FD_DATASYNC = 0,
        /// `fd_read`, `sock_recv`; with FD_SEEK `fd_pread`.
        FD_READ = 1,
        /// `fd_seek`; it implies FD_TELL.
        FD_SEEK = 2,
        /// `fd_fdstat_set_flags`.
        FD_FDSTAT_SET_FLAGS = 3,
        /// `fd_sync`; `path_open` with RSYNC or SYNC.
        FD_SYNC = 4,
        /// `fd_tell`, and `fd_seek` that moves nothing.
        FD_TELL = 5,
        /// `fd_write`, `sock_send`; with FD_SEEK `fd_pwrite`.
        FD_WRITE = 6,
        /// `fd_advise`.
        FD_ADVISE = 7,
        /// `fd_allocate`.
        FD_ALLOCATE = 8,
        /// `path_create_directory`.
        PATH_CREATE_DIRECTORY = 9,
        /// `path_open` with CREAT.
        PATH_CREATE_FILE = 10,
        /// `path_link`, source directory.
        PATH_LINK_SOURCE = 11,
        /// `path_link`, target directory.
        PATH_LINK_TARGET = 12,
        /// `path_open`.
        PATH_OPEN = 13,
        /// `fd_readdir`.
        FD_READDIR = 14,
        /// `path_readlink`.
        PATH_READLINK = 15,
        /// `path_rename`, source directory.
        PATH_RENAME_SOURCE = 16,
        /// `path_rename`, target directory.
        PATH_RENAME_TARGET = 17,
        /// `path_filestat_get`.
        PATH_FILESTAT_GET = 18,
        /// `path_open` with TRUNC.
        PATH_FILESTAT_SET_SIZE = 19,
        /// `path_filestat_set_times`.
        PATH_FILESTAT_SET_TIMES = 20,
        /// `fd_filestat_get`.
        FD_FILESTAT_GET = 21,
        /// `fd_filestat_set_size`.
        FD_FILESTAT_SET_SIZE = 22,
        /// `fd_filestat_set_times`.
        FD_FILESTAT_SET_TIMES = 23,
        /// `path_symlink`.
        PATH_SYMLINK = 24,
        /// `path_remove_directory`.
        PATH_REMOVE_DIRECTORY = 25,
        /// `path_unlink_file`.
        PATH_UNLINK_FILE = 26,
        /// `poll_oneoff`, with FD_READ or FD_WRITE.
        POLL_FD_READWRITE = 27,
        /// `sock_shutdown`.
        SOCK_SHUTDOWN = 28,
        /// `sock_accept`.
        SOCK_ACCEPT = 29,
    }

    /// Rights that apply to a directory itself.
    pub const DIRECTORY: u64 = PATH_CREATE_DIRECTORY
        | PATH_CREATE_FILE
        | PATH_LINK_SOURCE
        | PATH_LINK_TARGET
        | PATH_OPEN
        | FD_READDIR
        | PATH_READLINK
        | PATH_RENAME_SOURCE
        | PATH_RENAME_TARGET
        | PATH_FILESTAT_GET
        | PATH_FILESTAT_SET_SIZE
        | PATH_FILESTAT_SET_TIMES
        | PATH_SYMLINK
        | PATH_REMOVE_DIRECTORY
        | PATH_UNLINK_FILE
        | FD_FILESTAT_GET
        | FD_FILESTAT_SET_TIMES
        | FD_FDSTAT_SET_FLAGS
        | FD_DATASYNC
        | FD_SYNC;
    /// Rights that apply to a stream (a pipe or a terminal). It lacks FD_SEEK and FD_TELL, by which
    /// the C library recognises a terminal.
    pub const STREAM: u64 = FD_READ
        | FD_WRITE
        | FD_FDSTAT_SET_FLAGS
        | FD_DATASYNC
        | FD_SYNC
        | FD_FILESTAT_GET
        | FD_FILESTAT_SET_TIMES
        | POLL_FD_READWRITE;
    /// Rights that apply to a socket.
    pub const SOCKET: u64 = FD_READ
        | FD_WRITE
        | FD_FDSTAT_SET_FLAGS
        | FD_FILESTAT_GET
        | POLL_FD_READWRITE
        | SOCK_SHUTDOWN
        | SOCK_ACCEPT;
    /// Rights that apply to an end of a channel.
    pub const END: u64 = FD_READ | FD_WRITE | FD_FILESTAT_GET | POLL_FD_READWRITE;
    /// Rights that apply to a file.
    pub const FILE: u64 =
        STREAM | FD_SEEK | FD_TELL | FD_ADVISE | FD_ALLOCATE | FD_FILESTAT_SET_SIZE;
    /// Rights that apply to files opened through a directory.
    pub const INHERITING: u64 = DIRECTORY | FILE;

    /// Rights that change nothing, for a directory that is passed on read-only.
    pub const READ_ONLY: u64 = INHERITING
        & !(FD_WRITE
            | FD_ALLOCATE
            | FD_FILESTAT_SET_SIZE
            | FD_FILESTAT_SET_TIMES
            | PATH_CREATE_DIRECTORY
            | PATH_CREATE_FILE
            | PATH_LINK_SOURCE
            | PATH_LINK_TARGET
            | PATH_RENAME_SOURCE
            | PATH_RENAME_TARGET
            | PATH_FILESTAT_SET_SIZE
            | PATH_FILESTAT_SET_TIMES
            | PATH_SYMLINK
            | PATH_REMOVE_DIRECTORY
            | PATH_UNLINK_FILE);

    /// Returns the maximum rights of a descriptor of this kind, and of files opened through it.
    pub const fn of_kind(kind: u8) -> (u64, u64) {
        match kind {
            super::filetype::DIRECTORY => (DIRECTORY, INHERITING),
            super::filetype::FILE | super::filetype::BLOCK => (FILE, 0),
            _ => (STREAM, 0),
        }
    }
}

/// File types; `abi::fs::kind` has the same numbers.
pub mod filetype {
    pub const BLOCK: u8 = 1;
    pub const CHARACTER: u8 = 2;
    pub const DIRECTORY: u8 = abi::fs::kind::DIRECTORY;
    pub const FILE: u8 = abi::fs::kind::FILE;
    /// A socket for datagrams.
    pub const DATAGRAMS: u8 = 5;
    /// A socket for streams, or a pipe.
    pub const STREAM: u8 = abi::fs::kind::PIPE;
}

pub mod fdflags {
    /// Each write appends.
    pub const APPEND: u16 = 1;
    /// Writes return when the data are durable.
    pub const DSYNC: u16 = 1 << 1;
    /// Operations do not wait.
    pub const NONBLOCK: u16 = 1 << 2;
    /// Reads return when the data read are durable, as with DSYNC or SYNC.
    pub const RSYNC: u16 = 1 << 3;
    /// Writes return when data and metadata are durable.
    pub const SYNC: u16 = 1 << 4;
    pub const ALL: u32 = 31;
    /// Flags that this crate implements; the file service implements the others.
    pub const SYNCS: u16 = DSYNC | RSYNC | SYNC;
}

pub mod oflags {
    /// Create the file if it does not exist.
    pub const CREAT: u32 = 1;
    /// Fail if it is not a directory.
    pub const DIRECTORY: u32 = 1 << 1;
    /// Fail if it exists.
    pub const EXCL: u32 = 1 << 2;
    /// Discard the contents.
    pub const TRUNC: u32 = 1 << 3;
    pub const ALL: u32 = 15;
}

/// Flags of functions that set times; `abi::fs::flag` has the same numbers.
pub mod fstflags {
    pub const ALL: u32 = 15;
}

pub mod lookupflags {
    /// Follow a symbolic link at the end of the path.
    pub const SYMLINK_FOLLOW: u32 = 1;
}

/// Origin of `fd_seek`.
pub mod whence {
    pub const SET: u32 = 0;
    pub const CUR: u32 = 1;
    pub const END: u32 = 2;
}

/// Highest advice of `fd_advise`.
pub const LAST_ADVICE: u32 = 5;

pub mod clock {
    pub const REALTIME: u32 = 0;
    /// It never goes back.
    pub const MONOTONIC: u32 = 1;
    /// CPU time of the process.
    pub const PROCESS: u32 = 2;
    /// CPU time of the thread.
    pub const THREAD: u32 = 3;
}

pub mod event {
    pub const CLOCK: u8 = 0;
    pub const FD_READ: u8 = 1;
    pub const FD_WRITE: u8 = 2;
    /// Ours: both directions of a stream socket have ended. Other descriptors never have.
    pub const FD_HANGUP: u8 = 3;
    /// Of a clock: the timeout is absolute.
    pub const ABSTIME: u16 = 1;
    /// Of a descriptor: the other end is closed.
    pub const HANGUP: u16 = 1;
    /// Bytes of a subscription.
    pub const SUBSCRIPTION: u32 = 48;
    /// Bytes of an event.
    pub const EVENT: u32 = 32;
}

/// Flags of `sock_recv`.
pub mod riflags {
    /// Leave the data in the socket.
    pub const PEEK: u32 = 1;
    /// Wait until the buffers are full.
    pub const WAITALL: u32 = 1 << 1;
    pub const ALL: u32 = PEEK | WAITALL;
    /// Of the result: the datagram was longer than the buffers.
    pub const TRUNCATED: u16 = 1;
}

/// Bytes of an `iovec`.
pub const IOVEC: u32 = 8;
/// Maximum entries in a list of them.
pub const IOVECS: u32 = 1024;

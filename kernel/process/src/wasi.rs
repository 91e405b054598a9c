//! Numbers of WASI preview 1.

/// What a descriptor may be used for.
pub mod rights {
    macro_rules! bits {
        ($($(#[$doc:meta])* $name:ident = $bit:literal,)*) => {
            $($(#[$doc])* pub const $name: u64 = 1 << $bit;)*
            /// All that there are.
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
        /// `fd_sync`; `path_open` with RSYNC and SYNC.
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
        /// `path_link` from here.
        PATH_LINK_SOURCE = 11,
        /// `path_link` to here.
        PATH_LINK_TARGET = 12,
        /// `path_open`.
        PATH_OPEN = 13,
        /// `fd_readdir`.
        FD_READDIR = 14,
        /// `path_readlink`.
        PATH_READLINK = 15,
        /// `path_rename` from here.
        PATH_RENAME_SOURCE = 16,
        /// `path_rename` to here.
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

    /// All that makes sense for a directory itself.
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
    /// All that makes sense for a stream: a pipe, a terminal. Without FD_SEEK and FD_TELL: that is
    /// how the C library knows a terminal.
    pub const STREAM: u64 = FD_READ
        | FD_WRITE
        | FD_FDSTAT_SET_FLAGS
        | FD_DATASYNC
        | FD_SYNC
        | FD_FILESTAT_GET
        | FD_FILESTAT_SET_TIMES
        | POLL_FD_READWRITE;
    /// All that makes sense for a file.
    pub const FILE: u64 =
        STREAM | FD_SEEK | FD_TELL | FD_ADVISE | FD_ALLOCATE | FD_FILESTAT_SET_SIZE;
    /// All that makes sense for what is opened through a directory.
    pub const INHERITING: u64 = DIRECTORY | FILE;

    /// What of `rights` changes nothing: for a directory that is handed over to be read only.
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

    /// What is possible with something of this kind: itself, and what is opened through it.
    pub const fn of_kind(kind: u8) -> (u64, u64) {
        match kind {
            super::filetype::DIRECTORY => (DIRECTORY, INHERITING),
            super::filetype::FILE | super::filetype::BLOCK => (FILE, 0),
            _ => (STREAM, 0),
        }
    }
}

/// Kinds of files; `abi::fs::kind` has the same numbers.
pub mod filetype {
    /// A block device.
    pub const BLOCK: u8 = 1;
    /// A character device.
    pub const CHARACTER: u8 = 2;
    /// A directory.
    pub const DIRECTORY: u8 = abi::fs::kind::DIRECTORY;
    /// A file.
    pub const FILE: u8 = abi::fs::kind::FILE;
}

/// Flags of descriptors.
pub mod fdflags {
    /// Writes go to the end.
    pub const APPEND: u16 = 1;
    /// Writes end when the data is durable.
    pub const DSYNC: u16 = 1 << 1;
    /// Nothing waits.
    pub const NONBLOCK: u16 = 1 << 2;
    /// Reads end when what they read is durable, as DSYNC or SYNC say it.
    pub const RSYNC: u16 = 1 << 3;
    /// Writes end when the data and all about it are durable.
    pub const SYNC: u16 = 1 << 4;
    /// All of them.
    pub const ALL: u32 = 31;
    /// Those that this crate sees to; the file service does the others.
    pub const SYNCS: u16 = DSYNC | RSYNC | SYNC;
}

/// Flags of `path_open`.
pub mod oflags {
    /// Create the file if there is none.
    pub const CREAT: u32 = 1;
    /// Refuse what is no directory.
    pub const DIRECTORY: u32 = 1 << 1;
    /// Refuse what is there.
    pub const EXCL: u32 = 1 << 2;
    /// Drop what is in it.
    pub const TRUNC: u32 = 1 << 3;
    /// All of them.
    pub const ALL: u32 = 15;
}

/// Flags of times; `abi::fs::flag` has the same numbers.
pub mod fstflags {
    /// All of them.
    pub const ALL: u32 = 15;
}

/// Flags of paths.
pub mod lookupflags {
    /// A symbolic link at the end is followed.
    pub const SYMLINK_FOLLOW: u32 = 1;
}

/// From where `fd_seek` counts.
pub mod whence {
    /// The beginning.
    pub const SET: u32 = 0;
    /// The position.
    pub const CUR: u32 = 1;
    /// The end.
    pub const END: u32 = 2;
}

/// The last of the pieces of advice of `fd_advise`.
pub const LAST_ADVICE: u32 = 5;

/// Clocks.
pub mod clock {
    /// The time of day.
    pub const REALTIME: u32 = 0;
    /// It never goes back.
    pub const MONOTONIC: u32 = 1;
    /// What the process has used of its core.
    pub const PROCESS: u32 = 2;
    /// What the thread has used, the only one.
    pub const THREAD: u32 = 3;
}

/// Events of `poll_oneoff`.
pub mod event {
    /// A time came.
    pub const CLOCK: u8 = 0;
    /// A read would not wait.
    pub const FD_READ: u8 = 1;
    /// A write would not wait.
    pub const FD_WRITE: u8 = 2;
    /// Clock: the timeout is a time, not a distance.
    pub const ABSTIME: u16 = 1;
    /// Read, write: the other side is gone.
    pub const HANGUP: u16 = 1;
    /// Bytes of a subscription.
    pub const SUBSCRIPTION: u32 = 48;
    /// Bytes of an event.
    pub const EVENT: u32 = 32;
}

/// Bytes of an entry of a scatter or gather list.
pub const IOVEC: u32 = 8;
/// Most entries of such a list.
pub const IOVECS: u32 = 1024;

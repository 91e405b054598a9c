//! Error numbers of WASI preview 1, and the results of functions.
//!
//! A [`Halt`] is an error that the program sees, or the end of the program. Engines convert the
//! result of a function with [`outcome`].

/// An error number as programs see it; 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u16);

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        impl Errno {
            $($(#[$doc])* pub const $name: Errno = Errno($number);)*
        }
    };
}

numbers! {
    TOOBIG = 1,
    ACCES = 2,
    /// There is nothing to receive now.
    AGAIN = 6,
    /// No such family of addresses.
    AFNOSUPPORT = 5,
    /// It is used already.
    BUSY = 10,
    /// No such descriptor, or it does not support the operation.
    BADF = 8,
    /// The peer has reset the connection.
    CONNRESET = 15,
    FAULT = 21,
    /// Larger than the largest file.
    FBIG = 22,
    /// Not UTF-8.
    ILSEQ = 25,
    /// The call was interrupted.
    INTR = 27,
    /// The argument is invalid.
    INVAL = 28,
    IO = 29,
    ISDIR = 31,
    /// A carried end is not of a lower level than its channel.
    LOOP = 32,
    /// The descriptor table is full.
    MFILE = 33,
    /// A carried end has several descriptors.
    MLINK = 34,
    /// The room is too small for the message.
    MSGSIZE = 35,
    NAMETOOLONG = 37,
    /// The process tree has as many files as its quota allows, or there are no more.
    NFILE = 41,
    /// There is no room for more ends on the receiver's kernel.
    NOBUFS = 42,
    /// Out of memory.
    NOMEM = 48,
    /// No room for another one.
    NOSPC = 51,
    NOSYS = 52,
    /// The process has not said by which contract it uses the end.
    NOTCONN = 53,
    NOTDIR = 54,
    NOTSOCK = 57,
    /// The operation is not supported.
    NOTSUP = 58,
    /// A name of the system, which leads to no door.
    NXIO = 60,
    PERM = 63,
    /// The other side has closed the channel.
    PIPE = 64,
    /// The contract does not allow the message.
    PROTO = 65,
    /// No such kind of socket.
    PROTONOSUPPORT = 66,
    /// The end is of another contract, or of its other side.
    PROTOTYPE = 67,
    SPIPE = 70,
    /// From before a restart of the service.
    STALE = 72,
    /// A right is missing, or a path leaves its directory.
    NOTCAPABLE = 76,
}

impl From<abi::fs::Errno> for Errno {
    fn from(error: abi::fs::Errno) -> Errno {
        Errno(error.wasi())
    }
}

impl From<abi::net::Errno> for Errno {
    fn from(error: abi::net::Errno) -> Errno {
        Errno(error.wasi())
    }
}

impl From<abi::names::Errno> for Errno {
    fn from(error: abi::names::Errno) -> Errno {
        Errno(error.wasi())
    }
}

impl From<abi::process::Errno> for Errno {
    fn from(error: abi::process::Errno) -> Errno {
        Errno(error.wasi())
    }
}

impl Errno {
    /// Returns the kernel's answer to the process table for a process that could not start.
    pub fn to_table(self) -> abi::process::Errno {
        use abi::process::Errno as Theirs;
        if self.0 == Theirs::Restarted.wasi() {
            return Theirs::Restarted;
        }
        Theirs::from_code(self.0).unwrap_or(Theirs::Io)
    }
}

/// The process must end: a signal came while it waited. Or it is to move to another kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It called `proc_exit` with this exit code.
    Exit(u32),
    /// It sent itself this signal.
    Signal(u16),
    /// It must end, because a signal came while it waited; the kernel knows the signal. Or it is to
    /// move to another kernel.
    Interrupted,
}

/// Reason why a function did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The program sees this error.
    Failed(Errno),
    /// The program ends.
    Stop(Stop),
}

impl Halt {
    /// Returns the error number, with that of an interrupted call for the end of the program.
    pub fn errno(self) -> Errno {
        match self {
            Halt::Failed(error) => error,
            Halt::Stop(_) => Errno::INTR,
        }
    }
}

impl From<Errno> for Halt {
    fn from(error: Errno) -> Halt {
        Halt::Failed(error)
    }
}

impl From<Interrupted> for Halt {
    fn from(_: Interrupted) -> Halt {
        Halt::Stop(Stop::Interrupted)
    }
}

/// Result of every function.
pub type Done = Result<(), Halt>;

/// Returns the error number that the program sees, or how the program ends.
#[inline]
pub fn outcome(done: Done) -> Result<u16, Stop> {
    match done {
        Ok(()) => Ok(0),
        Err(Halt::Failed(error)) => Ok(error.0),
        Err(Halt::Stop(stop)) => Err(stop),
    }
}

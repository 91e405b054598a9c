//! Error numbers of WASI preview 1, and how a function may end.
//!
//! Contract: a [`Halt`] is either an error that the program sees or the end of the program. An
//! engine turns what a function gave into what the program gets with [`outcome`].

/// A number that a program sees; 0: well.
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
    /// Too long a list.
    TOOBIG = 1,
    /// No such descriptor, or not for this.
    BADF = 8,
    /// An address outside the program's memory.
    FAULT = 21,
    /// A number too large for a file.
    FBIG = 22,
    /// No text in UTF-8.
    ILSEQ = 25,
    /// It makes no sense.
    INVAL = 28,
    /// What should not happen did.
    IO = 29,
    /// A directory.
    ISDIR = 31,
    /// All descriptors are taken.
    MFILE = 33,
    /// Too long a name.
    NAMETOOLONG = 37,
    /// No memory.
    NOMEM = 48,
    /// No such function.
    NOSYS = 52,
    /// No directory.
    NOTDIR = 54,
    /// No socket.
    NOTSOCK = 57,
    /// Not with this.
    NOTSUP = 58,
    /// Not allowed.
    PERM = 63,
    /// A stream has no positions.
    SPIPE = 70,
    /// The rights do not suffice, or a path leaves its directory.
    NOTCAPABLE = 76,
}

impl From<abi::fs::Errno> for Errno {
    fn from(error: abi::fs::Errno) -> Errno {
        Errno(error.wasi())
    }
}

impl From<abi::process::Errno> for Errno {
    fn from(error: abi::process::Errno) -> Errno {
        Errno(error.wasi())
    }
}

impl Errno {
    /// What a kernel answers the process table with when a process could not begin.
    pub fn to_table(self) -> abi::process::Errno {
        use abi::process::Errno as Theirs;
        if self.0 == Theirs::Restarted.wasi() {
            return Theirs::Restarted;
        }
        Theirs::from_code(self.0).unwrap_or(Theirs::Io)
    }
}

/// The process was told to end while it waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// The program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It said so, with this exit code.
    Exit(u32),
    /// It sent itself this signal.
    Signal(u16),
    /// It was told to while it waited; who told knows why.
    Interrupted,
}

/// Why a function did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The program sees this.
    Failed(Errno),
    /// The program sees nothing any more.
    Stop(Stop),
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

/// What every function gives.
pub type Done = Result<(), Halt>;

/// The number that the program gets, or its end.
#[inline]
pub fn outcome(done: Done) -> Result<u16, Stop> {
    match done {
        Ok(()) => Ok(0),
        Err(Halt::Failed(error)) => Ok(error.0),
        Err(Halt::Stop(stop)) => Err(stop),
    }
}

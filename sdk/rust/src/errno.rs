//! Error numbers of the system, which are WASI's.

use core::fmt;

/// An error number; never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(u16);

macro_rules! errors {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = concat!($text, ".")] pub const $name: Errno = Errno($number);)*

            /// Returns a description.
            pub const fn text(self) -> &'static str {
                match self.0 {
                    $($number => $text,)*
                    _ => "error without a name",
                }
            }

            const fn name(self) -> &'static str {
                match self.0 {
                    $($number => stringify!($name),)*
                    _ => "?",
                }
            }
        }
    };
}

errors! {
    TOOBIG = 1, "arguments and environment are too long";
    ACCES = 2, "not allowed";
    ADDRINUSE = 3, "the port is in use";
    ADDRNOTAVAIL = 4, "not an address of this chip";
    AFNOSUPPORT = 5, "no such family of addresses";
    AGAIN = 6, "not now";
    BADF = 8, "no such descriptor";
    BUSY = 10, "in use";
    CHILD = 12, "no such child";
    CONNREFUSED = 14, "nothing listens there";
    CONNRESET = 15, "the peer has reset the connection";
    DESTADDRREQ = 17, "the datagram has no destination";
    EXIST = 20, "it exists";
    FAULT = 21, "no such address";
    FBIG = 22, "file too large";
    HOSTUNREACH = 23, "its kernel is not there";
    INPROGRESS = 26, "the connection has begun";
    INTR = 27, "interrupted";
    INVAL = 28, "makes no sense";
    IO = 29, "the device failed";
    ISCONN = 30, "it is connected";
    ISDIR = 31, "a directory";
    LOOP = 32, "too many symbolic links, or an end of too high a level";
    MFILE = 33, "too many files";
    MLINK = 34, "too many names, or several descriptors of an end";
    MSGSIZE = 35, "the datagram is too long";
    NAMETOOLONG = 37, "name too long";
    NETUNREACH = 40, "no way to that address";
    NFILE = 41, "too many files in the system";
    NOBUFS = 42, "no memory for a socket, or no room for an end";
    NODEV = 43, "no kernel has the platform that it requires";
    NOENT = 44, "no such file or directory";
    NOEXEC = 45, "not a program";
    NOMEM = 48, "no memory";
    NOPROTOOPT = 50, "no such option";
    NOSPC = 51, "no space";
    NOSYS = 52, "not made for this";
    NOTCONN = 53, "it is not connected";
    NOTDIR = 54, "not a directory";
    NOTEMPTY = 55, "directory not empty";
    NOTSOCK = 57, "not a socket";
    NOTSUP = 58, "not supported";
    NXIO = 60, "nothing to connect to, as a name of the system";
    OVERFLOW = 61, "number too large";
    PERM = 63, "not permitted";
    PIPE = 64, "no reader is left, or the peer has closed the channel";
    PROTO = 65, "the contract does not allow it";
    PROTOTYPE = 67, "an end of another contract or side";
    ROFS = 69, "read-only file system";
    SPIPE = 70, "a pipe has no positions";
    SRCH = 71, "no such process";
    STALE = 72, "its service has restarted";
    XDEV = 75, "another file system";
    NOTCAPABLE = 76, "the descriptor does not allow it";
}

impl Errno {
    /// Converts a WASI error number; 0 is no error.
    pub const fn from_number(number: u16) -> Option<Errno> {
        if number == 0 { None } else { Some(Errno(number)) }
    }

    /// Returns the WASI error number.
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "?" => write!(f, "error {}", self.0),
            _ => f.write_str(self.text()),
        }
    }
}

impl core::error::Error for Errno {}

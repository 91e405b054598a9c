//! What a descriptor refers to: a file of the file service, a socket of the network service, or
//! the end of a channel.
//!
//! Contract: this module, `transfer`, `sockets` and `channels` decide where a request goes; all
//! other code of the crate handles descriptors of all kinds alike, or asks for a file
//! ([`Object::file`]). A further kind of object is a further variant here.
//!
//! ```text
//!   Descriptor --object--> File(handle)   --> System::files      abi::fs
//!                     \--> Socket(handle) --> System::sockets    abi::net
//!                      \-> End(handle)    --> System::send ...   abi::channel
//! ```

use crate::errno::{Done, Errno, Halt};
use crate::polls::Realm;
use crate::system::{System, ask, ask_net};
use crate::wasi::{fdflags, filetype};
use abi::fs::{Op, Request, Stat, flag};
use abi::net;

/// An object, by its handle, which a process owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// Of the file service: a file, directory, pipe or terminal.
    File(u64),
    /// Of the network service.
    Socket(u64),
    /// The end of a channel.
    End(u64),
}

impl Object {
    /// Returns the handle, and where it belongs.
    pub const fn parts(self) -> (u64, Realm) {
        match self {
            Object::File(handle) => (handle, Realm::Files),
            Object::Socket(handle) => (handle, Realm::Sockets),
            Object::End(handle) => (handle, Realm::Channels),
        }
    }

    pub const fn of_parts(handle: u64, realm: Realm) -> Object {
        match realm {
            Realm::Files => Object::File(handle),
            Realm::Sockets => Object::Socket(handle),
            Realm::Channels => Object::End(handle),
        }
    }

    /// Returns the handle of a file, for what only files have.
    #[inline]
    pub fn file(self) -> Result<u64, Errno> {
        match self {
            Object::File(handle) => Ok(handle),
            Object::Socket(_) | Object::End(_) => Err(Errno::INVAL),
        }
    }

    /// Returns the handle of an end, or [`Errno::BADF`].
    #[inline]
    pub fn end(self) -> Result<u64, Errno> {
        match self {
            Object::End(handle) => Ok(handle),
            Object::File(_) | Object::Socket(_) => Err(Errno::BADF),
        }
    }

    pub fn close(self, system: &mut dyn System) -> Done {
        match self {
            Object::File(handle) => ask(system, Request::new(Op::Close, handle), &mut []).map(drop),
            Object::Socket(handle) => {
                ask_net(system, net::Request::new(net::Op::Close, handle), &mut []).map(drop)
            }
            Object::End(handle) => Ok(system.close_end(handle)?),
        }
    }

    /// Returns a further handle of the same object.
    pub fn dup(self, system: &mut dyn System) -> Result<Object, Halt> {
        match self {
            Object::File(handle) => {
                let reply = ask(system, Request::new(Op::Dup, handle), &mut [])?;
                Ok(Object::File(reply.handle))
            }
            Object::Socket(handle) => {
                let request = net::Request::new(net::Op::Dup, handle);
                Ok(Object::Socket(ask_net(system, request, &mut [])?.handle))
            }
            Object::End(handle) => Ok(Object::End(system.dup_end(handle)??)),
        }
    }

    /// Returns a handle for a process that moves here from another kernel, which closes its own
    /// afterwards. Of a socket it is the same one, with a further owner: a process that moves has
    /// no more sockets than before.
    pub fn adopt(self, system: &mut dyn System) -> Result<Object, Halt> {
        if let Object::Socket(handle) = self {
            ask_net(system, net::Request::new(net::Op::Adopt, handle), &mut [])?;
            return Ok(self);
        }
        self.dup(system)
    }

    /// Returns its metadata, and its WASI flags without those that the descriptor keeps.
    pub fn stat(self, system: &mut dyn System) -> Result<(Stat, u16), Halt> {
        let handle = match self {
            Object::File(handle) => {
                let reply = ask(system, Request::new(Op::Stat, handle), &mut [])?;
                return Ok((reply.stat, from_service(reply.flags)));
            }
            Object::Socket(handle) => handle,
            Object::End(handle) => {
                system.about_end(handle)?;
                return Ok((Stat { kind: filetype::STREAM, links: 1, ..Stat::default() }, 0));
            }
        };
        let request = net::Request::new(net::Op::State, handle);
        let reply = ask_net(system, request, &mut [])?;
        let datagrams = reply.state == net::State::Datagrams as u16;
        let kind = if datagrams { filetype::DATAGRAMS } else { filetype::STREAM };
        let stat = Stat { kind, links: 1, size: reply.value, ..Stat::default() };
        let is_set = reply.flags & net::flag::NONBLOCK != 0;
        Ok((stat, if is_set { fdflags::NONBLOCK } else { 0 }))
    }

    /// Replaces its flags, WASI's; those that it does not have are ignored.
    pub fn set_flags(self, system: &mut dyn System, flags: u16) -> Done {
        match self {
            Object::File(handle) => {
                let request = Request::new(Op::SetFlags, handle);
                ask(system, Request { flags: to_service(flags), ..request }, &mut []).map(drop)
            }
            Object::Socket(handle) => {
                let flags = nonblock(flags);
                let request = net::Request::new(net::Op::SetFlags, handle);
                ask_net(system, net::Request { flags, ..request }, &mut []).map(drop)
            }
            Object::End(_) => Err(Errno::NOTSUP.into()),
        }
    }

    /// Returns the object as kernel `kernel` knows it.
    pub fn at(self, system: &mut dyn System, kernel: u16) -> Result<Object, Halt> {
        match self {
            Object::File(handle) => {
                let handle = system.handle_at(kernel, handle)?;
                Ok(Object::File(handle.map_err(Errno::from)?))
            }
            Object::Socket(handle) => {
                system.socket_at(kernel, handle)?.map_err(Errno::from)?;
                Ok(self)
            }
            Object::End(handle) => Ok(Object::End(system.end_at(kernel, handle)?)),
        }
    }

    /// Returns whether it is a directory.
    pub fn is_directory(self, system: &mut dyn System) -> Result<bool, Halt> {
        match self {
            Object::File(_) => Ok(self.stat(system)?.0.kind == filetype::DIRECTORY),
            Object::Socket(_) | Object::End(_) => Ok(false),
        }
    }
}

/// Converts descriptor flags to those of the file service.
pub(crate) fn to_service(flags: u16) -> u16 {
    let append = if flags & fdflags::APPEND != 0 { flag::APPEND } else { 0 };
    let nonblock = if flags & fdflags::NONBLOCK != 0 { flag::NONBLOCK } else { 0 };
    append | nonblock
}

/// Converts them back.
fn from_service(flags: u16) -> u16 {
    let append = if flags & flag::APPEND != 0 { fdflags::APPEND } else { 0 };
    let nonblock = if flags & flag::NONBLOCK != 0 { fdflags::NONBLOCK } else { 0 };
    append | nonblock
}

/// Converts descriptor flags to those of the network service.
fn nonblock(flags: u16) -> u16 {
    if flags & fdflags::NONBLOCK != 0 { net::flag::NONBLOCK } else { 0 }
}

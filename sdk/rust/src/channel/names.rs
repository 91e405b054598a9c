//! Names: how two programs find each other (`docs/design/names.md`).

use super::{Channel, End, Error, Side, Transport};
use crate::layout::AWAIT;
use crate::{Errno, File, ffi};

/// A name that this program serves: new channels arrive here. Dropping it removes the name;
/// channels that it has brought continue.
#[derive(Debug)]
pub struct Door<'a> {
    end: Channel,
    contract: &'a [u8],
}

impl<'a> Door<'a> {
    /// Serves `name` by this contract. Fails with [`Errno::EXIST`] if another program does,
    /// [`Errno::ISDIR`] if one serves a name below it, and [`Errno::NOTDIR`] if its beginning is a
    /// name that is served.
    ///
    /// A name has 1 to 4 parts, joined by `/`, of `a-z 0-9 _ - .`; others are [`Errno::INVAL`].
    /// Those that begin with `kernel` or `service` are the system's: [`Errno::PERM`].
    pub fn open(name: &str, contract: &'a [u8]) -> Result<Door<'a>, Errno> {
        let end = Channel::new(End::from_descriptor(ffi::name_serve(name, contract)?));
        Ok(Door { end, contract })
    }

    /// Waits for the next client. Returns the server's end of its channel.
    pub fn accept(&mut self) -> Result<Channel, Error> {
        let message = self.end.receive(&mut [])?.ok_or(Error::Closed)?;
        let end = message.endpoints.into_iter().flatten().next().ok_or(Error::Broken)?;
        Channel::of_end(end, self.contract, Side::Server).map_err(Error::System)
    }

    /// Returns the door as a file, to wait for.
    pub const fn file(&self) -> &File {
        self.end.file()
    }
}

/// Connects to the program that serves `name`. Returns the client's end of a new channel. Fails
/// with [`Errno::NOENT`] if no program does, [`Errno::NXIO`] if the name is the system's,
/// [`Errno::PROTOTYPE`] if it does by another contract, and [`Errno::NOBUFS`] if it has no room for
/// more clients now.
pub fn connect(name: &str, contract: &[u8]) -> Result<Channel, Errno> {
    connect_by(name, contract, 0)
}

/// The same, but waits until a program serves the name.
pub fn connect_when_served(name: &str, contract: &[u8]) -> Result<Channel, Errno> {
    connect_by(name, contract, AWAIT)
}

fn connect_by(name: &str, contract: &[u8], flags: u32) -> Result<Channel, Errno> {
    ffi::name_connect(name, contract, flags).map(|end| Channel::new(End::from_descriptor(end)))
}

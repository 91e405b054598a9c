//! Objects to wait for: what is asked of the kernel, and what it has found.

use crate::errno::Errno;
use abi::net;
use alloc::vec::Vec;

/// Where an object belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Realm {
    Files,
    Sockets,
    Channels,
}

impl Realm {
    /// Returns the flag of this realm, given those of sockets and of channels; files have none.
    pub(crate) const fn flag(self, [sockets, channels]: [u32; 2]) -> u32 {
        match self {
            Realm::Files => 0,
            Realm::Sockets => sockets,
            Realm::Channels => channels,
        }
    }

    /// Undoes [`Realm::flag`].
    pub(crate) const fn of_flags(flags: u32, [sockets, channels]: [u32; 2]) -> Realm {
        if flags & sockets != 0 {
            Realm::Sockets
        } else if flags & channels != 0 {
            Realm::Channels
        } else {
            Realm::Files
        }
    }
}

/// Objects to wait for, by realm. Ends have errors of WASI, the others those of their services.
#[derive(Default)]
pub struct Polls {
    pub files: Vec<net::Poll>,
    pub sockets: Vec<net::Poll>,
    pub ends: Vec<net::Poll>,
}

/// Where an object is in [`Polls`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polled(Realm, usize);

impl Polls {
    fn list(&mut self, realm: Realm) -> &mut Vec<net::Poll> {
        match realm {
            Realm::Files => &mut self.files,
            Realm::Sockets => &mut self.sockets,
            Realm::Channels => &mut self.ends,
        }
    }

    /// Adds an object, by its handle and realm. Fails with `NOMEM`.
    pub(crate) fn add(
        &mut self,
        (handle, realm): (u64, Realm),
        want: u16,
    ) -> Result<Polled, Errno> {
        let list = self.list(realm);
        list.try_reserve(1).map_err(|_| Errno::NOMEM)?;
        list.push(net::Poll { handle, want, ..net::Poll::default() });
        Ok(Polled(realm, list.len() - 1))
    }

    pub fn len(&self) -> usize {
        self.files.len() + self.sockets.len() + self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns what was found, or an error.
    pub(crate) fn found(&self, Polled(realm, index): Polled) -> Result<net::Poll, Errno> {
        let list = match realm {
            Realm::Files => &self.files,
            Realm::Sockets => &self.sockets,
            Realm::Channels => &self.ends,
        };
        let poll = list.get(index).ok_or(Errno::IO)?;
        let error = poll.error;
        match realm {
            _ if error == 0 => Ok(*poll),
            Realm::Files => Err(abi::fs::Reply { error, ..Default::default() }.errno().into()),
            Realm::Sockets => Err(net::Reply { error, ..Default::default() }.errno().into()),
            Realm::Channels => Err(Errno(error)),
        }
    }
}

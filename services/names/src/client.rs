//! The requests to the name service as functions.
//!
//! Contract: an [`Ask`] carries a request to the service and returns its reply, after waiting if
//! the service parks the request. This module does not depend on how that happens.

use crate::service::Names;
use abi::msg::MAX_PAYLOAD;
use abi::names::{Errno, Listed, Name, Op, Reply, Request};
use alloc::vec;
use alloc::vec::Vec;
use share::codec;
use zerocopy::FromBytes;

/// Sends a request with its bulk to the service and returns the reply.
pub type Ask<'a> = &'a mut dyn FnMut(Request, &mut [u8]) -> Reply;

pub type Result<T> = core::result::Result<T, Errno>;

/// A name to register for a door of this kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    pub name: Name,
    /// Hash of the contract.
    pub contract: [u8; 16],
    /// A number by which this kernel knows where to deliver the ends of new channels.
    pub door: u64,
    /// The process tree of the server; 0: the system.
    pub tree: u32,
    /// The server; 0: the system.
    pub pid: u32,
}

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub kernel: u16,
    /// The life of that kernel.
    pub epoch: u16,
    pub door: u64,
    /// Hash of the contract.
    pub contract: [u8; 16],
    /// The table's edition.
    pub edition: u64,
}

/// The requests as functions, over a callback that carries them.
pub struct Client<'a>(pub Ask<'a>);

/// Entries of one page of [`Client::list`].
const PAGE: usize = 32;

/// How often [`Client::list_at_once`] lists while names change.
const TRIES: usize = 16;

/// A page fits in a message between kernels.
const _: () = assert!(PAGE * size_of::<Listed>() <= codec::room::<Names>(MAX_PAYLOAD));

impl Client<'_> {
    fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Result<Reply> {
        let reply = (self.0)(request, bulk);
        if reply.error == 0 { Ok(reply) } else { Err(reply.errno()) }
    }

    /// Registers a name. Returns the table's edition. Repeating it has no effect.
    pub fn register(&mut self, registration: Registration) -> Result<u64> {
        let Registration { name, contract, door, tree, pid } = registration;
        let request = Request { name, contract, door, tree, pid, ..Request::new(Op::Register) };
        Ok(self.ask(request, &mut [])?.edition)
    }

    /// Removes a name that this kernel has registered for `door`.
    pub fn remove(&mut self, name: Name, door: u64) -> Result<()> {
        self.ask(Request { name, door, ..Request::new(Op::Remove) }, &mut []).map(|_| ())
    }

    pub fn find(&mut self, name: Name) -> Result<Found> {
        self.look(name)?.map_err(|_| Errno::Noent)
    }

    /// Finds a name, waiting until it is there. `tree` is the process tree of the caller, 0 for the
    /// system.
    pub fn wait_for(&mut self, name: Name, tree: u32) -> Result<Found> {
        loop {
            match self.look(name)? {
                Ok(found) => return Ok(found),
                Err(edition) => self.watch(edition, tree)?,
            };
        }
    }

    /// Finds a name. If it is not there, returns the table's edition.
    fn look(&mut self, name: Name) -> Result<core::result::Result<Found, u64>> {
        let reply = (self.0)(Request { name, ..Request::new(Op::Find) }, &mut []);
        let Reply { kernel, epoch, door, contract, edition, .. } = reply;
        match reply.errno() {
            Errno::Success => Ok(Ok(Found { kernel, epoch, door, contract, edition })),
            Errno::Noent => Ok(Err(edition)),
            error => Err(error),
        }
    }

    /// Removes all names that this kernel has registered for `door`. Returns how many.
    pub fn close(&mut self, door: u64) -> Result<usize> {
        let reply = self.ask(Request { door, ..Request::new(Op::Close) }, &mut [])?;
        Ok(reply.count as usize)
    }

    /// Waits until the table's edition is not `edition`, and returns it. `tree` is the process tree
    /// of the caller, 0 for the system.
    pub fn watch(&mut self, edition: u64, tree: u32) -> Result<u64> {
        Ok(self.ask(Request { edition, tree, ..Request::new(Op::Watch) }, &mut [])?.edition)
    }

    /// Waits until the table is in another life than that of `edition`, and returns its edition.
    /// Changes of the table do not end the wait.
    pub fn watch_life(&mut self, edition: u64) -> Result<u64> {
        Ok(self.ask(Request { edition, ..Request::new(Op::WatchLife) }, &mut [])?.edition)
    }

    /// Lists at most `most` names above `above` ([`Name::EMPTY`]: all), in ascending order. Returns
    /// them with the table's edition.
    pub fn list_some(&mut self, above: Name, most: usize) -> Result<(Vec<Listed>, u64)> {
        let mut bulk = vec![0; most.saturating_mul(size_of::<Listed>())];
        let reply = self.ask(Request { name: above, ..Request::new(Op::List) }, &mut bulk)?;
        let count = reply.filled as usize / size_of::<Listed>();
        let all = bulk.chunks_exact(size_of::<Listed>()).take(count);
        let listed = all.filter_map(|bytes| Listed::read_from_bytes(bytes).ok()).collect();
        Ok((listed, reply.edition))
    }

    /// Lists all names. Names that come or go meanwhile may be missing.
    pub fn list(&mut self) -> Result<Vec<Listed>> {
        Ok(self.list_pages()?.0)
    }

    /// Lists all names of one edition, and returns that. [`Errno::Again`] if the table changes all
    /// the time.
    pub fn list_at_once(&mut self) -> Result<(Vec<Listed>, u64)> {
        for _ in 0..TRIES {
            if let (all, Some(edition)) = self.list_pages()? {
                return Ok((all, edition));
            }
        }
        Err(Errno::Again)
    }

    /// Lists all names, and returns their edition if it is the same for all.
    fn list_pages(&mut self) -> Result<(Vec<Listed>, Option<u64>)> {
        let (mut all, mut first) = (Vec::new(), None);
        let mut is_one = true;
        loop {
            let above = all.last().map_or(Name::EMPTY, |listed: &Listed| listed.name);
            let (some, edition) = self.list_some(above, PAGE)?;
            is_one &= *first.get_or_insert(edition) == edition;
            match some.first() {
                Some(listed) if listed.name > above => all.extend(some),
                _ => return Ok((all, first.filter(|_| is_one))),
            }
        }
    }
}

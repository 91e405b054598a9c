//! Handles, and the openings that they refer to.
//!
//! ```text
//!   handle  [lives:24 | generation:20 | place:20]  --->  owner (kernel, epoch), opening
//!   opening  target, position, flags               <---  one or more handles
//! ```
//!
//! Contract: a handle of an earlier life of the service is [`Errno::Restarted`], one that was
//! closed or never given [`Errno::Badf`]. Any kernel may use a handle. It is closed when its
//! owner's life ends; a kernel that needs it longer duplicates it. It is charged to the quota of
//! the process that it is for.

use super::accounts::{Accounts, Resource};
use crate::filesystem::Node;
use abi::fs::Errno;
pub use abi::quota::HANDLES;
use abi::quota::Quota;
use share::{Stale, Table, Token, table};

/// A node of a mounted file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index of the mount.
    pub mount: u32,
    pub node: Node,
}

/// What an opening refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Node(Place),
    /// The read end of a pipe.
    Reader(u32),
    /// The write end of a pipe.
    Writer(u32),
    /// The programs' end of a terminal.
    Terminal(u32),
    /// The displaying end of a terminal.
    Screen(u32),
}

/// The result of one Open; duplicated handles share it.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    pub target: Target,
    /// Offset of the next read or write.
    pub position: u64,
    /// READ, WRITE, APPEND, NONBLOCK.
    pub flags: u16,
    handles: u32,
}

impl Opening {
    /// Creates an opening at position 0.
    pub fn new(target: Target, flags: u16) -> Opening {
        Opening { target, position: 0, flags, handles: 0 }
    }
}

#[derive(Debug)]
struct Handle {
    kernel: u8,
    epoch: u16,
    opening: u32,
    /// The account that it is charged to.
    account: u32,
}

#[derive(Debug)]
pub struct Handles {
    life: u64,
    handles: Table<Handle>,
    openings: Table<Opening>,
    pub accounts: Accounts,
}

impl Handles {
    /// Creates an empty table for this life of the service.
    pub fn new(lives: u32) -> Handles {
        Handles {
            life: table::life(lives),
            handles: Table::new(HANDLES),
            openings: Table::new(HANDLES),
            accounts: Accounts::default(),
        }
    }

    /// Checks that `more` handles and openings can be added for this quota.
    pub fn room(&mut self, quota: Quota, more: u32) -> Result<(), Errno> {
        self.accounts.room(quota, Resource::Handles, more, self.handles.count() as u32)?;
        let room = self.openings.room(more).and_then(|()| self.handles.room(more));
        room.ok_or(Errno::Nfile)
    }

    /// Adds an opening with a handle that the caller owns.
    pub fn open(&mut self, token: Token, quota: Quota, opening: Opening) -> Result<u64, Errno> {
        self.room(quota, 1)?;
        let opening = self.openings.insert(opening).ok_or(Errno::Nfile)?;
        self.add(token, quota, opening)
    }

    /// Adds a handle that the caller owns to an existing opening.
    pub fn dup(&mut self, token: Token, quota: Quota, handle: u64) -> Result<u64, Errno> {
        let place = self.find(handle)?;
        let opening = self.handles.get(place).ok_or(Errno::Badf)?.opening;
        self.accounts.room(quota, Resource::Handles, 1, self.handles.count() as u32)?;
        self.add(token, quota, opening)
    }

    /// Adds a handle that there is [`Handles::room`] for.
    fn add(&mut self, token: Token, quota: Quota, opening: u32) -> Result<u64, Errno> {
        self.handles.room(1).ok_or(Errno::Nfile)?;
        let account = self.accounts.charge(quota, Resource::Handles, 1);
        let handle = Handle { kernel: token.kernel, epoch: token.epoch, opening, account };
        let place = self.handles.insert(handle).ok_or(Errno::Nfile)?;
        if let Some(opening) = self.openings.get_mut(opening) {
            opening.handles += 1;
        }
        self.name(place)
    }

    fn name(&self, place: u32) -> Result<u64, Errno> {
        self.handles.handle(self.life, place).ok_or(Errno::Badf)
    }

    fn find(&self, handle: u64) -> Result<u32, Errno> {
        self.handles.find(self.life, handle).map_err(|stale| match stale {
            Stale::Unknown => Errno::Badf,
            Stale::Restarted => Errno::Restarted,
        })
    }

    /// Returns the opening of a handle, and its place.
    #[inline]
    pub fn find_opening(&self, handle: u64) -> Result<(u32, &Opening), Errno> {
        let at = self.handles.get(self.find(handle)?).ok_or(Errno::Badf)?.opening;
        Ok((at, self.openings.get(at).ok_or(Errno::Badf)?))
    }

    /// Returns the opening at a place.
    #[inline]
    pub fn opening_mut(&mut self, at: u32) -> Option<&mut Opening> {
        self.openings.get_mut(at)
    }

    /// Returns the opening of a handle.
    pub fn get(&self, handle: u64) -> Result<&Opening, Errno> {
        self.find_opening(handle).map(|(_, opening)| opening)
    }

    pub fn get_mut(&mut self, handle: u64) -> Result<&mut Opening, Errno> {
        let owned = self.handles.get(self.find(handle)?).ok_or(Errno::Badf)?;
        self.openings.get_mut(owned.opening).ok_or(Errno::Badf)
    }

    /// Closes a handle. Returns its target, and whether it was the opening's last handle.
    pub fn close(&mut self, handle: u64) -> Result<(Target, bool), Errno> {
        let place = self.find(handle)?;
        let owned = self.handles.remove(place).ok_or(Errno::Badf)?;
        self.accounts.release(owned.account, Resource::Handles);
        let opening = self.openings.get_mut(owned.opening).ok_or(Errno::Badf)?;
        opening.handles -= 1;
        let (target, last) = (opening.target, opening.handles == 0);
        if last {
            self.openings.remove(owned.opening);
        }
        Ok((target, last))
    }

    /// Returns the owner's first handle in slot `from` or after it, and the slot where to continue.
    pub fn owned(&self, kernel: u8, epoch: u16, from: u32) -> Option<(u64, u32)> {
        let mine = |h: &Handle| h.kernel == kernel && h.epoch == epoch;
        let place =
            (from..self.handles.places()).find(|p| self.handles.get(*p).is_some_and(mine))?;
        Some((self.name(place).ok()?, place + 1))
    }

    /// Returns whether any opening refers to this mount.
    pub fn leads_to(&self, mount: u32) -> bool {
        let leads = |opening: &Opening| match opening.target {
            Target::Node(place) => place.mount == mount,
            _ => false,
        };
        (0..self.openings.places()).any(|at| self.openings.get(at).is_some_and(leads))
    }

    /// Returns the number of handles.
    pub fn count(&self) -> usize {
        self.handles.count()
    }
}

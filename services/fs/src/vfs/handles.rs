//! Handles, and what they lead to.
//!
//! ```text
//!   handle  [lives:24 | generation:20 | place:20]  --->  owner (kernel, epoch), opening
//!   opening  what it leads to, position, flags     <---  one or more handles
//! ```
//!
//! Contract: a handle of an earlier life of the service is [`Errno::Restarted`], one that was
//! closed or never given [`Errno::Badf`]. It is closed with its owner's life; any kernel may use
//! it until then. Who wants to keep it longer duplicates it.

use crate::filesystem::Node;
use abi::fs::Errno;
use share::{Stale, Table, Token, table};

/// Most handles.
pub const HANDLES: u32 = 16_384;

/// A node of a mounted file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which file system.
    pub mount: u32,
    /// Which node of it.
    pub node: Node,
}

/// What an opening leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file or directory.
    Node(Place),
    /// The end of a pipe that is read.
    Reader(u32),
    /// The end that is written.
    Writer(u32),
    /// A terminal, on its programs' side.
    Terminal(u32),
    /// A terminal, on the side of who shows it.
    Screen(u32),
}

/// What one open made; duplicates share it.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// What it leads to.
    pub target: Target,
    /// Where the next read or write is.
    pub position: u64,
    /// READ, WRITE, APPEND, NONBLOCK.
    pub flags: u16,
    handles: u32,
}

impl Opening {
    /// At its beginning.
    pub fn new(target: Target, flags: u16) -> Opening {
        Opening { target, position: 0, flags, handles: 0 }
    }
}

#[derive(Debug)]
struct Handle {
    kernel: u8,
    epoch: u16,
    opening: u32,
}

/// All handles.
#[derive(Debug)]
pub struct Handles {
    life: u64,
    handles: Table<Handle>,
    openings: Table<Opening>,
}

impl Handles {
    /// None yet, in this life.
    pub fn new(lives: u32) -> Handles {
        Handles {
            life: table::life(lives),
            handles: Table::new(HANDLES),
            openings: Table::new(HANDLES),
        }
    }

    /// The next `more` opens will not fail.
    pub fn room(&mut self, more: u32) -> Result<(), Errno> {
        let room = self.openings.room(more).and_then(|()| self.handles.room(more));
        room.ok_or(Errno::Nfile)
    }

    /// A handle of a new opening, which belongs to who asked.
    pub fn open(&mut self, token: Token, opening: Opening) -> Result<u64, Errno> {
        self.room(1)?;
        let opening = self.openings.insert(opening).ok_or(Errno::Nfile)?;
        self.add(token, opening)
    }

    /// A second handle of one opening, which belongs to who asked.
    pub fn dup(&mut self, token: Token, handle: u64) -> Result<u64, Errno> {
        let place = self.find(handle)?;
        let opening = self.handles.get(place).ok_or(Errno::Badf)?.opening;
        self.add(token, opening)
    }

    fn add(&mut self, token: Token, opening: u32) -> Result<u64, Errno> {
        let handle = Handle { kernel: token.kernel, epoch: token.epoch, opening };
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

    /// What a handle leads to.
    pub fn get(&self, handle: u64) -> Result<&Opening, Errno> {
        let owned = self.handles.get(self.find(handle)?).ok_or(Errno::Badf)?;
        self.openings.get(owned.opening).ok_or(Errno::Badf)
    }

    /// What a handle leads to, to change it.
    pub fn get_mut(&mut self, handle: u64) -> Result<&mut Opening, Errno> {
        let owned = self.handles.get(self.find(handle)?).ok_or(Errno::Badf)?;
        self.openings.get_mut(owned.opening).ok_or(Errno::Badf)
    }

    /// Closes a handle; says where it led, and whether it was the opening's last.
    pub fn close(&mut self, handle: u64) -> Result<(Target, bool), Errno> {
        let place = self.find(handle)?;
        let owned = self.handles.remove(place).ok_or(Errno::Badf)?;
        let opening = self.openings.get_mut(owned.opening).ok_or(Errno::Badf)?;
        opening.handles -= 1;
        let (target, last) = (opening.target, opening.handles == 0);
        if last {
            self.openings.remove(owned.opening);
        }
        Ok((target, last))
    }

    /// The first handle of this owner at `from` or behind, and where to go on.
    pub fn owned(&self, kernel: u8, epoch: u16, from: u32) -> Option<(u64, u32)> {
        let mine = |h: &Handle| h.kernel == kernel && h.epoch == epoch;
        let place =
            (from..self.handles.places()).find(|p| self.handles.get(*p).is_some_and(mine))?;
        Some((self.name(place).ok()?, place + 1))
    }

    /// Does anything lead into this file system?
    pub fn leads_to(&self, mount: u32) -> bool {
        let leads = |opening: &Opening| match opening.target {
            Target::Node(place) => place.mount == mount,
            _ => false,
        };
        (0..self.openings.places()).any(|at| self.openings.get(at).is_some_and(leads))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.handles.count()
    }
}

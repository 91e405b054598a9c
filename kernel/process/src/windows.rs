//! The windows of a process: memory that it shares with others (docs/design/windows.md). What it
//! does with them is in [`crate::sharing`].
//!
//! Contract: only programs with threads have windows, because no Rust reference to their memory
//! exists ([`crate::memory`]). What can fail is done before a message is sent or received: a range
//! is reserved, which either becomes a window or is given back.
//!
//! ```text
//!   channel_send:    reserve, copy --> Block --sent--> the range shows the block's memory
//!   channel_receive: reserve --Arrived--> this kernel's: the range shows it
//!                                         another kernel's: the range has a copy
//! ```

use crate::blocks;
use crate::errno::{Done, Errno};
use crate::memory::Bytes;
use crate::system::System;
use alloc::sync::Arc;
use arch::lock::{Lock, Rank};
use kernel_contract::exchange::WindowName;
use kernel_contract::{Block, PAGE, Shared};

/// Most windows of a process.
const WINDOWS: usize = 8;
/// The rank of their lock, among those of `kernel_node::ranks`.
const RANK: Rank = Rank::new(56, "windows of a process");

/// What a range is to its process.
#[derive(Clone)]
pub(crate) enum Role {
    /// It is to become a window.
    Reserved,
    /// It shows what the process has sent.
    Sent(Arc<dyn Shared>),
    /// It shows what a process on this kernel has sent.
    Near(WindowName),
    /// It has a copy of what is on another kernel.
    Far(WindowName),
}

pub(crate) struct Window {
    /// The number of the reservation.
    id: u64,
    pub at: u32,
    length: u32,
    pub role: Role,
}

impl Window {
    /// Returns the offset of a range in it.
    fn offset(&self, at: u32, length: u32) -> Option<u32> {
        let offset = at.checked_sub(self.at)?;
        offset.checked_add(length).is_some_and(|end| end <= self.length).then_some(offset)
    }

    /// Gives back what the process has of it.
    pub(crate) fn end(self, system: &mut dyn System) {
        system.end_window(self.id);
        if let Role::Near(name) | Role::Far(name) = self.role {
            system.release_window(&name);
        }
    }
}

/// The windows of a process.
pub(crate) struct Windows(Lock<[Option<Window>; WINDOWS]>);

impl Default for Windows {
    fn default() -> Windows {
        Windows(Lock::new(RANK, [const { None }; WINDOWS]))
    }
}

impl Windows {
    /// Adds a window, or returns it and why not.
    fn add(&self, window: Window) -> Result<(), (Window, Errno)> {
        let mut windows = self.0.lock();
        let range = [window.at, window.length];
        if windows.iter().flatten().any(|it| blocks::overlap(range, [it.at, it.length])) {
            return Err((window, Errno::BUSY));
        }
        match windows.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(window),
            None => return Err((window, Errno::NOBUFS)),
        }
        Ok(())
    }

    pub(crate) fn take(&self, is_it: impl Fn(&Window) -> bool) -> Option<Window> {
        self.0.lock().iter_mut().find(|place| place.as_ref().is_some_and(&is_it))?.take()
    }

    /// Says what a reserved range is.
    pub(crate) fn settle(&self, id: u64, length: u32, role: Role) {
        if let Some(window) = self.0.lock().iter_mut().flatten().find(|window| window.id == id) {
            (window.length, window.role) = (length, role);
        }
    }

    /// Returns what has this range, and the range's offset there.
    pub(crate) fn find(&self, at: u32, length: u32) -> Option<(Role, u32)> {
        let windows = self.0.lock();
        let mut found = windows.iter().flatten();
        found.find_map(|window| {
            let offset = window.offset(at, length)?;
            Some((window.role.clone(), offset))
        })
    }

    /// Ends all of them.
    pub(crate) fn end_all(&self, system: &mut dyn System) {
        while let Some(window) = self.take(|_| true) {
            window.end(system);
        }
    }

    /// Reserves a range of whole pages. Returns the number of the reservation.
    pub(crate) fn reserve(
        &self,
        memory: &Bytes<'_>,
        system: &mut dyn System,
        [at, length]: [u32; 2],
    ) -> Result<u64, Errno> {
        let Bytes::Shared(program) = memory else { return Err(Errno::NOTSUP) };
        memory.check(at, length)?;
        if length == 0 || !(at as usize | length as usize).is_multiple_of(PAGE) {
            return Err(Errno::INVAL);
        }
        let id = system.reserve_window(program.start() + u64::from(at), length.into())?;
        let added = self.add(Window { id, at, length, role: Role::Reserved });
        added.map(|()| id).map_err(|(window, why)| {
            window.end(system);
            why
        })
    }

    /// Ends a reservation, or the window that it has become.
    pub(crate) fn end(&self, system: &mut dyn System, id: u64) {
        if let Some(window) = self.take(|it| it.id == id) {
            window.end(system);
        }
    }

    /// Makes the window of a message that has been received into a reserved range.
    pub(crate) fn receive(
        &self,
        memory: &mut Bytes<'_>,
        system: &mut dyn System,
        (id, room): (u64, [u32; 2]),
        (name, block): (WindowName, Block),
    ) -> Done {
        let length = block.len() as u32;
        let done = match block.window() {
            // Cannot fail: it is reserved.
            Some(memory) => memory.clone().show(id).then_some(Role::Near(name)).ok_or(Errno::IO),
            None => {
                // The range has pages of its own.
                system.end_window(id);
                blocks::store(memory, block, room).map(|()| Role::Far(name))
            }
        };
        match done {
            Ok(role) => self.settle(id, length, role),
            Err(why) => {
                system.release_window(&name);
                return Err(why.into());
            }
        }
        Ok(())
    }
}

//! Reads and writes of a single buffer: the fast path.
//!
//! Contract: only what nearly every one is takes this short way: one buffer, which is not empty, in
//! the memory of a program with one thread, at the position of a file of which nothing else is to
//! be done. Everything else is left to the general one before anything is done, and so is each
//! error but those of the request itself.

use crate::errno::{Done, Halt};
use crate::memory::{Bytes, GuestMemory};
use crate::process::Process;
use crate::system::System;
use crate::transfer::{FileChannel, Moved, Transfer, Until, Way};

impl Process {
    /// Reads or writes a list of `count` buffers, and stores how much at `done`. `None`: nothing
    /// was done, and the general way does it.
    #[inline(always)]
    pub(crate) fn move_single(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        (way, fd): (Way, u32),
        (list, count, done): (u32, u32, u32),
    ) -> Option<Done> {
        let Bytes::Own(bytes) = &mut memory.bytes else { return None };
        if count != 1 {
            return None;
        }
        let descriptor = self.data(fd, way.right()).ok()?;
        let handle = descriptor.plain_file()?;
        bytes.get(done as usize..)?.get(..size_of::<u32>())?;
        let entry = bytes.get(list as usize..)?.get(..size_of::<[u32; 2]>())?;
        let [at, length] = base::bytes::read::<[u32; 2]>(entry)?;
        let buffer = bytes.get_mut(at as usize..)?.get_mut(..length as usize)?;
        if length == 0 {
            return None;
        }
        if descriptor.is_null {
            let moved = if way == Way::In { 0 } else { length };
            return Some(memory.store_u32(done, moved).map_err(Halt::from));
        }
        let mut channel = FileChannel::new(way, handle, None);
        channel.0.length = length.into();
        let is_stream = !descriptor.has_positions();
        let moved = match system.transfer(&channel.0, buffer, is_stream) {
            Ok(Ok(moved)) if moved == u64::from(length) => length,
            moved => match complete(channel, (way, is_stream), system, buffer, moved) {
                Ok(moved) => moved,
                Err(halt) => return Some(Err(halt)),
            },
        };
        Some(memory.store_u32(done, moved).map_err(Halt::from))
    }
}

/// Continues the transfer of a buffer if its first request has moved only a part.
#[inline(never)]
fn complete(
    mut channel: FileChannel,
    (way, is_stream): (Way, bool),
    system: &mut dyn System,
    buffer: &mut [u8],
    moved: Moved,
) -> Result<u32, Halt> {
    let moved = channel.moved(moved, buffer.len())?;
    let until = Until::of(way, is_stream);
    Ok(Transfer { channel, until, system }.finish(buffer, moved))
}

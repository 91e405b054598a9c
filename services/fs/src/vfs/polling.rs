//! Poll: which of several handles are ready.
//!
//! Contract: every entry is filled in; a handle with an error counts as ready. With WAIT and
//! nothing ready, the caller is parked under the keys of all handles and woken once.

use super::handles::Target;
use super::{Call, Halt, Key, Result, Vfs};
use crate::filesystem::FileSystem;
use abi::fs::{Errno, Poll, Reply, flag, ready};
use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

/// Maximum number of handles in a request.
pub const POLLS: usize = 1024;

impl Vfs {
    pub(super) fn do_poll(&mut self, call: &mut Call<'_>) -> Result<Reply> {
        let wait = call.flags(flag::WAIT)? != 0;
        let length = call.length();
        if length == 0
            || !length.is_multiple_of(size_of::<Poll>())
            || length / size_of::<Poll>() > POLLS
        {
            return Err(Errno::Inval.into());
        }
        let (mut polls, mut keys, mut count) = (Vec::new(), Vec::new(), 0);
        polls.try_reserve(length / size_of::<Poll>()).map_err(|_| Errno::Nomem)?;
        for piece in call.bulk[..length].chunks_exact(size_of::<Poll>()) {
            let mut poll = Poll::read_from_bytes(piece).map_err(|_| Errno::Inval)?;
            self.look_at(poll.handle)?;
            count += u64::from(self.poll_one(&mut poll, &mut keys));
            polls.push(poll);
        }
        if count == 0 && wait {
            return Err(self.park_all(call, keys));
        }
        call.bulk[..length].copy_from_slice(polls.as_bytes());
        Ok(Reply { value: count, filled: length as u32, ..Reply::default() })
    }

    /// Loads the metadata that polling needs. This may wait for the device even without WAIT,
    /// because a file is always ready.
    fn look_at(&mut self, handle: u64) -> Result<()> {
        let Ok(Target::Node(place)) = self.handles.get(handle).map(|opening| opening.target) else {
            return Ok(());
        };
        match self.on(place, |fs, node| fs.stat(node)) {
            Err(Halt::Park(key)) => Err(Halt::Park(key)),
            _ => Ok(()),
        }
    }

    /// Fills in one entry. Returns false, after adding the key to wait for, if it is not ready.
    fn poll_one(&mut self, poll: &mut Poll, keys: &mut Vec<Key>) -> bool {
        let want = poll.want & (ready::READ | ready::WRITE);
        let found = match self.handles.get(poll.handle).copied() {
            Ok(opening) => self.readiness(&opening, want),
            Err(error) => Err(error.into()),
        };
        (poll.got, poll.bytes, poll.error) = match found {
            Ok((got, bytes)) => (got, bytes, 0),
            Err(Halt::Failed(error)) => (0, 0, error as u16),
            // Cannot happen: only NextIo and NextJob listen.
            Err(Halt::Listen) => (0, 0, Errno::Inval as u16),
            Err(Halt::Park(key)) => {
                keys.push(key);
                (0, 0, 0)
            }
        };
        poll.got != 0 || poll.error != 0
    }

    fn park_all(&mut self, call: &Call<'_>, keys: Vec<Key>) -> Halt {
        let mut last = Halt::Failed(Errno::Inval);
        for key in keys {
            match self.parked.park(call.token, key) {
                Some(()) => last = Halt::Park(key),
                None => return Halt::Failed(Errno::Nomem),
            }
        }
        last
    }
}

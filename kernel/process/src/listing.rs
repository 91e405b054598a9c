//! `fd_readdir`.
//!
//! Entries are stored one after the other; the last one is truncated at the end of the buffer. If
//! the buffer is not full, the list is complete. The file service returns whole entries only, so
//! the truncated one goes through the scratch space.

use crate::errno::{Done, Errno, Halt};
use crate::memory::GuestMemory;
use crate::process::Process;
use crate::system::{System, ask};
use crate::wasi::rights;
use abi::fs::{Dirent, NAME, Op, Reply, Request, reply_flag};
use zerocopy::FromBytes;

/// Bytes of an entry's header.
const HEAD: usize = size_of::<Dirent>();
/// Maximum bytes of an entry.
const ENTRY: u32 = (HEAD + NAME) as u32;

/// Returns the cookie after the last entry.
fn last_cookie(mut entries: &[u8]) -> Option<u64> {
    let mut next = None;
    while let Ok((head, rest)) = Dirent::read_from_prefix(entries) {
        next = Some(head.next);
        entries = rest.get(head.name as usize..)?;
    }
    next
}

/// Requests entries; returns their size in bytes, and the cookie to continue if there may be more.
fn list(
    system: &mut dyn System,
    handle: u64,
    cookie: u64,
    into: &mut [u8],
) -> Result<(usize, Option<u64>), Halt> {
    let length = into.len() as u64;
    let request = Request { offset: cookie, length, ..Request::new(Op::Readdir, handle) };
    let Reply { filled, flags, .. } = ask(system, request, into)?;
    let entries = into.get(..filled as usize).ok_or(Errno::IO)?;
    if flags & reply_flag::END != 0 {
        return Ok((entries.len(), None));
    }
    Ok((entries.len(), Some(last_cookie(entries).ok_or(Errno::IO)?)))
}

impl Process {
    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn fd_readdir(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        buffer: u32,
        bytes: u32,
        mut cookie: u64,
        used: u32,
    ) -> Done {
        let handle = self.directory(fd, rights::FD_READDIR)?.file()?;
        memory.check(buffer, bytes)?;
        memory.check(used, 4)?;
        let mut at = 0u32;
        while at < bytes {
            let (place, rest) = (buffer.saturating_add(at), bytes - at);
            let mut next = None;
            let length = if rest >= ENTRY {
                memory.fill(place, rest, |room| {
                    let (length, more) = list(system, handle, cookie, room)?;
                    next = more;
                    Ok(length as u32)
                })?
            } else {
                let GuestMemory { bytes, scratch } = memory;
                let room = scratch.room()?.get_mut(..ENTRY as usize).ok_or(Errno::IO)?;
                let (length, more) = list(system, handle, cookie, room)?;
                next = more;
                let fits = length.min(rest as usize);
                bytes.store(place, room.get(..fits).ok_or(Errno::IO)?)?;
                fits as u32
            };
            at = at.saturating_add(length);
            match next {
                Some(next) => cookie = next,
                None => break,
            }
        }
        memory.store_u32(used, at)?;
        Ok(())
    }
}

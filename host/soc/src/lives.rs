//! A board that starts again (`reboot`): the soc ends it in order, counts, and executes itself anew.
//!
//! So nothing of a life is in the next one but the run folder: soc, memory, QEMUs, doorbells and
//! sockets are made as at the first start. The process keeps its number, and `soc.pid` its text.
//! The count changes before sockets close: who loses a connection can tell a restart from an end.

use crate::memory::{MemoryError, Ram};
use abi::boot::{Blob, Given};
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use std::mem::offset_of;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The count, in the run folder; not there in a board's first life.
const COUNT: &str = "soc.lives";

/// Times that the board of `folder` was started since it came up, this one included.
pub fn count(folder: &Path) -> u64 {
    let text = std::fs::read_to_string(folder.join(COUNT)).unwrap_or_default();
    text.trim().parse().unwrap_or(1)
}

/// From here on it is the next one. Written beside first: nobody reads half of a number.
pub fn next(folder: &Path) -> io::Result<()> {
    let beside = folder.join("soc.lives~");
    std::fs::write(&beside, format!("{}\n", count(folder).saturating_add(1)))?;
    std::fs::rename(beside, folder.join(COUNT))
}

/// What no life shares with another (`Given`), written over what the blob at `blob_pa` says: the
/// seed, and the real time at `start`.
pub fn renew(ram: &Ram, blob_pa: u64, start: Instant) -> Result<(), MemoryError> {
    let failed = |why| MemoryError::Io("what a restart is given".into(), why);
    let (seed, begun) = given(start).map_err(failed)?;
    let at = blob_pa + offset_of!(Blob, given) as u64;
    ram.write(at + offset_of!(Given, seed) as u64, &seed)?;
    ram.write(at + offset_of!(Given, begun) as u64, &begun.to_le_bytes())
}

fn given(start: Instant) -> io::Result<([u8; 32], u64)> {
    let mut seed = [0; 32];
    // The system gives as few bytes as these at once, or none.
    if getrandom(&mut seed[..], GetRandomFlags::empty())? != seed.len() {
        return Err(io::Error::other("the system gives no random bytes"));
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    let begun = since.saturating_sub(start.elapsed()).as_nanos();
    Ok((seed, u64::try_from(begun).map_err(io::Error::other)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_counted_from_the_first() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(count(folder.path()), 1);
        next(folder.path()).unwrap();
        next(folder.path()).unwrap();
        assert_eq!(count(folder.path()), 3);
        std::fs::write(folder.path().join(COUNT), "no number").unwrap();
        assert_eq!(count(folder.path()), 1);
        assert!(next(&folder.path().join("none")).is_err());
    }

    #[test]
    fn each_life_is_given_a_seed_and_a_time_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let ram = Ram::create(&folder.path().join("ram"), 1 << 20, 0).unwrap();
        let at = offset_of!(Blob, given) as u64;
        let word = |field: usize| {
            let mut bytes = [0; 8];
            use vm_memory::{Bytes, GuestAddress};
            ram.guest().read_slice(&mut bytes, GuestAddress(at + field as u64)).unwrap();
            u64::from_le_bytes(bytes)
        };
        let look = || (word(offset_of!(Given, seed)), word(offset_of!(Given, begun)));
        renew(&ram, 0, Instant::now()).unwrap();
        let first = look();
        renew(&ram, 0, Instant::now()).unwrap();
        let second = look();
        assert!(first.0 != second.0 && first.1 <= second.1 && first.1 > 1_767_225_600_000_000_000);
        // The key stays: programs on the disk are sealed with it.
        assert_eq!(word(offset_of!(Given, program_key)), 0);
        assert!(renew(&ram, 2 << 20, Instant::now()).is_err());
    }
}

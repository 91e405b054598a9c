//! A board that starts again (`reboot`): the soc shuts it down, counts the start, and executes
//! itself again.
//!
//! So nothing is carried over from one life to the next except the run folder: soc, memory, QEMUs,
//! doorbells and sockets are created as at the first start. The process keeps its number, and
//! `soc.pid` its text. The count changes before sockets close, so that a disconnected client can
//! tell a restart from an end.

use crate::memory::{MemoryError, Ram};
use abi::boot::{self, Blob, BootSecrets};
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use vm_memory::{Bytes, GuestAddress};
use zerocopy::{FromBytes, IntoBytes};

/// File of the count in the run folder; absent in a board's first life.
const COUNT: &str = "soc.lives";

/// Returns how often the board in `folder` has been started since it came up, this start included.
pub fn count(folder: &Path) -> u64 {
    let text = std::fs::read_to_string(folder.join(COUNT)).unwrap_or_default();
    text.trim().parse().unwrap_or(1)
}

/// Increments the count. It is written to a temporary file first, so that no reader sees half a
/// number.
pub fn next(folder: &Path) -> io::Result<()> {
    let beside = folder.join("soc.lives~");
    std::fs::write(&beside, format!("{}\n", count(folder).saturating_add(1)))?;
    std::fs::rename(beside, folder.join(COUNT))
}

/// Puts what is unique to each life (`BootSecrets`) into the blob at `blob_pa`: the seed, and the
/// real time at `start`.
pub fn renew(ram: &Ram, blob_pa: u64, start: Instant) -> Result<(), MemoryError> {
    let failed = |why| MemoryError::Io("seed and real time of this start".into(), why);
    let (seed, begun) = given(start).map_err(failed)?;
    let mut bytes = vec![0; size_of::<Blob>()];
    ram.guest().read_slice(&mut bytes, GuestAddress(blob_pa))?;
    let blob = Blob::read_from_bytes(&bytes).map_err(|_| MemoryError::Blob("it is cut off"))?;
    let given = BootSecrets { seed, begun, ..blob.given };
    let mut blob = Blob { given, checksum: 0, ..blob };
    blob.checksum = boot::fnv(boot::FNV_START, blob.as_bytes());
    ram.write(blob_pa, blob.as_bytes())
}

fn given(start: Instant) -> io::Result<([u8; 32], u64)> {
    let mut seed = [0; 32];
    // So few bytes are returned all at once, or not at all.
    if getrandom(&mut seed[..], GetRandomFlags::empty())? != seed.len() {
        return Err(io::Error::other("the host returned too few random bytes"));
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
        let look = || {
            let mut bytes = vec![0; size_of::<Blob>()];
            ram.guest().read_slice(&mut bytes, GuestAddress(0)).unwrap();
            let mut blob = Blob::read_from_bytes(&bytes).unwrap();
            let sum = std::mem::take(&mut blob.checksum);
            // The check that kernels do.
            assert_eq!(sum, boot::fnv(boot::FNV_START, blob.as_bytes()));
            blob.given
        };
        let key = std::mem::offset_of!(Blob, given) as u64;
        ram.write(key, &[7; 32]).unwrap();
        renew(&ram, 0, Instant::now()).unwrap();
        let first = look();
        renew(&ram, 0, Instant::now()).unwrap();
        let second = look();
        assert!(first.seed != second.seed && first.begun <= second.begun);
        assert!(first.begun > 1_767_225_600_000_000_000);
        // The key is kept: programs on the disk are sealed with it.
        assert_eq!([first.program_key, second.program_key], [[7; 32]; 2]);
        assert!(renew(&ram, 2 << 20, Instant::now()).is_err());
    }
}

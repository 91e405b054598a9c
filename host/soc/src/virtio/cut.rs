//! A disk's write cache, and the power cut that loses what was not flushed.
//!
//! Contract: until a cut is ordered, writes go directly to the image. From then on they stay in the
//! cache until a flush. After the given number of writes the power fails: each write in the cache
//! is on the disk, lost, or torn, depending on the seed, and every request fails from then on. Of a
//! torn write any sectors are on the disk, in any order. A sector is atomic: it has the bytes of
//! one write to it, never parts of two. Writes are whole sectors.

use base::prng::Prng;
use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a disk writes completely or not at all.
pub const SECTOR: u64 = 512;
/// Maximum number of cached writes; beyond it they are flushed.
const CACHED: usize = 4096;

/// The power switch and write cache of a disk.
#[derive(Clone, Debug, Default)]
pub struct Cut(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Number of writes until the cut, and the seed.
    ordered: Option<(u64, u64)>,
    gone: bool,
    /// Completed but not flushed, in order.
    cached: Vec<(u64, Vec<u8>)>,
}

impl Cut {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders a power cut after so many more writes.
    pub fn order(&self, after: u64, seed: u64) {
        self.state().ordered = Some((after, seed));
    }

    /// Returns whether the power has failed.
    pub fn is_gone(&self) -> bool {
        self.state().gone
    }

    /// Reads, including cached writes.
    pub fn read(&self, file: &File, to: &mut [u8], offset: u64) -> Result<()> {
        let state = self.state();
        state.powered()?;
        file.read_exact_at(to, offset)?;
        for (at, data) in &state.cached {
            let from = offset.max(*at);
            let end = (offset + to.len() as u64).min(at + data.len() as u64);
            if from < end {
                let bytes = (end - from) as usize;
                let (to_at, data_at) = ((from - offset) as usize, (from - at) as usize);
                to[to_at..to_at + bytes].copy_from_slice(&data[data_at..data_at + bytes]);
            }
        }
        Ok(())
    }

    /// Writes to the image, or to the cache once a cut is ordered.
    pub fn write(&self, file: &File, data: &[u8], offset: u64) -> Result<()> {
        let mut state = self.state();
        state.powered()?;
        let Some((after, seed)) = state.ordered else { return file.write_all_at(data, offset) };
        state.cached.push((offset, data.to_vec()));
        if after <= 1 {
            return state.cut(file, seed);
        }
        state.ordered = Some((after - 1, seed));
        if state.cached.len() < CACHED { Ok(()) } else { state.flush(file) }
    }

    /// Makes all writes durable.
    pub fn flush(&self, file: &File) -> Result<()> {
        self.state().flush(file)
    }
}

impl State {
    fn powered(&self) -> Result<()> {
        if self.gone { Err(Error::other("its power was cut")) } else { Ok(()) }
    }

    fn flush(&mut self, file: &File) -> Result<()> {
        self.powered()?;
        for (offset, data) in self.cached.drain(..) {
            file.write_all_at(&data, offset)?;
        }
        file.sync_data()
    }

    fn cut(&mut self, file: &File, seed: u64) -> Result<()> {
        let (mut random, sector) = (Prng::new(seed), SECTOR as usize);
        // The share that survives varies from nothing to everything.
        let chance = random.below(5);
        for (offset, data) in self.cached.drain(..) {
            let is_torn = random.chance(1, 3);
            let is_whole = random.chance(chance, 4);
            for (at, bytes) in (offset..).step_by(sector).zip(data.chunks(sector)) {
                let survives = if is_torn { random.chance(chance, 4) } else { is_whole };
                if survives {
                    file.write_all_at(bytes, at)?;
                }
            }
        }
        self.gone = true;
        log::warn!("The power of a disk is cut.");
        self.powered()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> (tempfile::TempDir, File) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, [0; 4096]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        (folder, file)
    }

    #[test]
    fn what_was_flushed_stays_and_of_other_writes_any_sectors() {
        let (mut kept, mut lost, mut torn, mut gaps) = (0, 0, 0, 0);
        for seed in 0..100 {
            let (_folder, file) = disk();
            let cut = Cut::default();
            cut.write(&file, &[1; 512], 0).unwrap();
            cut.order(5, seed);
            cut.write(&file, &[2; 1024], 512).unwrap();
            cut.flush(&file).unwrap();
            cut.write(&file, &[3; 1024], 512).unwrap();
            cut.write(&file, &[4; 1024], 1024).unwrap();
            cut.write(&file, &[5; 1536], 2048).unwrap();
            let mut seen = [0; 2048];
            cut.read(&file, &mut seen, 500).unwrap();
            assert_eq!((seen[0], seen[12], seen[524], seen[1547]), (1, 3, 4, 4));
            assert_eq!(seen[1548], 5);
            assert!(cut.write(&file, &[6; 512], 3584).is_err() && cut.is_gone());
            assert!(cut.flush(&file).is_err() && cut.read(&file, &mut seen, 0).is_err());
            let mut left = [9; 4096];
            file.read_exact_at(&mut left, 0).unwrap();
            let sectors: Vec<u8> = left.chunks(512).map(|sector| sector[0]).collect();
            assert!(left.chunks(512).all(|it| it.iter().all(|byte| *byte == it[0])));
            // By sector: what was flushed, and the writes after it.
            let possible: [&[u8]; 8] =
                [&[1], &[2, 3], &[2, 3, 4], &[0, 4], &[0, 5], &[0, 5], &[0, 5], &[0, 6]];
            assert!(sectors.iter().zip(possible).all(|(it, any)| any.contains(it)), "{sectors:?}");
            match sectors[4..7] {
                [5, 5, 5] => kept += 1,
                [0, 0, 0] => lost += 1,
                [5, 0, 5] | [0, 5, 0] => (torn, gaps) = (torn + 1, gaps + 1),
                _ => torn += 1,
            }
        }
        let counts = [kept, lost, torn, gaps];
        assert!(counts.iter().all(|count| *count > 2), "kept, lost, torn, gaps: {counts:?}");
    }
}

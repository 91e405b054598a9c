//! A domain's profile: how often each block of its guest's code was executed, in a file of the run
//! folder that its plugin maps. The file outlives the QEMU, however that ends, and a QEMU that is
//! started again continues it.
//!
//! Words of 64 bits: [`HEAD`] of them, then [`BLOCK`] for each block.

use crate::words;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum distinct blocks of a domain. The file is sparse.
pub const MOST: usize = 1 << 20;

const MAGIC: u64 = 0x3130_464f_5250_4e50;
/// The magic, and the number of blocks.
const HEAD: usize = 2;
/// Address, instructions and units of the block; executions; further units of its accesses.
const BLOCK: usize = 5;
const EXECUTIONS: usize = 3;
const ACCESSES: usize = 4;

/// Why a profile could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file cannot be read or mapped.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// It is no profile.
    #[error("{0} is no profile of this version")]
    Other(String),
    /// The guest executes too much different code.
    #[error("the profile is full: the guest has executed {MOST} different blocks")]
    Full,
}

/// A block of code, as QEMU translated it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Virtual address of its first instruction.
    pub at: u64,
    /// Number of its instructions.
    pub instructions: u64,
    /// Their cost in units of the clock.
    pub units: u64,
}

/// What a block was counted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The block.
    pub block: Block,
    /// How often it was executed.
    pub executions: u64,
    /// Units charged for its accesses to the uncached window, in all executions.
    pub accesses: u64,
}

impl Counted {
    /// Returns the instructions of all executions.
    pub fn instructions(&self) -> u64 {
        self.executions.wrapping_mul(self.block.instructions)
    }

    /// Returns the units of all executions.
    pub fn units(&self) -> u64 {
        self.executions.wrapping_mul(self.block.units).wrapping_add(self.accesses)
    }
}

/// Returns the path of the profile of the domain `name`.
pub fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.profile"))
}

/// A profile that is being counted.
#[derive(Debug)]
pub struct Profile {
    words: &'static [AtomicU64],
    known: Mutex<HashMap<Block, usize>>,
}

impl Profile {
    /// Creates the profile of the domain `name`, or continues the one that an earlier QEMU of this
    /// run has left.
    pub fn open(folder: &Path, name: &str) -> Result<Profile, ProfileError> {
        let path = path(folder, name);
        let shown = path.display().to_string();
        let words = words::map(&path, HEAD + MOST * BLOCK)
            .map_err(|e| ProfileError::File(shown.clone(), e))?;
        match words[0].load(Ordering::Relaxed) {
            0 => words[0].store(MAGIC, Ordering::Relaxed),
            MAGIC => {}
            _ => return Err(ProfileError::Other(shown)),
        }
        let load = |at: usize| words[at].load(Ordering::Relaxed);
        let count = (load(1) as usize).min(MOST);
        let block = |index: usize| {
            let at = HEAD + index * BLOCK;
            (Block { at: load(at), instructions: load(at + 1), units: load(at + 2) }, index)
        };
        let known = (0..count).map(block).collect();
        Ok(Profile { words, known: Mutex::new(known) })
    }

    /// Returns the number under which `block` is counted, the same whenever it is translated.
    pub fn number(&self, block: Block) -> Result<usize, ProfileError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&index) = known.get(&block) {
            return Ok(index);
        }
        let index = known.len();
        if index == MOST {
            return Err(ProfileError::Full);
        }
        let Block { at, instructions, units } = block;
        for (word, value) in
            self.words[HEAD + index * BLOCK..].iter().zip([at, instructions, units])
        {
            word.store(value, Ordering::Relaxed);
        }
        self.words[1].store(index as u64 + 1, Ordering::Release);
        known.insert(block, index);
        Ok(index)
    }

    /// Counts an execution of the block `number`.
    pub fn executed(&self, number: usize) {
        self.add(number, EXECUTIONS, 1);
    }

    /// Charges `units` for an access of the block `number`.
    pub fn accessed(&self, number: usize, units: u64) {
        self.add(number, ACCESSES, units);
    }

    fn add(&self, number: usize, word: usize, more: u64) {
        if let Some(word) = self.words.get(HEAD + number * BLOCK + word) {
            word.fetch_add(more, Ordering::Relaxed);
        }
    }
}

/// Reads the blocks of the domain `name`. Its QEMU has ended.
pub fn read(folder: &Path, name: &str) -> Result<Vec<Counted>, ProfileError> {
    let path = path(folder, name);
    let shown = path.display().to_string();
    let bytes = read_head(&path).map_err(|e| ProfileError::File(shown.clone(), e))?;
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|bytes| u64::from_le_bytes(std::array::from_fn(|at| bytes[at])))
        .collect();
    let [MAGIC, count, blocks @ ..] = &words[..] else { return Err(ProfileError::Other(shown)) };
    let counted = |block: &[u64]| Counted {
        block: Block { at: block[0], instructions: block[1], units: block[2] },
        executions: block[EXECUTIONS],
        accesses: block[ACCESSES],
    };
    Ok(blocks.chunks_exact(BLOCK).take(*count as usize).map(counted).collect())
}

/// Reads the used part of the file.
fn read_head(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut file = std::fs::File::open(path)?;
    let mut head = [0; HEAD * 8];
    file.read_exact(&mut head)?;
    let count = u64::from_le_bytes(std::array::from_fn(|at| head[8 + at])).min(MOST as u64);
    let mut bytes = head.to_vec();
    file.take(count * (BLOCK * 8) as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Block = Block { at: 0x1000, instructions: 3, units: 200 };
    const SECOND: Block = Block { at: 0x1000, instructions: 2, units: 128 };

    #[test]
    fn blocks_are_counted_across_translations_and_restarts() {
        let folder = tempfile::tempdir().expect("a folder");
        let profile = Profile::open(folder.path(), "main").expect("new");
        let first = profile.number(FIRST).expect("room");
        let second = profile.number(SECOND).expect("room");
        assert_ne!(first, second, "another translation at the same address");
        (0..5).for_each(|_| profile.executed(first));
        profile.executed(second);
        profile.accessed(second, 70);
        let again = Profile::open(folder.path(), "main").expect("continued");
        assert_eq!(again.number(SECOND).expect("known"), second);
        again.executed(second);
        let all = read(folder.path(), "main").expect("read");
        let expected = [
            Counted { block: FIRST, executions: 5, accesses: 0 },
            Counted { block: SECOND, executions: 2, accesses: 70 },
        ];
        assert_eq!(all, expected);
        assert_eq!((all[0].instructions(), all[0].units()), (15, 1000));
        assert_eq!((all[1].instructions(), all[1].units()), (4, 326));
    }

    #[test]
    fn a_missing_or_foreign_file_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(read(folder.path(), "main"), Err(ProfileError::File(..))));
        std::fs::write(path(folder.path(), "main"), [7; 64]).expect("written");
        assert!(matches!(read(folder.path(), "main"), Err(ProfileError::Other(_))));
        assert!(matches!(Profile::open(folder.path(), "main"), Err(ProfileError::Other(_))));
    }
}

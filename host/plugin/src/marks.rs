//! Marks of the guest (see `lab::marks`): recognising them, and writing them to the file.

use crate::class::Isa;
use lab::marks::{FILE, MOST_NUMBER, Mark};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Maximum marks of a QEMU, about 20 MB.
const MOST: usize = 1 << 16;

/// Returns the number of the mark that the instruction `word` is.
pub fn number(isa: Isa, word: u32) -> Option<u8> {
    let at = match isa {
        // HINT #0x40 + n.
        Isa::Aarch64 if word & !(0xf << 5) == 0xd503_281f => 5,
        // slti x0, x0, 0x40 + n.
        Isa::Riscv64 if word & !(0xf << 20) == 0x0400_2013 => 20,
        _ => return None,
    };
    let number = (word >> at & 0xf) as u8;
    (1..=MOST_NUMBER).contains(&number).then_some(number)
}

/// The file of a run's marks. The writer holds the turn, so lines of several domains do not mix.
#[derive(Debug)]
pub struct Book {
    path: PathBuf,
    written: Mutex<(usize, Option<File>)>,
}

impl Book {
    /// Opens the file of a run folder; it is created with the first mark.
    pub fn new(folder: &Path) -> Book {
        Book { path: folder.join(FILE), written: Mutex::new((0, None)) }
    }

    /// Adds a mark.
    pub fn add(&self, mark: &Mark) -> Result<(), String> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, file) = &mut *written;
        if *count == MOST {
            return Err(format!("the guest makes more than {MOST} marks: mark fewer rounds"));
        }
        *count += 1;
        let fail = |e| format!("{}: {e}", self.path.display());
        if file.is_none() {
            let open = OpenOptions::new().create(true).append(true).open(&self.path);
            *file = Some(open.map_err(fail)?);
        }
        file.as_mut().map_or(Ok(()), |file| mark.write(file)).map_err(fail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_known_by_their_words() {
        for (n, word) in [(1, 0xd503_283f), (2, 0xd503_285f), (3, 0xd503_287f), (4, 0xd503_289f)] {
            assert_eq!(number(Isa::Aarch64, word), Some(n));
        }
        assert_eq!(number(Isa::Riscv64, 0x0410_2013), Some(1), "slti x0, x0, 0x41");
        assert_eq!(number(Isa::Riscv64, 0x04f0_2013), Some(15), "slti x0, x0, 0x4f");
        // HINT #0x40, nop, csdb, wfi; slti x0, x0, 0x40; slti x1, x0, 0x41; nop.
        for word in [0xd503_281f, 0xd503_201f, 0xd503_229f, 0xd503_207f] {
            assert_eq!(number(Isa::Aarch64, word), None, "{word:x}");
        }
        for word in [0x0400_2013, 0x0410_2093, 0x0000_0013] {
            assert_eq!(number(Isa::Riscv64, word), None, "{word:x}");
        }
    }

    #[test]
    fn marks_are_appended() {
        let folder = tempfile::tempdir().expect("a folder");
        let book = Book::new(folder.path());
        assert_eq!(lab::marks::read(folder.path()).expect("none"), []);
        for at_ps in [5, 7] {
            book.add(&Mark { mark: 1, at_ps, ..Mark::default() }).expect("written");
        }
        let times: Vec<_> =
            lab::marks::read(folder.path()).expect("two").iter().map(|mark| mark.at_ps).collect();
        assert_eq!(times, [5, 7]);
    }
}

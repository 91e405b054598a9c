//! Where mails are: each is a file in a folder, which is there as a whole or not at all.
//!
//! ```text
//!   FOLDER/tmp/NAME, written --scanned, synced--> FOLDER/new/NAME
//! ```
//! A mail that was kept is on the disk.

use std::cell::Cell;
use std::fs::File;
use std::io::{ErrorKind, Result, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// A folder of mails.
pub struct Spool {
    folder: PathBuf,
    /// Mails so far.
    count: Cell<u64>,
}

impl Spool {
    /// Makes the folder, if it is not there.
    pub fn new(folder: &str) -> Result<Spool> {
        let folder = PathBuf::from(folder);
        std::fs::create_dir_all(folder.join("tmp"))?;
        std::fs::create_dir_all(folder.join("new"))?;
        Ok(Spool { folder, count: Cell::new(0) })
    }

    /// Writes a mail to a file of its own.
    pub fn write(&self, mail: &[u8]) -> Result<Written> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        loop {
            let number = self.count.get();
            self.count.set(number + 1);
            let name = format!("{seconds}.{number}");
            let [path, kept] = ["tmp", "new"].map(|it| self.folder.join(it).join(&name));
            match File::create_new(&path) {
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                made => {
                    let mut written = Written { file: made?, path, kept };
                    written.file.write_all(mail)?;
                    return Ok(written);
                }
            }
        }
    }
}

/// A mail that is not kept yet. If it will not be, its file is removed.
pub struct Written {
    file: File,
    path: PathBuf,
    kept: PathBuf,
}

impl Written {
    /// Returns the mail.
    pub fn read(&self) -> Result<Vec<u8>> {
        std::fs::read(&self.path)
    }

    /// Keeps it: afterwards a loss of power does not lose it.
    pub fn keep(&self) -> Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.path, &self.kept)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // One that was kept is not there any more; one that cannot be removed harms nothing.
        let _ = std::fs::remove_file(&self.path);
    }
}

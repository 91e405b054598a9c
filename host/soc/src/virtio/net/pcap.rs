//! A capture file in the classic format pcap, with times in nanoseconds since the board's start.
//! Each frame is written at once, so that the file can be read while the board runs.

use crate::gate::Gate;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Times have nanoseconds, in the byte order of the writer.
const MAGIC: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
/// Frames are not cut off before this.
const LONGEST: u32 = 65_535;
const ETHERNET: u32 = 1;
const SECOND: u64 = 1_000_000_000;

/// A capture file.
#[derive(Debug)]
pub struct Capture {
    /// Absent after an error.
    file: Option<File>,
    clock: Gate,
}

impl Capture {
    /// Creates or replaces the file at `path`.
    pub fn create(path: &Path, clock: Gate) -> std::io::Result<Capture> {
        let named = |e| std::io::Error::other(format!("{}: {e}", path.display()));
        let mut file = File::create(path).map_err(named)?;
        let mut header = MAGIC.to_le_bytes().to_vec();
        header.extend(VERSION.map(u16::to_le_bytes).as_flattened());
        // Time zone and accuracy are 0.
        header.extend([0, 0, LONGEST, ETHERNET].map(u32::to_le_bytes).as_flattened());
        file.write_all(&header).map_err(named)?;
        Ok(Capture { file: Some(file), clock })
    }

    /// Adds a frame. After an error, such as a full disk, the capture ends.
    pub fn add(&mut self, frame: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let (now, length) = (self.clock.now(), frame.len() as u32);
        let words = [(now / SECOND) as u32, (now % SECOND) as u32, length, length];
        let record = [words.map(u32::to_le_bytes).as_flattened(), frame].concat();
        if let Err(e) = file.write_all(&record) {
            log::error!("Network: the capture ends: {e}.");
            self.file = None;
        }
    }
}

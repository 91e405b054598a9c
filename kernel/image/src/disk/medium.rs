//! The storage of a disk: the device, or memory (`ram=NAME` on the board's command line).
//!
//! A disk in memory starts as a copy of the device, which is read once and never written. Changes
//! are lost when the kernel ends.

use alloc::vec::Vec;
use base::addr::PAGE;
use drivers::disk::{BUFFER, SECTOR};
use kernel_node::memory::FRAMES;
use kernel_services::disk::{Disk, DiskError};

/// Size of a piece in bytes: two requests to the device.
const PIECE: usize = 2 * BUFFER;

/// The storage of one disk.
pub enum Medium {
    /// The block device.
    Device,
    /// Memory, in pieces of [`PIECE`] bytes; the last one may be shorter.
    Memory(Vec<Vec<u8>>),
}

impl Medium {
    /// Copies the device to memory. The error is a text for the log.
    pub fn copied(disk: Disk<'_>) -> Result<Medium, &'static str> {
        let (sectors, _) = disk.about().map_err(DiskError::text)?;
        let bytes = sectors.checked_mul(SECTOR as u64).and_then(|all| usize::try_from(all).ok());
        let most = FRAMES.free_count() * PAGE as usize / 2;
        let bytes = bytes.filter(|&bytes| bytes <= most);
        let bytes = bytes.ok_or("it is larger than half of the free memory")?;
        let (mut pieces, mut device) = (Vec::new(), Medium::Device);
        pieces.try_reserve_exact(bytes.div_ceil(PIECE)).map_err(|_| "there is no memory for it")?;
        for from in (0..bytes).step_by(PIECE) {
            let mut piece = Vec::new();
            let length = PIECE.min(bytes - from);
            piece.try_reserve_exact(length).map_err(|_| "there is no memory for it")?;
            piece.resize(length, 0);
            let sector = (from / SECTOR) as u64;
            device.read(disk, sector, &mut piece).map_err(|_| "it cannot be read")?;
            pieces.push(piece);
        }
        Ok(Medium::Memory(pieces))
    }

    /// Reads whole sectors, starting with `sector`.
    pub fn read(&mut self, disk: Disk<'_>, sector: u64, into: &mut [u8]) -> Result<(), DiskError> {
        match self {
            Medium::Device => disk.read(sector, into),
            Medium::Memory(pieces) => each(pieces, sector, into.len(), |part, range| {
                into[range].copy_from_slice(part);
            }),
        }
    }

    /// Writes whole sectors, starting with `sector`.
    pub fn write(&mut self, disk: Disk<'_>, sector: u64, data: &mut [u8]) -> Result<(), DiskError> {
        match self {
            Medium::Device => disk.write(sector, data),
            Medium::Memory(pieces) => each(pieces, sector, data.len(), |part, range| {
                part.copy_from_slice(&data[range]);
            }),
        }
    }

    /// Makes all earlier writes durable, as far as the medium itself is durable.
    pub fn flush(&mut self, disk: Disk<'_>) -> Result<(), DiskError> {
        match self {
            Medium::Device => match disk.flush() {
                // A device without a flush makes each write durable before it answers.
                Err(DiskError::Unsupported) => Ok(()),
                done => done,
            },
            Medium::Memory(_) => Ok(()),
        }
    }
}

/// Calls `work` for each part of the pieces that contains some of the `length` bytes from `sector`
/// on, with the part's range in those bytes.
fn each(
    pieces: &mut [Vec<u8>],
    sector: u64,
    length: usize,
    mut work: impl FnMut(&mut [u8], core::ops::Range<usize>),
) -> Result<(), DiskError> {
    let sector = usize::try_from(sector).map_err(|_| DiskError::Range)?;
    let first = sector.checked_mul(SECTOR).ok_or(DiskError::Range)?;
    let mut done = 0;
    while done < length {
        let (piece, offset) = ((first + done) / PIECE, (first + done) % PIECE);
        let rest = pieces.get_mut(piece).and_then(|piece| piece.get_mut(offset..));
        let rest = rest.filter(|rest| !rest.is_empty()).ok_or(DiskError::Range)?;
        let count = rest.len().min(length - done);
        work(&mut rest[..count], done..done + count);
        done += count;
    }
    Ok(())
}

//! The storage of a disk: the device, or memory (`ram=NAME` on the board's command line).
//!
//! A disk in memory starts as a copy of the device, which is read once and never written. Changes
//! are lost when the kernel ends.

use alloc::vec::Vec;
use base::addr::PAGE;
use drivers::block::{BUFFER, BlockError, SECTOR};
use kernel_node::memory::FRAMES;
use kernel_services::kernel::Kernel;

/// Size of a piece in bytes: two requests to the device.
const PIECE: usize = 2 * BUFFER;

/// The storage of one disk.
pub enum Medium {
    /// This kernel's block device.
    Device,
    /// Memory, in pieces of [`PIECE`] bytes; the last one may be shorter.
    Memory(Vec<Vec<u8>>),
}

impl Medium {
    /// Copies the device to memory. The error is a text for the log.
    pub fn copied(kernel: &'static Kernel) -> Result<Medium, &'static str> {
        let sectors = kernel.devices.disk_sectors().ok_or("there is no device")?;
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
            device.read(kernel, sector, &mut piece).map_err(|_| "it cannot be read")?;
            pieces.push(piece);
        }
        Ok(Medium::Memory(pieces))
    }

    /// Reads whole sectors, starting with `sector`.
    pub fn read(
        &mut self,
        kernel: &'static Kernel,
        sector: u64,
        into: &mut [u8],
    ) -> Result<(), BlockError> {
        match self {
            Medium::Device => kernel.devices.disk_read(kernel, sector, into),
            Medium::Memory(pieces) => each(pieces, sector, into.len(), |part, range| {
                into[range].copy_from_slice(part);
            }),
        }
    }

    /// Writes whole sectors, starting with `sector`.
    pub fn write(
        &mut self,
        kernel: &'static Kernel,
        sector: u64,
        data: &[u8],
    ) -> Result<(), BlockError> {
        match self {
            Medium::Device => kernel.devices.disk_write(kernel, sector, data),
            Medium::Memory(pieces) => each(pieces, sector, data.len(), |part, range| {
                part.copy_from_slice(&data[range]);
            }),
        }
    }

    /// Makes all earlier writes durable, as far as the medium itself is durable.
    pub fn flush(&mut self, kernel: &'static Kernel) -> Result<(), BlockError> {
        match self {
            Medium::Device => match kernel.devices.disk_flush(kernel) {
                // A device without a flush makes each write durable before it answers.
                Err(BlockError::Unsupported) => Ok(()),
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
) -> Result<(), BlockError> {
    let sector = usize::try_from(sector).map_err(|_| BlockError::Range)?;
    let first = sector.checked_mul(SECTOR).ok_or(BlockError::Range)?;
    let mut done = 0;
    while done < length {
        let (piece, offset) = ((first + done) / PIECE, (first + done) % PIECE);
        let rest = pieces.get_mut(piece).and_then(|piece| piece.get_mut(offset..));
        let rest = rest.filter(|rest| !rest.is_empty()).ok_or(BlockError::Range)?;
        let count = rest.len().min(length - done);
        work(&mut rest[..count], done..done + count);
        done += count;
    }
    Ok(())
}

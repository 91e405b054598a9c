//! The storage of a disk: the device, or memory (`ram=NAME` on the board's command line), which the
//! soc has filled with the disk's image. Changes to memory are lost with the board.

use drivers::disk::SECTOR;
use kernel_node::ram_disk::RamDisk;
use kernel_services::disk::{Disk, DiskError};

/// The storage of one disk.
pub enum Medium {
    /// The block device.
    Device,
    /// Memory, and the number of sectors.
    Memory(RamDisk, u64),
}

impl Medium {
    /// Returns the memory `ram` as the storage of `disk`.
    pub fn memory(ram: RamDisk, disk: Disk<'_>) -> Result<Medium, DiskError> {
        disk.about().map(|(sectors, _)| Medium::Memory(ram, sectors))
    }

    /// Reads whole sectors, starting with `sector`.
    pub fn read(&mut self, disk: Disk<'_>, sector: u64, into: &mut [u8]) -> Result<(), DiskError> {
        match self {
            Medium::Device => disk.read(sector, into),
            Medium::Memory(ram, sectors) => {
                let from = offset(sector, into.len(), *sectors).ok_or(DiskError::Range)?;
                ram.read(from, into).then_some(()).ok_or(DiskError::Range)
            }
        }
    }

    /// Writes whole sectors, starting with `sector`.
    pub fn write(&mut self, disk: Disk<'_>, sector: u64, data: &mut [u8]) -> Result<(), DiskError> {
        match self {
            Medium::Device => disk.write(sector, data),
            Medium::Memory(ram, sectors) => {
                let to = offset(sector, data.len(), *sectors).ok_or(DiskError::Range)?;
                ram.write(to, data).then_some(()).ok_or(DiskError::Range)
            }
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
            Medium::Memory(..) => Ok(()),
        }
    }
}

/// Returns the offset of `sector`, if `bytes` bytes from there on are on a disk of `sectors`.
fn offset(sector: u64, bytes: usize, sectors: u64) -> Option<u64> {
    let count = bytes.div_ceil(SECTOR) as u64;
    let is_inside = sector.checked_add(count).is_some_and(|end| end <= sectors);
    is_inside.then_some(sector * SECTOR as u64)
}

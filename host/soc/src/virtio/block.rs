//! virtio-blk over an image file. When a flush completes, the host has the data on disk.

use super::cut::{Cut, SECTOR};
use super::{Chain, Fault, Model, Moved};
use crate::memory::Ram;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use virtio_bindings::bindings::virtio_blk as blk;
use virtio_queue::{Reader, Writer};

/// Bytes copied at a time.
const CHUNK: usize = 64 << 10;
/// Bytes of a GET_ID answer.
const ID_BYTES: usize = 20;
const HEADER: usize = 16;

/// The device.
#[derive(Debug)]
pub struct Block {
    file: File,
    sectors: u64,
    read_only: bool,
    name: [u8; ID_BYTES],
    cut: Cut,
}

/// Why a request fails. Its status byte reports it; the device continues.
enum Refusal {
    Io,
    Unsupported,
}

impl From<std::io::Error> for Refusal {
    fn from(e: std::io::Error) -> Refusal {
        log::error!("Block: {e}.");
        Refusal::Io
    }
}

impl Block {
    /// Opens an image; bytes after its last whole sector are ignored. A writable image is locked
    /// for one board.
    pub fn open(path: &Path, name: &str, read_only: bool) -> std::io::Result<Block> {
        let file = OpenOptions::new().read(true).write(!read_only).open(path)?;
        if !read_only {
            file.try_lock()?;
        }
        let sectors = file.metadata()?.len() / SECTOR;
        let mut id = [0; ID_BYTES];
        id.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        Ok(Block { file, sectors, read_only, name: id, cut: Cut::default() })
    }

    /// Returns the switch that cuts its power.
    pub fn cut(&self) -> Cut {
        self.cut.clone()
    }

    /// Returns the file offset of `bytes` bytes from `sector` on.
    fn offset(&self, sector: u64, bytes: usize) -> Result<u64, Refusal> {
        let sectors = bytes as u64 / SECTOR;
        let inside = sector <= self.sectors && sectors <= self.sectors - sector;
        if inside && (bytes as u64).is_multiple_of(SECTOR) {
            Ok(sector * SECTOR)
        } else {
            Err(Refusal::Io)
        }
    }

    fn read(&self, sector: u64, to: &mut Writer<'_>) -> Result<(), Refusal> {
        let mut offset = self.offset(sector, to.available_bytes())?;
        let mut buffer = vec![0; CHUNK.min(to.available_bytes())];
        while to.available_bytes() > 0 {
            let size = buffer.len().min(to.available_bytes());
            self.cut.read(&self.file, &mut buffer[..size], offset)?;
            to.write_all(&buffer[..size])?;
            offset += size as u64;
        }
        Ok(())
    }

    fn write(&self, sector: u64, from: &mut Reader<'_>) -> Result<(), Refusal> {
        if self.read_only {
            return Err(Refusal::Io);
        }
        let mut offset = self.offset(sector, from.available_bytes())?;
        let mut buffer = vec![0; CHUNK.min(from.available_bytes())];
        while from.available_bytes() > 0 {
            let size = buffer.len().min(from.available_bytes());
            from.read_exact(&mut buffer[..size])?;
            self.cut.write(&self.file, &buffer[..size], offset)?;
            offset += size as u64;
        }
        Ok(())
    }

    fn carry_out(&self, from: &mut Reader<'_>, to: &mut Writer<'_>) -> Result<(), Refusal> {
        let mut header = [0u8; HEADER];
        from.read_exact(&mut header)?;
        let [kind, _, low, high] = [0, 4, 8, 12].map(|at| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        });
        let sector = u64::from(high) << 32 | u64::from(low);
        match kind {
            blk::VIRTIO_BLK_T_IN => self.read(sector, to),
            blk::VIRTIO_BLK_T_OUT => self.write(sector, from),
            blk::VIRTIO_BLK_T_FLUSH => Ok(self.cut.flush(&self.file)?),
            blk::VIRTIO_BLK_T_GET_ID => {
                let size = ID_BYTES.min(to.available_bytes());
                Ok(to.write_all(&self.name[..size])?)
            }
            _ => Err(Refusal::Unsupported),
        }
    }
}

impl Model for Block {
    fn id(&self) -> u64 {
        2
    }

    fn features(&self) -> u64 {
        let read_only = if self.read_only { 1 << blk::VIRTIO_BLK_F_RO } else { 0 };
        1 << blk::VIRTIO_BLK_F_FLUSH | read_only
    }

    fn config(&self) -> Vec<u8> {
        self.sectors.to_le_bytes().to_vec()
    }

    fn serve(&mut self, _queue: usize, chain: Chain<'_>, ram: &Ram) -> Result<Moved, Fault> {
        let mut from = chain.clone().reader(ram.guest())?;
        let mut to = chain.writer(ram.guest())?;
        let room = to.available_bytes().checked_sub(1).ok_or(Fault::NoStatus)?;
        let mut status = to.split_at(room)?;
        let answer = match self.carry_out(&mut from, &mut to) {
            Ok(()) => blk::VIRTIO_BLK_S_OK,
            Err(Refusal::Io) => blk::VIRTIO_BLK_S_IOERR,
            Err(Refusal::Unsupported) => blk::VIRTIO_BLK_S_UNSUPP,
        };
        status.write_all(&[answer as u8])?;
        Ok(Moved { read: from.bytes_read(), written: to.bytes_written(), status: true })
    }

    fn finish(&mut self) {
        if !self.cut.is_gone()
            && let Err(e) = self.cut.flush(&self.file)
        {
            log::error!("Block: the image could not be flushed: {e}.");
        }
    }
}

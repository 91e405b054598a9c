//! The disk: client of its driver. A request that is longer than the driver's is divided.

use crate::services::ServiceFailure;
use crate::session::Session;
use core::sync::atomic::{AtomicBool, Ordering};
use drivers::disk::{BUFFER, SECTOR};
use drivers::request::{Reply, Request, flag, kind, told};

/// Set when a file system uses the disk.
pub static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// This kernel drives no disk, or the device does not work.
    Absent,
    /// Not whole sectors, or beyond the end of the disk.
    Range,
    /// The disk is read-only.
    ReadOnly,
    /// The device reported an I/O error.
    Device,
    /// The device does not support it.
    Unsupported,
}

impl DiskError {
    pub fn text(self) -> &'static str {
        match self {
            DiskError::Absent => "this kernel drives no disk",
            DiskError::Range => "beyond the end of the disk",
            DiskError::ReadOnly => "the disk is read-only",
            DiskError::Device => "the device reports an error",
            DiskError::Unsupported => "the device does not support it",
        }
    }

    fn of(told: u32) -> DiskError {
        match told {
            told::RANGE => DiskError::Range,
            told::READ_ONLY => DiskError::ReadOnly,
            told::UNSUPPORTED => DiskError::Unsupported,
            told::ABSENT => DiskError::Absent,
            _ => DiskError::Device,
        }
    }
}

/// Makes a request; again, if the driver's state was lost with a kernel: what had completed is
/// done, and doing the rest twice does no harm.
fn ask(session: &Session, request: Request, bulk: &mut [u8]) -> Result<Reply, DiskError> {
    let driver = &session.services.disk;
    if !driver.is_local() {
        return Err(DiskError::Absent);
    }
    loop {
        let asked = session.kernel.devices.during(|| driver.ask(session, request, bulk));
        match asked {
            Ok(reply) if reply.told == told::DONE => return Ok(reply),
            Ok(reply) => return Err(DiskError::of(reply.told)),
            Err(ServiceFailure::Restarted) => {}
            Err(_) => return Err(DiskError::Device),
        }
    }
}

/// Returns the number of sectors, and whether the disk is read-only.
pub fn about(session: &Session) -> Result<(u64, bool), DiskError> {
    let reply = ask(session, Request { kind: kind::ABOUT, ..Request::default() }, &mut [])?;
    Ok((reply.value, reply.flags & flag::READ_ONLY != 0))
}

fn request(kind: u32, sector: u64, place: usize, length: usize) -> Request {
    let at = sector + (place * BUFFER / SECTOR) as u64;
    Request { kind, length: length as u32, at }
}

/// Reads whole sectors, starting with `sector`; waits.
pub fn read(session: &Session, sector: u64, into: &mut [u8]) -> Result<(), DiskError> {
    for (place, piece) in into.chunks_mut(BUFFER).enumerate() {
        ask(session, request(kind::READ, sector, place, piece.len()), piece)?;
    }
    Ok(())
}

/// Writes whole sectors, starting with `sector`; waits.
pub fn write(session: &Session, sector: u64, data: &mut [u8]) -> Result<(), DiskError> {
    for (place, piece) in data.chunks_mut(BUFFER).enumerate() {
        ask(session, request(kind::WRITE, sector, place, piece.len()), piece)?;
    }
    Ok(())
}

/// Makes all earlier writes durable; waits.
pub fn flush(session: &Session) -> Result<(), DiskError> {
    ask(session, Request { kind: kind::FLUSH, ..Request::default() }, &mut []).map(|_| ())
}

/// Tests the disk: writes, flushes and reads back the last sector, then restores it. Returns the
/// number of sectors. The error is a text for the user.
pub fn check(session: &Session) -> Result<u64, &'static str> {
    let (sectors, _) = about(session).map_err(DiskError::text)?;
    if IS_TAKEN.load(Ordering::Relaxed) {
        return Err("a file system has the disk; `fs df` shows it");
    }
    let last = sectors.checked_sub(1).ok_or("the disk is empty")?;
    let (mut before, mut after) = ([0; SECTOR], [0; SECTOR]);
    let mut pattern = [0; SECTOR];
    let mut prng = base::prng::Prng::new(arch::time::soc_time());
    pattern.iter_mut().for_each(|byte| *byte = prng.next() as u8);
    read(session, last, &mut before).map_err(DiskError::text)?;
    write(session, last, &mut pattern).map_err(DiskError::text)?;
    flush(session).map_err(DiskError::text)?;
    read(session, last, &mut after).map_err(DiskError::text)?;
    write(session, last, &mut before).map_err(DiskError::text)?;
    if after == pattern { Ok(sectors) } else { Err("the data read differ from those written") }
}

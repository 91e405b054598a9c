//! The disk: client of its driver. A request that is longer than the driver's is divided.

use crate::services::Patience;
use crate::session::Session;
use core::sync::atomic::{AtomicU8, Ordering};
use drivers::disk::{BUFFER, SECTOR};
use drivers::request::{Reply, Request, flag, kind, told};

/// Who uses the disk, as far as this kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Use {
    /// It has not looked yet.
    Unknown,
    Free,
    FileSystem,
}

static USE: AtomicU8 = AtomicU8::new(Use::Unknown as u8);
/// How long [`check`] waits until that is known, and its polling interval, in ns.
const SETTLING: (u64, u64) = (5_000_000_000, 10_000_000);

/// Sets who uses the disk.
pub fn set_use(to: Use) {
    USE.store(to as u8, Ordering::Relaxed);
}

/// Returns whether no file system uses the disk. Waits until that is known.
fn is_free(session: &Session) -> bool {
    let deadline = arch::time::soc_time() + SETTLING.0;
    while USE.load(Ordering::Relaxed) == Use::Unknown as u8 && arch::time::soc_time() < deadline {
        session.kernel.scheduler.sleep_until(arch::time::soc_time() + SETTLING.1);
    }
    USE.load(Ordering::Relaxed) == Use::Free as u8
}

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

/// Makes a request; again, if the driver's state was lost with a kernel. The driver refuses a write
/// of an earlier life of the file service, so an old one does no harm.
fn ask(session: &Session, request: Request, bulk: &mut [u8]) -> Result<Reply, DiskError> {
    let (driver, devices) = (&session.services.disk, &session.kernel.devices);
    if !driver.is_local() {
        return Err(DiskError::Absent);
    }
    let endless = &Patience::ENDLESS;
    match devices.during(|| driver.ask_again(session, request, bulk, endless)) {
        Ok(Some(reply)) if reply.told == told::DONE => Ok(reply),
        Ok(Some(reply)) => Err(DiskError::of(reply.told)),
        Ok(None) | Err(_) => Err(DiskError::Device),
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
    if !is_free(session) {
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

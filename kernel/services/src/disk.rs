//! The disk: client of its driver. A request that is longer than the driver's is divided.

use crate::kernel::Kernel;
use crate::services::Patience;
use crate::session::Session;
use arch::lock::Lock;
use drivers::disk::{BUFFER, SECTOR};
use drivers::request::{Reply, Request, flag, kind, told};
use kernel_sched::WaitQueue;

/// What uses the disk, as far as this kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It has not looked yet.
    Unknown,
    /// Nothing does, or nothing that this kernel mounts.
    Free,
    /// A file system that is not mounted yet.
    Mounting,
    /// A file system that was mounted in this life of the file service.
    Mounted(Option<u32>),
}

static USE: Lock<Use> = Lock::new(kernel_node::ranks::DEVICE, Use::Unknown);
/// Threads that wait for a change.
static CHANGED: WaitQueue = WaitQueue::new();
/// How long [`check`] waits until the use is known, in ns.
const SETTLING: u64 = 5_000_000_000;
/// Most time that [`await_root`] waits, in ns.
const MOUNTING: u64 = 15_000_000_000;
/// How often a wait for the root looks whether it must end, in ns.
const LOOK: u64 = 100_000_000;

/// Sets what uses the disk.
pub fn set_use(kernel: &Kernel, to: Use) {
    *USE.lock() = to;
    CHANGED.wake_all(&kernel.scheduler);
}

/// Waits until `is_it` holds for the disk's use, at most for `limit` ns. Returns the use.
pub fn await_use(kernel: &Kernel, limit: u64, is_it: impl Fn(Use) -> bool) -> Use {
    let deadline = arch::time::soc_time() + limit;
    kernel.scheduler.wait_until(&CHANGED, Some(deadline), || is_it(*USE.lock()));
    *USE.lock()
}

/// If the disk is to be the root, waits until it is mounted, also after a restart of the file
/// service: files that are opened earlier are in another file system. Returns after [`MOUNTING`],
/// or soon after `must_end` holds, in any case.
pub fn await_root(kernel: &Kernel, must_end: impl Fn() -> bool) {
    let life = || kernel.services.fs.lives();
    let is_there = |now| match now {
        Use::Mounted(mounted) => mounted == life(),
        now => now == Use::Free,
    };
    let is_ready = || is_there(*USE.lock());
    if is_ready() || kernel.option("root=").is_none() || !kernel.services.disk.is_local() {
        return;
    }
    let end = arch::time::soc_time() + MOUNTING;
    while !is_ready() && !must_end() && arch::time::soc_time() < end {
        await_use(kernel, LOOK, is_there);
    }
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

/// The disk as a thread uses it.
#[derive(Clone, Copy)]
pub struct Disk<'a> {
    pub session: &'a Session,
    /// The life of the file service whose requests these are; 0: they are not the file service's.
    /// The driver refuses those of an earlier life, whose blocks may have other uses by now.
    pub life: u64,
}

impl Disk<'_> {
    /// Makes a request; again, if the driver's state was lost with a kernel.
    fn ask(&self, request: Request, bulk: &mut [u8]) -> Result<Reply, DiskError> {
        let (driver, devices) = (&self.session.services.disk, &self.session.kernel.devices);
        if !driver.is_local() {
            return Err(DiskError::Absent);
        }
        let (request, endless) = (Request { life: self.life, ..request }, &Patience::ENDLESS);
        match devices.during(|| driver.ask_again(self.session, request, bulk, endless)) {
            Ok(Some(reply)) if reply.told == told::DONE => Ok(reply),
            Ok(Some(reply)) => Err(DiskError::of(reply.told)),
            Ok(None) | Err(_) => Err(DiskError::Device),
        }
    }

    /// Makes requests for all of `data`, from sector `at` on. A driver that another kernel executes
    /// moves as much at once as a message carries.
    fn each(&self, kind: u32, mut at: u64, mut data: &mut [u8]) -> Result<(), DiskError> {
        while !data.is_empty() {
            let piece = data.len().min(BUFFER);
            let request = Request { kind, length: piece as u32, at, ..Request::default() };
            let reply = self.ask(request, &mut data[..piece])?;
            // A reply that did not fit in its message may end within a sector.
            let moved = reply.filled.max(reply.taken) as usize / SECTOR * SECTOR;
            data = data.get_mut(moved..).filter(|_| moved > 0).ok_or(DiskError::Device)?;
            at += (moved / SECTOR) as u64;
        }
        Ok(())
    }

    /// Returns the number of sectors, and whether the disk is read-only.
    pub fn about(&self) -> Result<(u64, bool), DiskError> {
        let reply = self.ask(Request { kind: kind::ABOUT, ..Request::default() }, &mut [])?;
        Ok((reply.value, reply.flags & flag::READ_ONLY != 0))
    }

    /// Reads whole sectors, starting with `sector`; waits.
    pub fn read(&self, sector: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.each(kind::READ, sector, into)
    }

    /// Writes whole sectors, starting with `sector`; waits. `data` stays as it is: requests take
    /// mutable memory.
    pub fn write(&self, sector: u64, data: &mut [u8]) -> Result<(), DiskError> {
        self.each(kind::WRITE, sector, data)
    }

    /// Makes all earlier writes durable; waits.
    pub fn flush(&self) -> Result<(), DiskError> {
        self.ask(Request { kind: kind::FLUSH, ..Request::default() }, &mut []).map(|_| ())
    }
}

/// Tests the disk: writes, flushes and reads back the last sector, then restores it. Returns the
/// number of sectors. The error is a text for the user.
pub fn check(session: &Session) -> Result<u64, &'static str> {
    let disk = Disk { session, life: 0 };
    let (sectors, _) = disk.about().map_err(DiskError::text)?;
    if await_use(session.kernel, SETTLING, |now| now != Use::Unknown) != Use::Free {
        return Err("a file system has the disk; `fs df` shows it");
    }
    let last = sectors.checked_sub(1).ok_or("the disk is empty")?;
    let (mut before, mut after) = ([0; SECTOR], [0; SECTOR]);
    let mut pattern = [0; SECTOR];
    let mut prng = base::prng::Prng::new(arch::time::soc_time());
    pattern.iter_mut().for_each(|byte| *byte = prng.next() as u8);
    disk.read(last, &mut before).map_err(DiskError::text)?;
    disk.write(last, &mut pattern).map_err(DiskError::text)?;
    disk.flush().map_err(DiskError::text)?;
    disk.read(last, &mut after).map_err(DiskError::text)?;
    disk.write(last, &mut before).map_err(DiskError::text)?;
    if after == pattern { Ok(sectors) } else { Err("the data read differ from those written") }
}

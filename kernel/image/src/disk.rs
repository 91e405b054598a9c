//! Serves the disk to the file service: a thread takes the service's I/O requests, has the driver
//! execute them, and reports their results (`fs::vfs::disks`). Each kernel that executes the
//! driver's steps has such a thread, and they take what the service issues in turn.
//!
//! An ext2 on the disk is mounted at a directory with the disk's name, or at the root if the
//! board's command line contains `root=NAME`. The thread is a client of the service like any other,
//! so it does not matter which kernel executes the service; while there is nothing to do, it does
//! not poll ([`Patience::IDLE`]). When the service has restarted, the disk is mounted again.
//! Threads that serve others wait for the root file system ([`disk::await_root`]). With `ram=NAME`
//! the disk is one in memory ([`medium`]).

mod medium;

use abi::boot::device;
use abi::fs::{Errno, Op, Reply, Request, flag, io};
use alloc::string::String;
use alloc::{format, vec};
use drivers::disk::SECTOR;
use fs::client::Client;
use fs::ext2::LONGEST;
use kernel_msg::Level;
use kernel_node::ram_disk::RamDisk;
use kernel_services::disk::{self, Disk as Access, DiskError, Use};
use kernel_services::kernel::Kernel;
use kernel_services::services::{Patience, ServiceFailure};
use kernel_services::session::Session;
use medium::Medium;

/// Offset and size of an ext2 superblock.
const SUPERBLOCK: (u64, usize) = (1024, 1024);
/// Backoff while the service does not answer, in ns.
const PAUSE: u64 = 1_000_000_000;

/// Starts the thread, if this kernel drives a disk.
pub fn start(kernel: &'static Kernel) {
    if kernel.services.disk.is_local() && kernel.spawn("disk", None, thread, 0).is_err() {
        kernel_node::log!("no memory for a thread that serves the disk");
    }
}

fn thread(_: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    // It writes back, or works for a thread that waits.
    kernel.scheduler.mark_upkeep();
    serve(kernel);
    disk::set_use(kernel, Use::Free);
}

fn serve(kernel: &'static Kernel) {
    let Some((found, number)) = kernel.devices.numbered(kernel, device::BLOCK) else { return };
    let session = Session::at(kernel, Level(0));
    let name = abi::boot::text(&found.name);
    let top = kernel.option("root=") == Some(name);
    let medium = match kernel.option("ram=") == Some(name) {
        true => in_memory(kernel, unchecked(&session)),
        false => Ok(Medium::Device),
    };
    match medium {
        Ok(medium) => Disk { kernel, session, number, name, top, medium }.serve(),
        Err(why) => kernel_node::log!("{name}: not mounted: {why}"),
    }
}

/// Returns the memory that the soc has filled with the contents of `disk`.
fn in_memory(kernel: &Kernel, disk: Access<'_>) -> Result<Medium, &'static str> {
    let ram = RamDisk::take(kernel.blob).ok_or("the board has no memory for it")?;
    Medium::memory(ram, disk).map_err(DiskError::text)
}

/// Returns the disk for requests that are not the file service's.
fn unchecked(session: &Session) -> Access<'_> {
    Access { session, life: 0 }
}

/// A request of the file service. Its data are the first `bytes` bytes of the thread's buffer.
struct Job {
    number: u64,
    what: u16,
    sector: u64,
    bytes: usize,
}

/// Says why a file system that needs `memory` bytes is not mounted, and what helps.
fn text(why: Errno, memory: u64) -> String {
    match why {
        Errno::Nomem => format!(
            "the file service has less than the {} KiB that it needs, mostly for inodes; \
             make one with fewer inodes (mke2fs -N), or free files in memory",
            memory.div_ceil(1024)
        ),
        _ => format!("{why:?}"),
    }
}

/// The disk and its mount.
struct Disk {
    kernel: &'static Kernel,
    session: Session,
    number: u64,
    name: &'static str,
    /// Whether it is the root.
    top: bool,
    medium: Medium,
}

impl Disk {
    fn serve(&mut self) {
        let mut superblock = [0; SUPERBLOCK.1];
        let read = self.medium.read(
            unchecked(&self.session),
            SUPERBLOCK.0 / SECTOR as u64,
            &mut superblock,
        );
        let Some(memory) = read.ok().and_then(|()| fs::ext2::memory(&superblock)) else { return };
        disk::set_use(self.kernel, Use::Mounting);
        let mut how = flag::RESTARTED;
        let mut buffer = vec![0; LONGEST];
        // If another kernel has mounted it, a first question would wait for work.
        let mut next = Ok(Err(Errno::Noent));
        loop {
            match next {
                Ok(Ok(job)) => self.perform(&job, buffer.get_mut(..job.bytes).unwrap_or_default()),
                Ok(Err(Errno::Noent)) => {
                    let mounted = self.mount(memory);
                    if mounted == Ok(Ok(())) {
                        kernel_node::log!("{}: ext2, mounted", self.name);
                    }
                    match mounted {
                        // Busy: another kernel was faster. If that life has ended meanwhile, the
                        // next question finds no disk. Not mounted again before that: a request
                        // could wait for this thread.
                        Ok(Ok(()) | Err(Errno::Busy)) => {
                            let life = self.kernel.services.fs.lives();
                            disk::set_use(self.kernel, Use::Mounted(life));
                        }
                        Ok(Err(Errno::Restarted)) | Err(_) => self.pause(),
                        Ok(Err(why)) => {
                            let why = text(why, memory);
                            return kernel_node::log!("{}: not mounted: {why}", self.name);
                        }
                    }
                }
                Err(ServiceFailure::Restarted) => {}
                // A request that was taken may have been lost on its way here.
                Ok(Err(_)) | Err(_) => {
                    self.pause();
                    how = flag::RESTARTED;
                }
            }
            next = self.next(core::mem::take(&mut how), &mut buffer);
        }
    }

    fn pause(&self) {
        self.kernel.scheduler.sleep_until(arch::time::soc_time() + PAUSE);
    }

    fn ask(&self, request: Request, bulk: &mut [u8]) -> Result<Reply, ServiceFailure> {
        self.kernel.services.fs.ask(&self.session, request, bulk)
    }

    fn mount(&self, memory: u64) -> Result<Result<(), Errno>, ServiceFailure> {
        let on_device = matches!(self.medium, Medium::Device);
        let read_only = on_device && unchecked(&self.session).about().is_ok_and(|about| about.1);
        let how = if read_only { flag::READ } else { 0 } | if self.top { flag::TOP } else { 0 };
        let name = if self.top { b".".as_slice() } else { self.name.as_bytes() };
        let fs = &self.kernel.services.fs;
        let (done, failed) = fs.asking(&self.session, Reply::error(Errno::Io), |ask| {
            let mut client = Client(ask);
            client.at_root(|client, root| {
                let made = if self.top { Ok(()) } else { client.mkdir(root, name) };
                match made {
                    Ok(()) | Err(Errno::Exist) => {
                        client.mount(root, name, self.number, memory, how)
                    }
                    Err(why) => Err(why),
                }
            })
        });
        failed.map_or(Ok(done), Err)
    }

    /// Waits for the next request and takes it, with its data. With `RESTARTED` in `flags`, the
    /// service issues again what this kernel took before and has not completed.
    fn next(&self, flags: u16, buffer: &mut [u8]) -> Result<Result<Job, Errno>, ServiceFailure> {
        let request = Request { flags, ..Request::new(Op::NextIo, self.number) };
        let fs = &self.kernel.services.fs;
        let reply = fs.request_until(&self.session, &request, buffer, &Patience::IDLE)?;
        let reply = reply.ok_or(ServiceFailure::Nonsense)?;
        if reply.error != 0 {
            return Ok(Err(reply.errno()));
        }
        let (number, what) = (reply.handle, reply.flags);
        let bytes = usize::try_from(reply.other).unwrap_or(usize::MAX).min(LONGEST);
        let mut came = reply.filled as usize;
        while what == io::WRITE && came < bytes {
            // A message between kernels carries less than a block, and a request has several.
            let offset = came as u64;
            let request = Request { second: number, offset, flags: 0, ..request };
            let more = self.ask(request, buffer.get_mut(came..bytes).unwrap_or_default())?;
            if more.error != 0 || more.filled == 0 {
                return Ok(Err(Errno::Restarted));
            }
            came += more.filled as usize;
        }
        Ok(Ok(Job { number, what, sector: reply.value / SECTOR as u64, bytes }))
    }

    /// Executes a request and reports its result.
    fn perform(&mut self, job: &Job, data: &mut [u8]) {
        // The number begins with the life of the service.
        let access = Access { session: &self.session, life: job.number >> 32 };
        let done = match job.what {
            io::READ => self.medium.read(access, job.sector, data),
            io::WRITE => self.medium.write(access, job.sector, data),
            _ => self.medium.flush(access),
        };
        let flags = if done.is_ok() { flag::GOOD } else { 0 };
        let data = if job.what == io::READ { data } else { &mut [] };
        self.report(job.number, flags, data);
    }

    /// Reports the result of request `number` to the service: `flags` has `GOOD` on success, `data`
    /// is what was read. Data that does not fit in a message between kernels is sent in pieces.
    fn report(&self, number: u64, mut flags: u16, data: &mut [u8]) {
        let (bytes, mut from) = (data.len(), 0);
        loop {
            let piece = data.get_mut(from..).unwrap_or_default();
            let (offset, length) = (from as u64, piece.len() as u64);
            let request = Request { flags, offset, length, ..Request::new(Op::IoDone, number) };
            match self.ask(request, piece) {
                Ok(reply) if flags != 0 && reply.error == 0 && reply.value < bytes as u64 => {
                    from = reply.value as usize;
                }
                // The service refuses the data: report a failure instead.
                Ok(reply) if flags != 0 && reply.errno() == Errno::Inval => flags = 0,
                // Done; or the service no longer knows the request. If it has restarted, the new
                // mount makes its own requests.
                Ok(_) | Err(ServiceFailure::Restarted) => return,
                Err(_) => self.pause(),
            }
        }
    }
}

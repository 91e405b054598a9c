//! Takes and answers the jobs of a served file system (`abi::served`), for threads of this kernel.

use abi::fs::{Dirent, Errno, Op, Request, flag};
use abi::served::{DATA, Job, ROOM};
use alloc::vec;
use alloc::vec::Vec;
use kernel_services::kernel::Kernel;
use kernel_services::services::{Patience, ServiceFailure};
use kernel_services::session::Session;
use zerocopy::{FromBytes, IntoBytes};

/// The result of a job: a number and bytes.
pub type Said = Result<(u64, Vec<u8>), Errno>;

/// Executes a job. Its arguments are the job, its first name, and the bytes after that.
pub type Answer<'a> = &'a mut dyn FnMut(&Job, &[u8], &[u8]) -> Said;

/// Backoff while the service does not answer, in ns.
const PAUSE: u64 = 1_000_000_000;

/// The server of one file system.
pub struct Post {
    session: Session,
    number: u64,
}

/// A job that was taken.
pub struct Taken {
    /// Identifies the job in its answer.
    pub number: u64,
    pub job: Job,
    /// The bytes after the job's head: names and data.
    pub bulk: Vec<u8>,
}

impl Post {
    /// Creates the server with this number.
    pub fn new(session: Session, number: u64) -> Post {
        Post { session, number }
    }

    /// Takes and answers jobs. If the file system is not mounted, calls `establish`, which must
    /// mount it. Returns only if it cannot be mounted.
    pub fn serve(&self, answer: Answer<'_>, establish: &dyn Fn() -> Result<(), Errno>) {
        let mut how = flag::RESTARTED;
        loop {
            match self.next(core::mem::take(&mut how)) {
                Ok(Ok(taken)) => self.perform(&taken, answer),
                Ok(Err(Errno::Noent)) => match establish() {
                    Ok(()) => {}
                    Err(Errno::Restarted | Errno::Io) => self.pause(),
                    Err(why) => {
                        let number = self.number;
                        return kernel_node::log!("file server {number}: not mounted: {why:?}");
                    }
                },
                Err(ServiceFailure::Restarted) => {}
                // A job that was taken may have been lost on its way here.
                Ok(Err(_)) | Err(_) => {
                    self.pause();
                    how = flag::RESTARTED;
                }
            }
        }
    }

    fn kernel(&self) -> &'static Kernel {
        self.session.kernel
    }

    fn pause(&self) {
        self.kernel().scheduler.sleep_until(arch::time::soc_time() + PAUSE);
    }

    /// Waits for the next job and takes it. With `RESTARTED` in `flags`, the jobs that this server
    /// took before fail.
    pub fn next(&self, flags: u16) -> Result<Result<Taken, Errno>, ServiceFailure> {
        let mut room = vec![0; ROOM];
        let request = Request { flags, ..Request::new(Op::NextJob, self.number) };
        let fs = &self.kernel().services.fs;
        let reply = fs.request_until(&self.session, &request, &mut room, &Patience::IDLE)?;
        let reply = reply.ok_or(ServiceFailure::Nonsense)?;
        if reply.error != 0 {
            return Ok(Err(reply.errno()));
        }
        room.truncate(reply.filled as usize);
        let (job, bulk) = Job::read_from_prefix(&room).map_err(|_| ServiceFailure::Nonsense)?;
        Ok(Ok(Taken { number: reply.handle, job, bulk: bulk.to_vec() }))
    }

    fn perform(&self, taken: &Taken, answer: Answer<'_>) {
        let (name, rest) = taken.bulk.split_at_checked(taken.job.name.into()).unwrap_or_default();
        self.tell(taken.number, answer(&taken.job, name, rest));
    }

    /// Reports the result of a job.
    pub fn tell(&self, number: u64, said: Said) {
        let (error, value, mut data) = match said {
            Ok((value, data)) => (Errno::Success, value, data),
            Err(why) => (why, 0, Vec::new()),
        };
        let request = Request {
            second: error as u64,
            offset: value,
            length: data.len() as u64,
            ..Request::new(Op::JobDone, number)
        };
        // If this fails, the caller requests again, or has given up.
        let fs = &self.kernel().services.fs;
        let _ = fs.ask(&self.session, request, &mut data);
    }
}

/// Packs directory entries from the job's cookie on, as many as fit. Returns 1 with the bytes if
/// all are included, else 0. The first entry has cookie `FIRST_COOKIE`.
pub fn entries<'a>(job: &Job, all: impl Iterator<Item = (&'a [u8], u64, u8)>) -> (u64, Vec<u8>) {
    let mut data = Vec::new();
    for (cookie, (name, node, kind)) in (abi::fs::FIRST_COOKIE..).zip(all) {
        if cookie < job.offset {
            continue;
        }
        if data.len() + size_of::<Dirent>() + name.len() > DATA {
            return (0, data);
        }
        let name_bytes = name.len() as u32;
        let head = Dirent { next: cookie + 1, node, name: name_bytes, kind, reserved: [0; 3] };
        data.extend_from_slice(head.as_bytes());
        data.extend_from_slice(name);
    }
    (1, data)
}

//! Streams of bytes to and from the host: client of their driver.

use crate::kernel::Kernel;
use crate::services::{Patience, ServiceFailure};
use crate::session::Session;
use abi::boot::device;
use core::sync::atomic::{AtomicUsize, Ordering};
use drivers::request::{Reply, Request, kind, told};

/// The stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// An open stream, which one thread reads and one writes.
#[derive(Clone, Copy)]
pub struct Stream<'a> {
    pub session: &'a Session,
    /// Its number, from [`accept`].
    pub number: u64,
}

fn ask(
    session: &Session,
    request: Request,
    bulk: &mut [u8],
    patience: &Patience<'_>,
) -> Result<Reply, ServiceFailure> {
    let driver = &session.services.host;
    if !driver.is_local() {
        return Err(ServiceFailure::Absent);
    }
    let reply = driver.request_until(session, &request, bulk, patience)?;
    reply.ok_or(ServiceFailure::Nonsense)
}

/// Time between two attempts while the device does not work, in ns.
const PAUSE: u64 = 1_000_000_000;

/// Streams that this kernel has accepted and to which others may belong.
static BINDING: AtomicUsize = AtomicUsize::new(0);

/// Returns whether this kernel asks for streams: it serves the device, or has streams to which the
/// further ones may belong.
fn asks(kernel: &Kernel) -> bool {
    kernel.devices.serves(device::VSOCK) || BINDING.load(Ordering::Relaxed) != 0
}

/// Waits for the next stream that the host opens, and returns its number. A kernel that does not
/// ask for streams does not touch the service's state: if it died with it, all streams would end.
/// The caller calls [`Stream::set_single`] once, and closes the stream.
pub fn accept(session: &Session) -> u64 {
    let kernel = session.kernel;
    let request = Request { kind: kind::ACCEPT, ..Request::default() };
    let is_out = || !asks(kernel);
    loop {
        kernel.devices.await_serving(kernel, || asks(kernel));
        match ask(session, request, &mut [], &Patience::unless(&is_out).idle()) {
            Ok(reply) if reply.told == told::DONE => {
                BINDING.fetch_add(1, Ordering::Relaxed);
                return reply.value;
            }
            _ if is_out() => {}
            // All streams were lost with a kernel; the driver opens the device again.
            Err(ServiceFailure::Restarted) => {}
            _ => session.kernel.scheduler.sleep_until(arch::time::soc_time() + PAUSE),
        }
    }
}

impl Stream<'_> {
    fn ask(&self, kind: u32, bulk: &mut [u8]) -> Result<Reply, Gone> {
        let length = bulk.len() as u32;
        let request = Request { kind, length, at: self.number, ..Request::default() };
        match ask(self.session, request, bulk, &Patience::IDLE) {
            Ok(reply) if reply.told == told::DONE => Ok(reply),
            _ => Err(Gone),
        }
    }

    /// Waits for bytes and reads them. Returns their number; 0 at the end.
    pub fn read(&self, into: &mut [u8]) -> usize {
        self.ask(kind::READ, into).map_or(0, |reply| reply.filled as usize)
    }

    /// Fills `into`, or fails if the stream ends first.
    pub fn read_exact(&self, mut into: &mut [u8]) -> Result<(), Gone> {
        while !into.is_empty() {
            match self.read(into) {
                0 => return Err(Gone),
                bytes => into = &mut into[bytes..],
            }
        }
        Ok(())
    }

    /// Sends all of `from`, which stays as it is: requests take mutable memory.
    pub fn write(&self, mut from: &mut [u8]) -> Result<(), Gone> {
        while !from.is_empty() {
            let taken = self.ask(kind::WRITE, from)?.taken as usize;
            from = from.get_mut(taken..).filter(|_| taken > 0).ok_or(Gone)?;
        }
        Ok(())
    }

    /// Lets further streams go to other kernels: none of them belongs to this one. Called once for
    /// each that was accepted.
    pub fn set_single(&self) {
        // It may be gone already.
        let _ = self.ask(kind::SINGLE, &mut []);
        let kernel = self.session.kernel;
        BINDING.fetch_sub(1, Ordering::Relaxed);
        if !asks(kernel) {
            kernel.services.look_at_patience(kernel);
        }
    }

    /// Closes it.
    pub fn close(&self) {
        // It may be gone already.
        let _ = self.ask(kind::CLOSE, &mut []);
    }
}

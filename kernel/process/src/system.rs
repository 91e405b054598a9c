//! The port: what a process needs from its kernel.

use crate::errno::{Errno, Halt, Interrupted};
use abi::{fs, process};

/// A kernel, as one process sees it. Times are in ns.
///
/// What can wait ends with [`Interrupted`] when the process is told to end; so may anything else
/// here that takes long or is asked often, as a loop over a large file is. The file service's
/// `Close` is done in any case: [`crate::Process::close_all`] gives back what an ended process had.
pub trait System {
    /// Asks the file service, and waits for as long as it takes.
    fn files(&mut self, request: fs::Request, bulk: &mut [u8]) -> Result<fs::Reply, Interrupted>;

    /// The same for a read or a write, of which only the number of bytes is wanted.
    fn transfer(
        &mut self,
        request: &fs::Request,
        bulk: &mut [u8],
    ) -> Result<Result<u64, fs::Errno>, Interrupted> {
        Ok(moved(&self.files(*request, bulk)?))
    }

    /// As [`System::files`] until a time of the monotonic clock; `None`: that came first.
    fn files_until(
        &mut self,
        request: fs::Request,
        bulk: &mut [u8],
        deadline: u64,
    ) -> Result<Option<fs::Reply>, Interrupted>;

    /// Asks the process table, and waits for as long as it takes.
    fn processes(
        &mut self,
        request: process::Request,
        bulk: &mut [u8],
    ) -> Result<process::Reply, Interrupted>;

    /// The file service's handle under which kernel `kernel` knows what `handle` leads to: a kernel
    /// may have handles of its own for what it shares with nobody.
    fn handle_at(
        &mut self,
        _kernel: u16,
        handle: u64,
    ) -> Result<Result<u64, fs::Errno>, Interrupted> {
        Ok(Ok(handle))
    }

    /// Which kernel is to run the program that `path` leads to from the file service's handle
    /// `directory`. `wish`: a kernel's number, or [`abi::program::ANY_KERNEL`].
    fn place(
        &mut self,
        wish: u32,
        directory: u64,
        path: &[u8],
    ) -> Result<Result<u16, process::Errno>, Interrupted>;

    /// A clock that never goes back.
    fn monotonic(&mut self) -> u64;

    /// Since 1970, UTC.
    fn realtime(&mut self) -> u64;

    /// What this process has used of its core.
    fn cpu_time(&mut self) -> u64;

    /// The distance of two readings of a clock that differ.
    fn resolution(&self) -> u64 {
        1
    }

    /// Fills it with what nobody can guess.
    fn random(&mut self, into: &mut [u8]);

    /// Waits for a time of the monotonic clock. May return early.
    fn sleep_until(&mut self, deadline: u64) -> Result<(), Interrupted>;

    /// Lets others run.
    fn yield_now(&mut self);

    /// The number of the process.
    fn pid(&self) -> u32;
}

/// How many bytes a read or a write has moved.
pub fn moved(reply: &fs::Reply) -> Result<u64, fs::Errno> {
    if reply.error == 0 { Ok(reply.value) } else { Err(reply.errno()) }
}

/// Asks for something, of which an error is the program's.
#[inline]
pub(crate) fn ask(
    system: &mut dyn System,
    request: fs::Request,
    bulk: &mut [u8],
) -> Result<fs::Reply, Halt> {
    let reply = system.files(request, bulk)?;
    if reply.error == 0 { Ok(reply) } else { Err(Errno::from(reply.errno()).into()) }
}

/// The same where it is about a path: one that leaves its directory is a matter of rights.
pub(crate) fn ask_path(
    system: &mut dyn System,
    request: fs::Request,
    bulk: &mut [u8],
) -> Result<fs::Reply, Halt> {
    ask(system, request, bulk).map_err(|halt| match halt {
        Halt::Failed(Errno::PERM) => Errno::NOTCAPABLE.into(),
        other => other,
    })
}

/// Asks the process table.
pub(crate) fn ask_processes(
    system: &mut dyn System,
    request: process::Request,
    bulk: &mut [u8],
) -> Result<process::Reply, Halt> {
    let reply = system.processes(request, bulk)?;
    if reply.error == 0 { Ok(reply) } else { Err(Errno::from(reply.errno()).into()) }
}

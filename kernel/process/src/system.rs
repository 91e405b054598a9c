//! The port: services that a process needs from its kernel.

use crate::ends::Ends;
use crate::errno::{Errno, Halt, Interrupted};
use crate::polls::Polls;
use abi::{fs, net, process};

/// The kernel, as one thread of a process sees it. Times are in ns.
///
/// A method that waits returns [`Interrupted`] when a signal ends the process. One that waits for
/// others (a stream, a poll, a child, a time) also does when the process is to move to another
/// kernel: then it has had no effect, and the function is called again there. Other methods that
/// take long or are called often, as in a loop over a large file, may return it as well. `Close`
/// requests are always carried out, so that [`crate::Process::close_all`] can close the handles of
/// an ended process.
pub trait System: Ends {
    /// Sends a request to the file service and waits for the reply.
    fn files(&mut self, request: fs::Request, bulk: &mut [u8]) -> Result<fs::Reply, Interrupted>;

    /// The same for a read or a write, returning only the number of bytes. One of a stream may wait
    /// for others.
    fn transfer(
        &mut self,
        request: &fs::Request,
        bulk: &mut [u8],
        _is_stream: bool,
    ) -> Result<Result<u64, fs::Errno>, Interrupted> {
        Ok(moved(&self.files(*request, bulk)?))
    }

    /// Opens the root of the file service, with what the board mounts there.
    fn root(&mut self) -> Result<fs::Reply, Interrupted>;

    /// As [`System::files`], until a time of the monotonic clock; `None`: that time has come.
    fn files_until(
        &mut self,
        request: fs::Request,
        bulk: &mut [u8],
        deadline: u64,
    ) -> Result<Option<fs::Reply>, Interrupted>;

    /// Sends a request to the network service and waits for the reply.
    fn sockets(
        &mut self,
        request: net::Request,
        bulk: &mut [u8],
    ) -> Result<net::Reply, Interrupted>;

    /// Waits until one of these objects is ready, or has an error, and fills in what is known of
    /// all of them. Returns how many are; 0: it did not wait, or the time has come.
    fn poll(&mut self, polls: &mut Polls, wait: Wait) -> Result<Result<u64, Errno>, Interrupted>;

    /// Sends a request to the process table and waits for the reply.
    fn processes(
        &mut self,
        request: process::Request,
        bulk: &mut [u8],
    ) -> Result<process::Reply, Interrupted>;

    /// Returns the handle by which kernel `kernel` knows the file of `handle`. A kernel may have
    /// private handles, for files that only its own processes use.
    fn handle_at(
        &mut self,
        _kernel: u16,
        handle: u64,
    ) -> Result<Result<u64, fs::Errno>, Interrupted> {
        Ok(Ok(handle))
    }

    /// Checks that programs of kernel `kernel` can use a socket.
    fn socket_at(
        &mut self,
        _kernel: u16,
        _handle: u64,
    ) -> Result<Result<(), net::Errno>, Interrupted> {
        Ok(Ok(()))
    }

    /// Selects the kernel that runs the program at `path`, relative to the file service's handle
    /// `directory`. `requested`: a kernel's index, or [`abi::program::ANY_KERNEL`].
    fn place(
        &mut self,
        requested: u32,
        directory: u64,
        path: &[u8],
    ) -> Result<Result<u16, process::Errno>, Interrupted>;

    /// A clock that never goes back.
    fn monotonic(&mut self) -> u64;

    /// Returns the time of that clock from which timeouts of the present call count: when it began,
    /// if it is called again after the program has moved to this kernel.
    fn begun(&mut self) -> u64 {
        self.monotonic()
    }

    /// Time since 1970, UTC.
    fn realtime(&mut self) -> u64;

    /// CPU time of this process.
    fn cpu_time(&mut self) -> u64;

    /// CPU time of the calling thread.
    fn thread_time(&mut self) -> u64 {
        self.cpu_time()
    }

    /// Smallest difference between two readings of a clock.
    fn resolution(&self) -> u64 {
        1
    }

    /// Fills `into` with cryptographically random bytes.
    fn random(&mut self, into: &mut [u8]);

    /// Waits for a time of the monotonic clock. May return early.
    fn sleep_until(&mut self, deadline: u64) -> Result<(), Interrupted>;

    /// Lets other threads run.
    fn yield_now(&mut self) -> Result<(), Interrupted>;

    fn pid(&self) -> u32;
}

/// How long [`System::poll`] waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Not,
    /// Until a time of the monotonic clock.
    Until(u64),
    Endless,
}

/// Returns the number of bytes that a read or a write has moved.
#[inline]
pub fn moved(reply: &fs::Reply) -> Result<u64, fs::Errno> {
    if reply.error == 0 { Ok(reply.value) } else { Err(reply.errno()) }
}

/// Sends a request; an error of the file service becomes the program's.
#[inline]
pub(crate) fn ask(
    system: &mut dyn System,
    request: fs::Request,
    bulk: &mut [u8],
) -> Result<fs::Reply, Halt> {
    let reply = system.files(request, bulk)?;
    if reply.error == 0 { Ok(reply) } else { Err(Errno::from(reply.errno()).into()) }
}

/// Sends a request to the network service; its error becomes the program's.
pub(crate) fn ask_net(
    system: &mut dyn System,
    request: net::Request,
    bulk: &mut [u8],
) -> Result<net::Reply, Halt> {
    let reply = system.sockets(request, bulk)?;
    if reply.error == 0 { Ok(reply) } else { Err(Errno::from(reply.errno()).into()) }
}

/// The same for a request with a path: leaving the directory is an error of rights.
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

/// Sends a request to the process table.
pub(crate) fn ask_processes(
    system: &mut dyn System,
    request: process::Request,
    bulk: &mut [u8],
) -> Result<process::Reply, Halt> {
    let reply = system.processes(request, bulk)?;
    if reply.error == 0 { Ok(reply) } else { Err(Errno::from(reply.errno()).into()) }
}

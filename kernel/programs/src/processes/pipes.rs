//! Private pipes: pipes that only programs of this kernel use, kept outside the file service
//! (docs/design/files.md, decision 015). The logic is in `fs::private`; this module adds a lock and
//! two wait queues for each pipe.
//!
//! Contract: a request for a private pipe takes the pipe's lock and executes no step of the file
//! service. Before an end is passed to another kernel, the pipe **leaves**: it moves into the file
//! service. Other requests for the pipe wait for that. The thread that moves it waits only for the
//! service, which never waits for a private pipe.

use super::guest::{Guest, Way};
use crate::programs::PIPES;
use abi::fs::{Errno, Op, Poll, Reply, Request, flag};
use alloc::boxed::Box;
use arch::lock::Lock;
use core::sync::atomic::{AtomicU64, Ordering};
use fs::private::{self, Answer, Moved, Parcel, PrivatePipe, Side};
use kernel_process::Interrupted;
use kernel_sched::{Deadline, WaitQueue};
use kernel_services::kernel::Kernel;

struct Place {
    pipe: Lock<PrivatePipe>,
    /// Threads that wait to read, and to write.
    waiting: [WaitQueue; 2],
}

impl Place {
    fn wake(&self, kernel: &Kernel, side: Side) {
        self.waiting[side as usize].wake_all(&kernel.scheduler);
    }
}

/// The private pipes of this kernel.
pub struct Pipes {
    places: Box<[Place]>,
    /// How many have moved to the file service.
    left: AtomicU64,
}

impl Pipes {
    /// Creates unused pipes.
    pub fn new() -> Pipes {
        let place = |_| Place {
            pipe: Lock::new(kernel_node::ranks::PIPES, PrivatePipe::new()),
            waiting: [WaitQueue::new(), WaitQueue::new()],
        };
        Pipes { places: (0..PIPES).map(place).collect(), left: AtomicU64::new(0) }
    }

    fn open(&self, flags: u16) -> Option<Reply> {
        self.places.iter().enumerate().find_map(|(at, place)| {
            let mut pipe = place.pipe.lock();
            pipe.is_free().then(|| pipe.open(at, flags))
        })
    }

    fn place(&self, handle: u64) -> Option<&Place> {
        self.places.get(private::place(handle))
    }

    /// Returns the number of private pipes, and how many have moved to the file service.
    pub fn census(&self) -> (usize, u64) {
        let here = self.places.iter().filter(|place| place.pipe.lock().is_here()).count();
        (here, self.left.load(Ordering::Relaxed))
    }
}

impl Guest {
    /// Executes a request if it is for a private pipe, or opens one. All other requests are for the
    /// file service; if they name private pipes, these leave.
    #[inline]
    pub(super) fn by_pipe(
        &mut self,
        request: Request,
        bulk: &mut [u8],
        deadline: Option<u64>,
    ) -> Result<Way, Interrupted> {
        if private::is_private(request.handle) {
            return self.ask_pipe(request, bulk, deadline);
        }
        match Op::from_code(request.op) {
            Some(Op::Pipe) => Ok(self.open_pipe(request)),
            _ => Ok(Way::Service(request)),
        }
    }

    fn open_pipe(&mut self, request: Request) -> Way {
        let is_usual = request.flags & !flag::NONBLOCK == 0 && !self.is_shared();
        let opened = is_usual.then(|| self.processes.pipes.open(request.flags));
        opened.flatten().map_or(Way::Service(request), |reply| Way::Here(Some(reply)))
    }

    /// Calls `ask` with the locked pipe until it returns a value, and sleeps between calls. Returns
    /// `None` if the deadline comes first, and an error if the process must end.
    #[inline]
    fn attend<R>(
        &mut self,
        (place, side): (&Place, Side),
        deadline: Option<u64>,
        mut ask: impl FnMut(&mut PrivatePipe) -> Option<R>,
    ) -> Result<Option<R>, Interrupted> {
        let scheduler = &self.kernel().scheduler;
        let queue = &place.waiting[side as usize];
        loop {
            let mut pipe = place.pipe.lock();
            if let Some(answer) = ask(&mut pipe) {
                return Ok(Some(answer));
            }
            // Queued under the pipe's lock, so no wake is missed.
            scheduler.enqueue(queue, deadline.map(Deadline::Firm));
            drop(pipe);
            let is_over = deadline.is_some_and(|deadline| arch::time::soc_time() >= deadline);
            let sleeps = !is_over && !self.must_return();
            scheduler.block_in(queue, sleeps);
            kernel_services::idle::to_program(self.kernel());
            if self.must_return() {
                return Err(Interrupted);
            }
            if is_over {
                return Ok(None);
            }
        }
    }

    /// Executes a read or write of a private pipe. `None` means that it needs [`Guest::by_pipe`].
    #[inline]
    pub(super) fn by_pipe_alone(
        &mut self,
        request: &Request,
        bulk: &mut [u8],
    ) -> Result<Option<Result<u64, Errno>>, Interrupted> {
        let kernel = self.kernel();
        let Some(place) = self.processes.pipes.place(request.handle) else { return Ok(None) };
        let side = Side::of(request.handle);
        let moved = self.attend((place, side), None, |pipe| match pipe.transfer(request, bulk) {
            Moved::Waits => None,
            Moved::Bytes(done) => {
                if done != 0 {
                    place.wake(kernel, side.other());
                }
                Some(Some(Ok(done as u64)))
            }
            Moved::Failed(error) => Some(Some(Err(error))),
            Moved::Ask => Some(None),
        });
        moved.map(Option::flatten)
    }

    fn ask_pipe(
        &mut self,
        request: Request,
        bulk: &mut [u8],
        deadline: Option<u64>,
    ) -> Result<Way, Interrupted> {
        let kernel = self.kernel();
        let Some(place) = self.processes.pipes.place(request.handle) else {
            return Ok(Way::Here(Some(Reply::error(Errno::Badf))));
        };
        let side = Side::of(request.handle);
        loop {
            let answer = self.attend((place, side), deadline, |pipe| {
                let answer = pipe.ask(&request, bulk);
                if matches!(answer, Answer::Changed(_)) {
                    place.wake(kernel, side.other());
                    if request.op == Op::Close as u16 {
                        // Another thread may wait with the handle that is closed.
                        place.wake(kernel, side);
                    }
                }
                (answer != Answer::Waits).then_some(answer)
            })?;
            match answer {
                None => return Ok(Way::Here(None)),
                Some(Answer::Done(reply) | Answer::Changed(reply)) => {
                    return Ok(Way::Here(Some(reply)));
                }
                Some(Answer::Elsewhere(handle)) => {
                    return Ok(Way::Service(Request { handle, ..request }));
                }
                Some(Answer::Leave | Answer::Waits) => {
                    if let Err(why) = self.leave(place, request.handle) {
                        return Ok(Way::Here(Some(Reply::error(why))));
                    }
                }
            }
        }
    }

    /// Returns a handle that is valid in every kernel; a private pipe leaves for that.
    pub(super) fn for_others(&mut self, handle: u64) -> Result<Result<u64, Errno>, Interrupted> {
        if !private::is_private(handle) {
            return Ok(Ok(handle));
        }
        // A private pipe does not support polls: it leaves.
        match self.ask_pipe(Request::new(Op::Poll, handle), &mut [], None)? {
            Way::Service(request) => Ok(Ok(request.handle)),
            Way::Here(reply) => Ok(Err(reply.map_or(Errno::Io, |reply| reply.errno()))),
        }
    }

    /// Prepares a poll, which the service executes for all its handles: private pipes among them
    /// leave.
    pub(super) fn poll_pipes(
        &mut self,
        polls: &mut [Poll],
    ) -> Result<Result<(), Errno>, Interrupted> {
        for poll in polls {
            match self.for_others(poll.handle)? {
                Ok(handle) => poll.handle = handle,
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok(Ok(()))
    }

    /// Moves a pipe into the file service, unless it has left meanwhile.
    #[cold]
    fn leave(&mut self, place: &Place, handle: u64) -> Result<(), Errno> {
        let kernel = self.kernel();
        let Some(mut parcel) = place.pipe.lock().leave(handle) else { return Ok(()) };
        let (outcome, done) = match self.pipe_of_service(&mut parcel) {
            Ok(handles) => (Ok(handles), Ok(())),
            Err(why) => (Err(parcel), Err(why)),
        };
        if done.is_ok() {
            self.processes.pipes.left.fetch_add(1, Ordering::Relaxed);
        }
        let close = place.pipe.lock().left(outcome);
        close.into_iter().flatten().for_each(|handle| self.close_at_service(handle));
        [Side::Reader, Side::Writer].into_iter().for_each(|side| place.wake(kernel, side));
        done
    }

    /// Creates a pipe in the file service with the contents and flags of a private one.
    fn pipe_of_service(&mut self, parcel: &mut Parcel) -> Result<[u64; 2], Errno> {
        let made = self.at_service(Request::new(Op::Pipe, 0), &mut [])?;
        let handles = [made.handle, made.other];
        let filled = self.fill(handles, parcel);
        if filled.is_err() {
            handles.into_iter().for_each(|handle| self.close_at_service(handle));
        }
        filled.map(|()| handles)
    }

    fn fill(&mut self, handles: [u64; 2], parcel: &mut Parcel) -> Result<(), Errno> {
        let flags = parcel.flags;
        let mut rest = parcel.bytes();
        while !rest.is_empty() {
            let length = rest.len() as u64;
            let written =
                self.at_service(Request { length, ..Request::new(Op::Write, handles[1]) }, rest)?;
            if written.value == 0 {
                return Err(Errno::Io);
            }
            rest = rest.get_mut(written.value as usize..).unwrap_or_default();
        }
        for (handle, flags) in handles.into_iter().zip(flags) {
            let flags = flags & !(flag::READ | flag::WRITE);
            if flags != 0 {
                self.at_service(Request { flags, ..Request::new(Op::SetFlags, handle) }, &mut [])?;
            }
        }
        Ok(())
    }

    /// Makes a request that is never parked, so it cannot be interrupted.
    fn at_service(&mut self, request: Request, bulk: &mut [u8]) -> Result<Reply, Errno> {
        let reply = self.carry(request, bulk, None).ok().flatten().ok_or(Errno::Io)?;
        if reply.error == 0 { Ok(reply) } else { Err(reply.errno()) }
    }

    pub(super) fn close_at_service(&mut self, handle: u64) {
        // Fails only if the service has restarted; then there is no such handle.
        let _ = self.at_service(Request::new(Op::Close, handle), &mut []);
    }
}

//! Private pipes: pipes that only programs of this kernel use, or of this and one other, kept
//! outside the file service (docs/design/files.md, decisions 015 and 058). The logic is in
//! `fs::private`; this module adds a lock and two wait queues for each pipe.
//!
//! - here: requests of this kernel's programs for its own pipes
//! - [`delegated`]: those of another kernel's programs for them, which this kernel executes
//! - [`far`]: requests of this kernel's programs for pipes of another kernel
//!
//! Contract: a request for a private pipe takes the pipe's lock and executes no step of the file
//! service. Before an end is used in a way that is not supported here, the pipe **leaves**: it
//! moves into the file service. Other requests for the pipe wait for that. The thread that moves it
//! waits only for the service, which never waits for a private pipe.

mod delegated;
mod far;

use super::guest::{Guest, Way};
use crate::programs::PIPES;
use abi::fs::{Errno, Op, Poll, Reply, Request, flag};
use abi::quota::Quota;
use alloc::boxed::Box;
use arch::lock::{Guard, Lock};
use base::id::Life;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub use delegated::{hear, keep, look_again, serve, stream_room};
use fs::private::far::Far;
pub use fs::private::wire::is_ours;
use fs::private::{self, Answer, Moved, Parcel, PrivatePipe, Side};
use kernel_node::Node;
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

    fn wake_both(&self, kernel: &Kernel) {
        [Side::Reader, Side::Writer].into_iter().for_each(|side| self.wake(kernel, side));
    }
}

/// Makes requests to the file service. The requests are never parked, so they are not interrupted.
type AtService<'a> = &'a mut dyn FnMut(Request, &mut [u8]) -> Result<Reply, Errno>;

/// The private pipes of this kernel.
pub struct Pipes {
    places: Box<[Place]>,
    /// How many have moved to the file service.
    left: AtomicU64,
    /// Ends of other kernels' pipes, and threads that wait for answers about them.
    far: Lock<Far>,
    has_far: AtomicBool,
    answered: WaitQueue,
    /// The places of pipes that another kernel may use, one bit each.
    delegated: AtomicU64,
    /// Kernels that were sent something while they rested, one bit each.
    resting: AtomicU64,
    /// The thread [`keep`], while it waits, and whether it has work.
    keeper: WaitQueue,
    is_due: AtomicBool,
}

const _: () = assert!(PIPES <= u64::BITS as usize);

/// How many private pipes there are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Census {
    /// Of this kernel, and how many of these another one uses, too.
    pub here: usize,
    pub delegated: usize,
    /// How many have moved to the file service so far.
    pub left: u64,
    /// Ends of other kernels' pipes that programs of this one use.
    pub far: usize,
}

/// Returns this kernel in its present life.
#[inline]
fn life(node: &Node) -> Life {
    Life { kernel: node.me, epoch: node.epoch }
}

impl Pipes {
    /// Creates unused pipes.
    pub fn new() -> Pipes {
        let place = |_| Place {
            pipe: Lock::new(kernel_node::ranks::PIPES, PrivatePipe::new()),
            waiting: [WaitQueue::new(), WaitQueue::new()],
        };
        Pipes {
            places: (0..PIPES).map(place).collect(),
            left: AtomicU64::new(0),
            far: Lock::new(kernel_node::ranks::FAR_PIPES, Far::new()),
            has_far: AtomicBool::new(false),
            answered: WaitQueue::new(),
            delegated: AtomicU64::new(0),
            resting: AtomicU64::new(0),
            keeper: WaitQueue::new(),
            is_due: AtomicBool::new(false),
        }
    }

    fn open(&self, me: Life, flags: u16, quota: Quota) -> Option<Reply> {
        self.places.iter().enumerate().find_map(|(at, place)| {
            let mut pipe = place.pipe.lock();
            pipe.is_free().then(|| pipe.open(me, at, flags, quota))
        })
    }

    /// Returns the place of a pipe of this kernel.
    #[inline]
    fn place(&self, me: Life, handle: u64) -> Option<&Place> {
        self.places.get(private::place(handle)).filter(|_| private::home(handle) == me)
    }

    /// Moves a pipe into the file service, unless it has left meanwhile.
    #[cold]
    fn leave(
        &self,
        kernel: &Kernel,
        (place, handle): (&Place, u64),
        at_service: AtService<'_>,
    ) -> Result<(), Errno> {
        let Some(mut parcel) = place.pipe.lock().leave(handle) else { return Ok(()) };
        let (outcome, done) = match pipe_of_service(&mut parcel, at_service) {
            Ok(handles) => (Ok(handles), Ok(())),
            Err(why) => (Err(parcel), Err(why)),
        };
        if done.is_ok() {
            self.left.fetch_add(1, Ordering::Relaxed);
        }
        let mut pipe = place.pipe.lock();
        let close = pipe.left(outcome);
        let answered = delegated::answer(kernel, place, &mut pipe);
        drop(pipe);
        delegated::wake(kernel, answered);
        close.into_iter().flatten().for_each(|handle| close_by(at_service, handle));
        place.wake_both(kernel);
        done
    }

    /// Returns what there is of private pipes.
    pub fn census(&self) -> Census {
        let (left, far) = (self.left.load(Ordering::Relaxed), self.far.lock().count());
        let mut census = Census { left, far, ..Census::default() };
        for place in &self.places {
            let pipe = place.pipe.lock();
            census.here += usize::from(pipe.is_here());
            census.delegated += usize::from(pipe.is_here() && pipe.guest().is_some());
        }
        census
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
            return match self.is_own(request.handle) {
                true => self.ask_pipe(request, bulk, deadline),
                false => self.ask_far(request, bulk, deadline),
            };
        }
        match Op::from_code(request.op) {
            Some(Op::Pipe) => Ok(self.open_pipe(request)),
            _ => Ok(Way::Service(request)),
        }
    }

    fn open_pipe(&mut self, request: Request) -> Way {
        let is_usual = request.flags & !flag::NONBLOCK == 0 && !self.is_shared();
        let me = life(self.kernel());
        let quota = self.life().quota();
        let opened = is_usual.then(|| self.processes.pipes.open(me, request.flags, quota));
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
                if pipe.is_asked() {
                    let answered = delegated::answer(self.kernel(), place, &mut pipe);
                    drop(pipe);
                    delegated::wake(self.kernel(), answered);
                }
                return Ok(Some(answer));
            }
            let is_over = deadline.is_some_and(|deadline| arch::time::soc_time() >= deadline);
            let sleeps = || !is_over && !self.must_return();
            scheduler.wait_released(queue, deadline.map(Deadline::Firm), pipe, sleeps);
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
    #[inline(always)]
    pub(super) fn by_pipe_alone(
        &mut self,
        request: &Request,
        bulk: &mut [u8],
    ) -> Result<Option<Result<u64, Errno>>, Interrupted> {
        let kernel = self.kernel();
        // The pipe knows the whole handle.
        let Some(place) = self.processes.pipes.places.get(private::place(request.handle)) else {
            return Ok(None);
        };
        let side = Side::of(request.handle);
        loop {
            let mut pipe = place.pipe.lock();
            match pipe.transfer(request, bulk) {
                Moved::Bytes(done) => {
                    if done != 0 {
                        place.wake(kernel, side.other());
                    }
                    if pipe.is_asked() {
                        self.answer_asks(place, pipe);
                    }
                    return Ok(Some(Ok(done as u64)));
                }
                Moved::Waits => self.sleep_for(place, side, pipe)?,
                Moved::Failed(error) => return Ok(Some(Err(error))),
                Moved::Ask => return Ok(None),
            }
        }
    }

    /// Answers another kernel's asks about a pipe.
    #[inline(never)]
    fn answer_asks(&self, place: &Place, mut pipe: Guard<'_, PrivatePipe>) {
        let answered = delegated::answer(self.kernel(), place, &mut pipe);
        drop(pipe);
        delegated::wake(self.kernel(), answered);
    }

    /// Waits until a pipe, which is locked, has changed.
    #[inline]
    fn sleep_for(
        &self,
        place: &Place,
        side: Side,
        pipe: Guard<'_, PrivatePipe>,
    ) -> Result<(), Interrupted> {
        let (kernel, queue) = (self.kernel(), &place.waiting[side as usize]);
        let slept = kernel.scheduler.wait_released(queue, None, pipe, || !self.must_return());
        kernel_services::idle::to_program(kernel);
        if slept { Ok(()) } else { Err(Interrupted) }
    }

    fn ask_pipe(
        &mut self,
        request: Request,
        bulk: &mut [u8],
        deadline: Option<u64>,
    ) -> Result<Way, Interrupted> {
        let (kernel, pipes) = (self.kernel(), &self.processes.pipes);
        let Some(place) = pipes.place(life(kernel), request.handle) else {
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
                    if request.op == Op::Close as u16 {
                        self.leave_to_guest(place);
                    }
                    return Ok(Way::Here(Some(reply)));
                }
                Some(Answer::Elsewhere(handle)) => {
                    return Ok(Way::Service(Request { handle, ..request }));
                }
                Some(Answer::Leave | Answer::Waits) => {
                    let at_service = &mut |request, bulk: &mut [u8]| self.at_service(request, bulk);
                    let left = pipes.leave(kernel, (place, request.handle), at_service);
                    if let Err(why) = left {
                        return Ok(Way::Here(Some(Reply::error(why))));
                    }
                }
            }
        }
    }

    /// Returns whether a private pipe is one of this kernel.
    #[inline]
    fn is_own(&self, handle: u64) -> bool {
        private::home(handle) == life(self.kernel())
    }

    /// Lets a pipe leave that only another kernel's programs use: this one need not be awake for
    /// them. If it cannot, it stays.
    fn leave_to_guest(&mut self, place: &Place) {
        let left = place.pipe.lock().is_left_to_guest();
        if let Some(handle) = left {
            let (kernel, pipes) = (self.kernel(), &self.processes.pipes);
            let at_service = &mut |request, bulk: &mut [u8]| self.at_service(request, bulk);
            let _ = pipes.leave(kernel, (place, handle), at_service);
        }
    }

    /// Returns a handle that is valid in every kernel; a private pipe leaves for that.
    pub(super) fn for_others(&mut self, handle: u64) -> Result<Result<u64, Errno>, Interrupted> {
        if !private::is_private(handle) {
            return Ok(Ok(handle));
        }
        // A private pipe does not support polls: it leaves.
        match self.by_pipe(Request::new(Op::Poll, handle), &mut [], None)? {
            Way::Service(request) => Ok(Ok(request.handle)),
            Way::Here(reply) => Ok(Err(reply.map_or(Errno::Io, |reply| reply.errno()))),
        }
    }

    /// Returns a handle that a process of kernel `to` can duplicate while the caller has its own: a
    /// private pipe of this kernel stays here.
    pub(super) fn for_child(
        &mut self,
        to: Life,
        handle: u64,
    ) -> Result<Result<u64, Errno>, Interrupted> {
        let place = self.processes.pipes.place(life(self.kernel()), handle);
        if let Some(place) = place.filter(|_| private::is_private(handle)) {
            let offered = {
                let mut pipe = place.pipe.lock();
                self.processes.pipes.offers(handle);
                pipe.offer(handle, to)
            };
            match offered {
                Answer::Elsewhere(handle) => return Ok(Ok(handle)),
                Answer::Done(reply) if reply.error == 0 => return Ok(Ok(handle)),
                _ => {}
            }
        }
        self.for_others(handle)
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

    /// Makes a request that is never parked, so it cannot be interrupted.
    fn at_service(&mut self, request: Request, bulk: &mut [u8]) -> Result<Reply, Errno> {
        let mut reply = Reply::default();
        let done = self.carry(&request, (bulk, &mut reply), None);
        done.ok().filter(|is_done| *is_done).ok_or(Errno::Io)?;
        if reply.error == 0 { Ok(reply) } else { Err(reply.errno()) }
    }

    pub(super) fn close_at_service(&mut self, handle: u64) {
        close_by(&mut |request, bulk: &mut [u8]| self.at_service(request, bulk), handle);
    }
}

fn close_by(at_service: AtService<'_>, handle: u64) {
    // Fails only if the service has restarted; then there is no such handle.
    let _ = at_service(Request::new(Op::Close, handle), &mut []);
}

/// Creates a pipe in the file service with the contents and flags of a private one.
fn pipe_of_service(parcel: &mut Parcel, at_service: AtService<'_>) -> Result<[u64; 2], Errno> {
    let made = at_service(Request::new(Op::Pipe, 0).with_quota(parcel.quota), &mut [])?;
    let handles = [made.handle, made.other];
    let filled = fill(handles, parcel, at_service);
    if filled.is_err() {
        handles.into_iter().for_each(|handle| close_by(at_service, handle));
    }
    filled.map(|()| handles)
}

fn fill(handles: [u64; 2], parcel: &mut Parcel, at_service: AtService<'_>) -> Result<(), Errno> {
    let flags = parcel.flags;
    let mut rest = parcel.bytes();
    while !rest.is_empty() {
        let length = rest.len() as u64;
        let written = at_service(Request { length, ..Request::new(Op::Write, handles[1]) }, rest)?;
        if written.value == 0 {
            return Err(Errno::Io);
        }
        rest = rest.get_mut(written.value as usize..).unwrap_or_default();
    }
    for (handle, flags) in handles.into_iter().zip(flags) {
        let flags = flags & !(flag::READ | flag::WRITE);
        if flags != 0 {
            at_service(Request { flags, ..Request::new(Op::SetFlags, handle) }, &mut [])?;
        }
    }
    Ok(())
}

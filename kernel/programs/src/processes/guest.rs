//! What a program can call in its kernel: services, clocks, sleep, random bytes.
//!
//! Contract: a program reaches its kernel through `System` only. Requests to services must be ones
//! for programs (`Op::is_for_programs` of `abi::fs` and `abi::process`; all of `abi::net`); this
//! module refuses all others. The kernel's own requests for a program use [`Guest::root`] and
//! [`Guest::carry`]. The program's memory that a request uses is touched before the request, so no
//! step of a service faults on a page for which there is no memory. Handles that a request creates
//! are charged to the process's quota (`abi::quota`).

mod engine;
mod table;

use super::place::{Placed, place};
use super::threads::Thread;
use super::{LocalProcess, Processes, Program, moves, turns};
use crate::moves::Arrived;
use crate::programs;
use ::fs::private::far::Wrote;
use abi::fs::{self, Errno as FileError};
use abi::net;
use abi::process::{self, Errno};
use alloc::sync::Arc;
use base::id::{DomainId, Life};
use blake3::Hasher;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_msg::Level;
use kernel_msg::endpoint::peer_epoch;
use kernel_process::polls::Polls;
use kernel_process::{Errno as WasiErrno, Interrupted, System, Wait, moved};
use kernel_services::idle;
use kernel_services::kernel::Kernel;
use kernel_services::services::{Patience, ServiceFailure};
use kernel_services::session::Session;

/// How a request to the file service is answered.
pub enum Way {
    /// By this reply; `None` if the deadline came first.
    Here(Option<fs::Reply>),
    /// By the file service; this is the request to make.
    Service(fs::Request),
}

/// Number of random strings that this kernel has generated.
static GIVEN: AtomicU64 = AtomicU64::new(0);

/// The kernel, as one thread of a process sees it.
pub struct Guest {
    session: Session,
    pub(super) processes: &'static Processes,
    life: Arc<LocalProcess>,
    thread: Arc<Thread>,
    /// When the present call began, in chip time, if its program can move; 0 until that matters.
    called: Option<u64>,
    /// Why the process did not move, if the present call is to move it.
    refusal: Option<Errno>,
    /// The present request may wait for others, for as long as they like.
    waits_for_others: bool,
    /// The program that was found when this kernel was last chosen for one that starts.
    chosen: Option<Program>,
    /// What it was on the kernel that it comes from, until it is loaded.
    arrival: Option<Arc<Arrived>>,
    /// What the thread has written to pipes of other kernels.
    pub(super) wrote: Wrote,
}

impl Guest {
    /// Creates the interface of a thread of process `life`, to be used on that thread only.
    pub fn new(
        kernel: &'static Kernel,
        processes: &'static Processes,
        life: Arc<LocalProcess>,
        thread: Arc<Thread>,
    ) -> Guest {
        let session = Session::at(kernel, Level(0));
        Guest {
            session,
            processes,
            life,
            thread,
            called: None,
            refusal: None,
            waits_for_others: false,
            chosen: None,
            arrival: None,
            wrote: Wrote::default(),
        }
    }

    pub(super) fn kernel(&self) -> &'static Kernel {
        self.session.kernel
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn life(&self) -> &Arc<LocalProcess> {
        &self.life
    }

    /// Notes that its program can move to another kernel.
    pub(super) fn can_move(&mut self) {
        self.called.get_or_insert(0);
    }

    /// Notes that it comes from another kernel, in a call that began at this time.
    pub(super) fn comes_with(&mut self, called: u64, arrival: Arc<Arrived>) {
        (self.called, self.arrival) = (Some(called), Some(arrival));
    }

    /// Notes that the process does not move.
    pub(super) fn refuse(&mut self, why: Errno) {
        self.refusal = Some(why);
    }

    /// Notes, and reports to the table, that the process does not move.
    pub(super) fn stays(&mut self, why: Errno) {
        self.refuse(why);
        moves::stays(&self.session, &self.life, why);
    }

    /// Returns when the present call began; 0 if that does not matter.
    pub(super) fn called(&self) -> u64 {
        self.called.unwrap_or(0)
    }

    pub(super) fn thread(&self) -> &Arc<Thread> {
        &self.thread
    }

    /// Returns the first process of its tree.
    pub(super) fn tree(&self) -> u32 {
        self.life.quota().tree.owner
    }

    /// Counts a request to a service.
    pub(super) fn count_message(&self) {
        self.life.messages.fetch_add(1, Ordering::Relaxed);
    }

    /// Enters the process's turn.
    pub(super) fn enter_turn(&self) -> Result<(), Interrupted> {
        turns::enter(self.kernel(), &self.life, &self.thread)
    }

    /// Leaves it. Returns whether the thread was inside.
    pub(super) fn leave_turn(&self) -> bool {
        turns::leave(self.kernel(), &self.life, &self.thread)
    }

    /// Runs `work`, which may wait, outside the process's turn.
    #[inline]
    fn outside<R>(&self, work: impl FnOnce() -> Result<R, Interrupted>) -> Result<R, Interrupted> {
        let was_inside = self.leave_turn();
        let done = work()?;
        if was_inside {
            self.enter_turn()?;
        }
        Ok(done)
    }

    /// Returns whether the process may run on another kernel, too.
    pub(super) fn is_shared(&self) -> bool {
        self.life.turn.get().is_some()
    }

    /// Returns whether the system started the process.
    pub(super) fn is_root(&self) -> bool {
        self.life.quota().branch.owner == 0
    }

    /// Returns whether the process must end.
    pub(super) fn is_stopped(&self) -> bool {
        self.life.stop_signal().is_some()
    }

    /// Returns whether a request that waits must end, because the process must end; or because it
    /// is to move, and the request waits for others.
    pub(super) fn must_return(&self) -> bool {
        self.is_stopped() || self.waits_for_others && self.life.journey.is_called_away()
    }

    /// Returns whether a wait for others must end.
    pub(super) fn must_end_wait(&self) -> bool {
        self.is_stopped() || self.life.journey.is_called_away()
    }

    /// Makes a request that may wait for others, if `waits`.
    #[inline(always)]
    fn waiting<R>(&mut self, waits: bool, work: impl FnOnce(&mut Guest) -> R) -> R {
        self.waits_for_others = waits;
        let done = work(self);
        self.waits_for_others = false;
        done
    }

    fn ask_files(
        &mut self,
        request: fs::Request,
        bulk: &mut [u8],
        deadline: Option<u64>,
    ) -> Result<Option<fs::Reply>, Interrupted> {
        let was_inside = self.leave_turn();
        let reply = self.ask_files_outside(request, bulk, deadline)?;
        if was_inside && self.enter_turn().is_err() {
            // No descriptor gets what was opened.
            if let Some(reply) = reply.filter(|reply| reply.error == 0 && request.takes_quota()) {
                self.close_at_service(reply.handle);
                self.close_at_service(reply.other);
            }
            return Err(Interrupted);
        }
        Ok(reply)
    }

    fn ask_files_outside(
        &mut self,
        request: fs::Request,
        bulk: &mut [u8],
        deadline: Option<u64>,
    ) -> Result<Option<fs::Reply>, Interrupted> {
        if !fs::Op::from_code(request.op).is_some_and(fs::Op::is_for_programs) {
            return Ok(Some(fs::Reply::error(FileError::Perm)));
        }
        if !touch(bulk) {
            return Ok(Some(fs::Reply::error(FileError::Nomem)));
        }
        match self.by_pipe(request, bulk, deadline)? {
            Way::Here(reply) => Ok(reply),
            Way::Service(request) => {
                let mut reply = fs::Reply::default();
                let is_done = self.carry(&request, (bulk, &mut reply), deadline)?;
                Ok(is_done.then_some(reply))
            }
        }
    }

    /// Reads or writes.
    #[inline(always)]
    fn move_bytes(
        &mut self,
        request: &fs::Request,
        bulk: &mut [u8],
    ) -> Result<Result<u64, FileError>, Interrupted> {
        let is_ready = touch(bulk);
        if ::fs::private::is_private(request.handle) {
            if is_ready && let Some(done) = self.by_pipe_alone(request, bulk)? {
                return Ok(done);
            }
        } else if is_ready && !self.is_shared() {
            let mut reply = fs::Reply::default();
            let is_done = self.carry_free(request, (bulk, &mut reply), None)?;
            return if is_done { Ok(moved(&reply)) } else { Err(Interrupted) };
        }
        Ok(moved(&self.files(*request, bulk)?))
    }

    /// Makes a request to the file service, and puts the reply into its place. Returns false if the
    /// deadline came first. Memory of the program in `bulk` must have been touched.
    pub(super) fn carry(
        &mut self,
        request: &fs::Request,
        (bulk, reply): (&mut [u8], &mut fs::Reply),
        deadline: Option<u64>,
    ) -> Result<bool, Interrupted> {
        if request.takes_quota() {
            let charged = request.with_quota(self.life.quota());
            return self.carry_free(&charged, (bulk, reply), deadline);
        }
        self.carry_free(request, (bulk, reply), deadline)
    }

    /// The same for a request that takes no quota, or says whose.
    #[inline(always)]
    fn carry_free(
        &mut self,
        request: &fs::Request,
        (bulk, reply): (&mut [u8], &mut fs::Reply),
        deadline: Option<u64>,
    ) -> Result<bool, Interrupted> {
        self.life.messages.fetch_add(1, Ordering::Relaxed);
        let must_return = || self.must_return();
        let endless = Patience::unless(&must_return);
        let patience = deadline.map_or(endless, |deadline| endless.until(deadline));
        let services = &self.kernel().services;
        let ask = (bulk, &mut *reply);
        let answer = services.fs.request_into(&self.session, request, ask, &patience);
        idle::to_program(self.kernel());
        match answer {
            Ok(false) if must_return() => return Err(Interrupted),
            Ok(is_done) => return Ok(is_done),
            Err(ServiceFailure::Restarted) => *reply = fs::Reply::error(FileError::Restarted),
            Err(_) => *reply = fs::Reply::error(FileError::Io),
        }
        Ok(true)
    }
}

/// Touches as much of `bulk` as one request to the file service uses. Returns false without memory.
#[inline]
fn touch(bulk: &[u8]) -> bool {
    programs::touch(&bulk[..bulk.len().min(fs::STEP)])
}

impl System for Guest {
    fn files(&mut self, request: fs::Request, bulk: &mut [u8]) -> Result<fs::Reply, Interrupted> {
        self.ask_files(request, bulk, None)?.ok_or(Interrupted)
    }

    fn root(&mut self) -> Result<fs::Reply, Interrupted> {
        let was_inside = self.leave_turn();
        kernel_services::disk::await_root(self.kernel(), || self.must_return());
        let (request, mut reply) = (fs::Request::new(fs::Op::Root, 0), fs::Reply::default());
        if !self.carry(&request, (&mut [], &mut reply), None)? {
            return Err(Interrupted);
        }
        if was_inside && self.enter_turn().is_err() {
            self.close_at_service(reply.handle);
            return Err(Interrupted);
        }
        Ok(reply)
    }

    fn transfer(
        &mut self,
        request: &fs::Request,
        bulk: &mut [u8],
        is_stream: bool,
    ) -> Result<Result<u64, FileError>, Interrupted> {
        // One write of a program may be divided into a thousand of these.
        if self.is_stopped() {
            return Err(Interrupted);
        }
        self.waiting(is_stream, |guest| guest.move_bytes(request, bulk))
    }

    fn files_until(
        &mut self,
        request: fs::Request,
        bulk: &mut [u8],
        deadline: u64,
    ) -> Result<Option<fs::Reply>, Interrupted> {
        self.waiting(true, |guest| guest.ask_files(request, bulk, Some(deadline)))
    }

    fn sockets(
        &mut self,
        request: net::Request,
        bulk: &mut [u8],
    ) -> Result<net::Reply, Interrupted> {
        self.ask_sockets(request, bulk)
    }

    fn poll(
        &mut self,
        polls: &mut Polls,
        wait: Wait,
    ) -> Result<Result<u64, WasiErrno>, Interrupted> {
        self.poll_all(polls, wait)
    }

    fn socket_at(
        &mut self,
        kernel: u16,
        _handle: u64,
    ) -> Result<Result<(), net::Errno>, Interrupted> {
        Ok(self.share_sockets(kernel))
    }

    fn processes(
        &mut self,
        request: process::Request,
        bulk: &mut [u8],
    ) -> Result<process::Reply, Interrupted> {
        if !process::Op::from_code(request.op).is_some_and(process::Op::is_for_programs) {
            return Ok(process::Reply::error(Errno::Perm));
        }
        self.life.messages.fetch_add(1, Ordering::Relaxed);
        if !programs::touch(bulk) {
            return Ok(process::Reply::error(Errno::Nomem));
        }
        if self.life.is_satellite() {
            // Its children are known where its normal threads are.
            return Ok(process::Reply::error(Errno::Nosys));
        }
        // The process was to move itself, and has tried.
        let is_own_move =
            request.op == process::Op::Move as u16 && request.pid.unsigned_abs() == self.life.pid;
        if let Some(why) = self.refusal.filter(|_| is_own_move) {
            return Ok(process::Reply::error(why));
        }
        let asking = self.life.children.before(&request);
        let starts_here = request.op == process::Op::Spawn as u16
            && request.kernel == u16::from(self.kernel().me.0);
        let program = self.chosen.take().filter(|_| starts_here);
        let answer = self.outside(|| match starts_here {
            true => self.spawn_here(&request, bulk, program),
            false => self.ask_processes(request, bulk),
        });
        idle::to_program(self.kernel());
        let reply = answer?;
        asking.note(self.life.group.load(Ordering::Relaxed), &request, &reply);
        Ok(reply)
    }

    fn handle_at(
        &mut self,
        kernel: u16,
        handle: u64,
    ) -> Result<Result<u64, FileError>, Interrupted> {
        let (own, to) = (self.kernel(), DomainId(kernel as u8));
        if to == own.me {
            return Ok(Ok(handle));
        }
        match peer_epoch(own.soc.state_word(to)) {
            Some(epoch) => self.for_child(Life { kernel: to, epoch }, handle),
            None => self.for_others(handle),
        }
    }

    fn place(
        &mut self,
        requested: u32,
        directory: u64,
        path: &[u8],
    ) -> Result<Result<u16, Errno>, Interrupted> {
        let placed = self.outside(|| Ok(place(&self.session, requested, Some(directory), path)))?;
        idle::to_program(self.kernel());
        Ok(placed.map(|Placed { kernel, program }| {
            self.chosen = program;
            kernel
        }))
    }

    fn monotonic(&mut self) -> u64 {
        arch::time::soc_time()
    }

    fn begun(&mut self) -> u64 {
        let now = arch::time::soc_time();
        match &mut self.called {
            None => now,
            Some(called) => {
                if *called == 0 {
                    *called = now;
                }
                *called
            }
        }
    }

    fn realtime(&mut self) -> u64 {
        self.kernel().time_of_day(arch::time::soc_time())
    }

    fn resolution(&self) -> u64 {
        1_000_000_000_u64.div_ceil(arch::cpu::clock_hz())
    }

    fn cpu_time(&mut self) -> u64 {
        self.life.threads.ran(&self.kernel().scheduler)
    }

    fn thread_time(&mut self) -> u64 {
        match self.called {
            // It has one thread, and may have run on another kernel.
            Some(_) => self.cpu_time(),
            None => self.thread.ran(&self.kernel().scheduler),
        }
    }

    fn random(&mut self, into: &mut [u8]) {
        let kernel = self.kernel();
        let piece = GIVEN.fetch_add(1, Ordering::Relaxed);
        let mut hasher = Hasher::new_keyed(&kernel.blob.given.seed);
        hasher.update(&[kernel.me.0]).update(&kernel.epoch.0.to_le_bytes());
        hasher.update(&piece.to_le_bytes());
        hasher.finalize_xof().fill(into);
    }

    fn sleep_until(&mut self, deadline: u64) -> Result<(), Interrupted> {
        let slept = self.outside(|| self.pause(deadline));
        idle::to_program(self.kernel());
        slept
    }

    fn yield_now(&mut self) -> Result<(), Interrupted> {
        let yielded = self.outside(|| {
            self.kernel().scheduler.yield_now();
            Ok(())
        });
        idle::to_program(self.kernel());
        yielded
    }

    fn pid(&self) -> u32 {
        self.life.pid
    }
}

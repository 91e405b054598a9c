//! Sockets of programs, and polls over objects of all kinds, as parts of [`Guest`].
//!
//! Contract: as in [`super::guest`]. A wait leaves the process's turn, and ends when the process
//! must end. New handles are charged to the process tree.

use super::guest::Guest;
use super::threads;
use crate::programs;
use abi::fs::STEP;
use abi::net::{Errno, Op, Poll, Reply, Request};
use kernel_process::polls::Polls;
use kernel_process::{Errno as WasiErrno, Interrupted, Wait};
use kernel_services::idle;
use kernel_services::services::{Patience, ServiceFailure};
use share::Mode;

impl Guest {
    /// Makes a request to the network service.
    pub(super) fn ask_sockets(
        &mut self,
        mut request: Request,
        bulk: &mut [u8],
    ) -> Result<Reply, Interrupted> {
        let closes = request.op == Op::Close as u16;
        // One write of a program may be divided into many of these.
        if self.is_stopped() && !closes {
            return Err(Interrupted);
        }
        if !programs::touch(&bulk[..bulk.len().min(STEP)]) {
            return Ok(Reply::error(Errno::Nomem));
        }
        request.tree = self.tree();
        let was_inside = self.leave_turn();
        let reply = self.carry_to_net(&request, bulk);
        if was_inside && self.enter_turn().is_err() {
            // No descriptor gets what was opened.
            if let Ok(reply) = reply
                && reply.error == 0
                && request.creates()
            {
                let _ = self.carry_to_net(&Request::new(Op::Close, reply.handle), &mut []);
            }
            return Err(Interrupted);
        }
        reply
    }

    #[inline]
    fn carry_to_net(&mut self, request: &Request, bulk: &mut [u8]) -> Result<Reply, Interrupted> {
        self.count_message();
        // A connection that was begun is not begun twice.
        let op = Op::from_code(request.op);
        let waits = matches!(op, Some(Op::Accept | Op::Receive | Op::Send));
        let is_over = || if waits { self.must_end_wait() } else { self.is_stopped() };
        let patience = Patience::unless(&is_over);
        let services = &self.kernel().services;
        let answer = services.net.request_until(self.session(), request, bulk, &patience);
        idle::to_program(self.kernel());
        match answer {
            Ok(reply) => {
                if let Some(failed) = &reply
                    && failed.error != 0
                {
                    self.explain(failed.errno());
                }
                reply.ok_or(Interrupted)
            }
            Err(ServiceFailure::Restarted) => Ok(Reply::error(Errno::Restarted)),
            Err(_) => Ok(Reply::error(Errno::Io)),
        }
    }

    /// Says in the log which table is full, if that is why a request has failed.
    #[cold]
    fn explain(&self, why: Errno) {
        let life = self.life();
        if let Some(text) = life.explained.explain(why) {
            let name = alloc::string::String::from_utf8_lossy(life.name());
            kernel_node::log!("process {} ({name}): {text}", life.pid);
        }
    }

    /// Checks that programs of kernel `kernel` can use sockets of this one.
    pub(super) fn share_sockets(&self, kernel: u16) -> Result<(), Errno> {
        let is_one =
            matches!(self.kernel().services.net.mode(), Mode::Shadowed | Mode::Delegated(_));
        let is_here = usize::from(kernel) == self.kernel().me.index();
        if is_one || is_here { Ok(()) } else { Err(Errno::Notsup) }
    }

    /// Waits for objects of all kinds at once.
    pub(super) fn poll_all(
        &mut self,
        polls: &mut Polls,
        wait: Wait,
    ) -> Result<Result<u64, WasiErrno>, Interrupted> {
        let was_inside = self.leave_turn();
        let found = self.poll_outside(polls, wait);
        if was_inside {
            self.enter_turn()?;
        }
        found
    }

    fn poll_outside(
        &mut self,
        polls: &mut Polls,
        wait: Wait,
    ) -> Result<Result<u64, WasiErrno>, Interrupted> {
        // It counts the poll until this returns. One that does not wait leaves nothing anywhere.
        let waits = wait != Wait::Not;
        let count = if waits { polls.len() } else { 0 };
        let polled = threads::poll(self.processes, self.life(), self.thread(), count);
        if polled.is_none() {
            self.explain(Errno::Nomem);
            return Ok(Err(WasiErrno::NOMEM));
        }
        if let Err(why) = self.poll_pipes(&mut polls.files)? {
            return Ok(Err(why.into()));
        }
        if polls.ends.is_empty() {
            return self.poll_services((&mut polls.files, &mut polls.sockets), wait, &|| false);
        }
        self.poll_with_ends(polls, wait)
    }

    /// Waits for files and sockets, or until a condition holds. Code that makes it true wakes this
    /// thread.
    pub(super) fn poll_services(
        &mut self,
        (files, sockets): (&mut [Poll], &mut [Poll]),
        wait: Wait,
        is_ready: &dyn Fn() -> bool,
    ) -> Result<Result<u64, WasiErrno>, Interrupted> {
        self.count_message();
        let is_over = || is_ready() || self.must_end_wait();
        let endless = Patience::unless(&is_over);
        let patience = match wait {
            Wait::Endless => endless,
            Wait::Until(deadline) => endless.until(deadline),
            Wait::Not => endless.until(0),
        };
        let services = &self.kernel().services;
        let tree = self.tree();
        let found = services.poll(self.session(), (files, &mut *sockets), tree, &patience);
        idle::to_program(self.kernel());
        match found {
            Ok(0) if self.must_end_wait() && wait != Wait::Not => Err(Interrupted),
            Ok(count) => Ok(Ok(count)),
            Err(why) => {
                if let Some(error) = Errno::from_code(why).filter(|_| !sockets.is_empty()) {
                    self.explain(error);
                }
                Ok(Err(WasiErrno(why)))
            }
        }
    }
}

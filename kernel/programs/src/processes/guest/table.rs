//! Requests of a program to the process table, and pauses.

use super::Guest;
use crate::processes::{Program, ask, reports, start};
use ::processes::client::Spawn;
use abi::process::{self, Errno};
use kernel_process::Interrupted;
use kernel_services::services::Patience;

impl Guest {
    /// Makes a request to the process table. A caller that waits for children does not notice a
    /// restart of the table: it gets their ends as soon as all kernels have reported.
    pub(super) fn ask_processes(
        &self,
        request: process::Request,
        bulk: &mut [u8],
    ) -> Result<process::Reply, Interrupted> {
        // A child that is being started is not abandoned because its parent moves.
        let waits = request.op == process::Op::Wait as u16;
        let moves = waits || request.op == process::Op::Move as u16;
        let journey = &self.life.journey;
        let is_stopped = || self.is_stopped() || moves && journey.is_called_away();
        loop {
            let answer = ask(&self.session, request, bulk, &Patience::unless(&is_stopped));
            let reply = match answer {
                Ok(reply) => reply.ok_or(Interrupted)?,
                Err(_) => return Ok(process::Reply::error(Errno::Io)),
            };
            if !waits
                || !reports::must_ask_again(
                    &self.session,
                    self.processes,
                    &self.life,
                    &request,
                    &reply,
                )
            {
                return Ok(reply);
            }
            self.pause(arch::time::soc_time() + reports::PAUSE_NS)?;
        }
    }

    /// Starts a process on this kernel.
    pub(super) fn spawn_here(
        &self,
        request: &process::Request,
        beginning: &[u8],
        program: Option<Program>,
    ) -> Result<process::Reply, Interrupted> {
        let process::Request { kernel, parent, group, flags, .. } = *request;
        let spawn = Spawn { kernel, parent, group, flags, beginning };
        let must_end = || self.is_stopped();
        match start::here(&self.session, self.processes, spawn, program, &must_end) {
            Ok(pid) => {
                let status = self.session.kernel.epoch.0.into();
                Ok(process::Reply { pid, status, ..process::Reply::default() })
            }
            Err(_) if must_end() => Err(Interrupted),
            Err(why) => Ok(process::Reply::error(why)),
        }
    }

    /// Sleeps until `deadline`, unless the process must end or is to move.
    pub(super) fn pause(&self, deadline: u64) -> Result<(), Interrupted> {
        let must_return = || self.must_end_wait();
        let scheduler = &self.session.kernel.scheduler;
        self.thread.sleep(scheduler, deadline, must_return);
        if must_return() { Err(Interrupted) } else { Ok(()) }
    }
}

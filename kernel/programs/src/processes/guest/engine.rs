//! What the engine needs of a thread's kernel: threads, waits at an address, moves.

use super::super::{light, moves, threads, turns};
use super::Guest;
use crate::lights::turn::Turn;
use crate::programs;
use abi::process::Errno;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use kernel_engine::{Arrival, Lent, Region, Start, Unwound, Waited};
use kernel_process::{Interrupted, Process};
use kernel_services::idle;

impl kernel_engine::Guest for Guest {
    fn stop_signal(&self) -> Option<u16> {
        self.life.stop_signal()
    }

    fn has_room(&self, bytes: u64) -> bool {
        programs::has_room(bytes)
    }

    fn is_short(&self) -> bool {
        self.life.short.load(Ordering::Relaxed) != 0
    }

    fn begin_thread(&mut self, start: Start) -> Option<u32> {
        let begun = threads::spawn(self.kernel(), self.processes, &self.life, start, None);
        idle::to_program(self.kernel());
        begun
    }

    #[inline]
    fn pause(&mut self) -> Result<(), Interrupted> {
        match self.is_shared() {
            true => turns::pause(self.kernel(), &self.life, &self.thread),
            false => Ok(()),
        }
    }

    fn begin_light(&mut self, start: Start) -> Result<Option<u32>, Interrupted> {
        let me = (&self.life, &*self.thread);
        let begun = light::begin(self.kernel(), self.processes, me, start);
        idle::to_program(self.kernel());
        begun
    }

    fn lend(&mut self) -> Option<Arc<dyn Lent>> {
        let memory = self.life.turn.get()?.memory.clone();
        Some(memory)
    }

    fn has_region(&mut self, region: &Arc<Region>) {
        if let Some(turn) = self.life.turn.get() {
            turn.set_region(region);
        }
    }

    fn wait_at(
        &mut self,
        address: u64,
        is_expected: &dyn Fn() -> bool,
        deadline: Option<u64>,
    ) -> Result<Waited, Interrupted> {
        if let Some(turn) = self.life.turn.get().cloned() {
            return self.wait_in(&turn, (address, is_expected), deadline);
        }
        let is_stopped = || self.is_stopped();
        let (scheduler, threads) = (&self.kernel().scheduler, &self.life.threads);
        let place = (address, is_expected);
        let waited = threads.wait_at(scheduler, &self.thread, place, deadline, &is_stopped);
        idle::to_program(self.kernel());
        waited
    }

    fn notify(&mut self, address: u64, count: u32) -> u32 {
        if let Some(turn) = self.life.turn.get() {
            return turn.notify(self.kernel(), address, count);
        }
        self.life.threads.notify(&self.kernel().scheduler, address, count)
    }

    fn has_memory(&self, bytes: u64) {
        self.life.memory.fetch_max(bytes, Ordering::Relaxed);
    }

    #[inline]
    fn is_called_away(&self) -> bool {
        self.life.journey.is_called_away()
    }

    fn calls(&mut self) {
        self.called = self.called.map(|_| 0);
        self.refusal = None;
    }

    fn cannot_move(&mut self) {
        self.stays(Errno::Nomem);
    }

    fn depth(&self) -> u64 {
        self.thread.base().saturating_sub(arch::backtrace::fp())
    }

    fn depart(&mut self, process: &Process, memory: &[u8], unwound: &Unwound) -> bool {
        self.pass_on(process, memory, unwound)
    }

    fn arrival(&mut self) -> Option<Arc<dyn Arrival>> {
        self.arrival.take().map(|arrival| arrival as Arc<dyn Arrival>)
    }

    fn arrived(&mut self) -> bool {
        moves::arrived(&self.session, self.processes, &self.life)
    }
}

impl Guest {
    /// Waits at an address, in a process that runs on two kernels.
    fn wait_in(
        &mut self,
        turn: &Turn,
        (address, is_expected): (u64, &dyn Fn() -> bool),
        deadline: Option<u64>,
    ) -> Result<Waited, Interrupted> {
        let Some(place) = turn.begin_wait(address, is_expected) else {
            return Ok(Waited::Unexpected);
        };
        loop {
            self.outside(|| {
                turn.sleep(self.kernel(), place, deadline, &|| self.is_stopped());
                Ok(())
            })?;
            if self.is_stopped() {
                return Err(Interrupted);
            }
            let is_late = deadline.is_some_and(|deadline| arch::time::soc_time() >= deadline);
            match turn.end_wait(place, is_late) {
                Some(true) => return Ok(Waited::Notified),
                Some(false) => return Ok(Waited::TimedOut),
                // It was woken by a late notice to another thread at this place.
                None => {}
            }
        }
    }
}

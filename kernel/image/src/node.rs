//! What every part of a kernel knows of it: the board, its place there, the chip, its threads.
//!
//! Contract: nothing here knows the parts that stand on it. What a part needs beyond this it is
//! given where it is made (`boot`), or by its caller.

use crate::soc::Soc;
use crate::symbols::Symbols;
use abi::boot::{Blob, Domain};
use alloc::boxed::Box;
use alloc::vec::Vec;
use arch::lock::Lock;
use arch::shared::Window;
use base::id::{CoreId, DomainId, Epoch};
use core::fmt::{self, Write};
use core::sync::atomic::AtomicU64;
use kernel_msg::notify::Attendance;
use kernel_sched::trace::TraceLog;
use kernel_sched::{PRIORITY_NORMAL, Scheduler, SpawnError, ThreadId};

/// One kernel, as its parts see it.
pub struct Node {
    /// What it knows about its board.
    pub blob: &'static Blob,
    /// Which domain it is on.
    pub me: DomainId,
    /// Which of that domain's cold boots it is.
    pub epoch: Epoch,
    /// The uncached window.
    pub window: Window,
    /// This domain's own page in it.
    pub own_page: Window,
    /// The chip.
    pub soc: &'static Soc,
    /// Rings the soc at a vector, for drivers.
    pub kick: Box<dyn Fn(u32) + Send + Sync>,
    /// Threads.
    pub scheduler: Scheduler,
    /// Names of its functions.
    pub symbols: Option<Symbols>,
    /// Whether each core polls for messages.
    pub attendance: Vec<Lock<Attendance>>,
    /// Trace points.
    pub trace: &'static TraceLog,
    /// Chip time at boot.
    pub booted_at: u64,
    /// Ticks of the local clock from reset to the monitor, without waiting for others.
    pub boot_ticks: AtomicU64,
}

impl Node {
    /// The other kernels of this board.
    pub fn others(&self) -> impl Iterator<Item = DomainId> + use<> {
        let (me, count) = (self.me, self.blob.domains().len() as u8);
        (0..count).map(DomainId).filter(move |&id| id != me)
    }

    /// Wakes all that were stopped wherever they were: the caller waits for what one of them may
    /// have.
    pub fn rouse(&self) {
        self.others().for_each(|id| self.soc.rouse(id));
    }

    /// Its domain's description.
    pub fn domain(&self) -> &'static Domain {
        &self.blob.domains()[self.me.index()]
    }

    /// Its domain's name.
    pub fn name(&self) -> &'static str {
        abi::boot::text(&self.domain().name)
    }

    /// ns since 1970, UTC, at a time of the chip's clock.
    pub fn time_of_day(&self, now: u64) -> u64 {
        self.blob.given.begun.wrapping_add(now)
    }

    /// What the board's command line says behind `name`, which ends with `=`; `run=` comes last.
    pub fn option(&self, name: &str) -> Option<&'static str> {
        let arguments = abi::boot::text(&self.blob.arguments);
        let before = arguments.split_once("run=").map_or(arguments, |(before, _)| before);
        before.split_ascii_whitespace().find_map(|word| word.strip_prefix(name))
    }

    /// A thread of normal priority.
    pub fn spawn(
        &'static self,
        name: &'static str,
        core: Option<CoreId>,
        entry: fn(usize),
        argument: usize,
    ) -> Result<ThreadId, SpawnError> {
        self.scheduler.spawn(name, PRIORITY_NORMAL, core, entry, argument)
    }

    /// Chip time is what the soc says, and sleepers wake by it.
    pub fn calibrate_clock(&self) {
        self.soc.calibrate_clock();
        self.scheduler.clock_changed();
    }

    /// The last `count` trace records as text.
    pub fn write_trace(&self, out: &mut dyn Write, count: usize) -> fmt::Result {
        let mut result = Ok(());
        self.trace.for_last(count, &mut |record| {
            let (s, us) = (record.time / 1_000_000_000, record.time / 1000 % 1_000_000);
            let line = writeln!(
                out,
                "  [{s:5}.{us:06}] core {} {} {} {}",
                record.core, record.name, record.a, record.b
            );
            result = core::mem::replace(&mut result, Ok(())).and(line);
        });
        result
    }
}

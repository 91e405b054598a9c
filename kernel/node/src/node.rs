//! What every part of a kernel may use: the board's description, this domain, the soc, the
//! scheduler, the trace log.
//!
//! Contract: this module imports no driver and no service. A part that needs more receives it when
//! `boot` creates it, or from its caller.

use crate::attendance::Attendances;
use crate::soc::Soc;
use crate::symbols::Symbols;
use abi::boot::{Blob, Domain};
use alloc::boxed::Box;
use arch::shared::Window;
use base::id::{CoreId, DomainId, Epoch};
use core::fmt::{self, Write};
use core::sync::atomic::AtomicU64;
use kernel_sched::trace::TraceLog;
use kernel_sched::{PRIORITY_NORMAL, Scheduler, SpawnError, ThreadId};

/// The basis of a kernel: everything but its drivers and services.
pub struct Node {
    /// The board's description.
    pub blob: &'static Blob,
    /// The domain that this kernel runs.
    pub me: DomainId,
    /// Counts the cold boots of this domain.
    pub epoch: Epoch,
    /// The uncached window.
    pub window: Window,
    /// This domain's page in the uncached window.
    pub own_page: Window,
    pub soc: &'static Soc,
    /// Rings the soc's doorbell with a vector; for drivers of devices.
    pub kick: Box<dyn Fn(u32) + Send + Sync>,
    pub scheduler: Scheduler,
    /// Symbol table of this image, if the host staged one.
    pub symbols: Option<Symbols>,
    /// For each core: whether it polls for messages, so that peers need not ring.
    pub attendance: Attendances,
    pub trace: &'static TraceLog,
    /// Chip time at boot, in ns.
    pub booted_at: u64,
    /// Ticks of the local clock from reset until the monitor was started, without time spent
    /// waiting for other cores and domains. 0 without a console.
    pub boot_ticks: AtomicU64,
}

impl Node {
    /// Returns the other domains of the board.
    pub fn others(&self) -> impl Iterator<Item = DomainId> + use<> {
        let (me, count) = (self.me, self.blob.domains().len() as u8);
        (0..count).map(DomainId).filter(move |&id| id != me)
    }

    /// Wakes all INACTIVE peers. For a caller that has waited long for something that one of them
    /// may hold: a page, or a lock between domains.
    pub fn wake_inactive_peers(&self) {
        self.others().for_each(|id| self.soc.wake_if_inactive(id));
    }

    /// Returns the board's description of this domain.
    #[inline]
    pub fn domain(&self) -> &'static Domain {
        &self.blob.domains()[self.me.index()]
    }

    /// Returns this domain's name.
    pub fn name(&self) -> &'static str {
        abi::boot::text(&self.domain().name)
    }

    /// Returns the name of the domain with this number; `?` if there is none.
    pub fn name_of(&self, domain: usize) -> &'static str {
        self.blob.domains().get(domain).map_or("?", |domain| abi::boot::text(&domain.name))
    }

    /// Converts chip time `now` to ns since 1970, UTC.
    #[inline]
    pub fn time_of_day(&self, now: u64) -> u64 {
        self.blob.given.begun.wrapping_add(now)
    }

    /// Returns the value of the option `name` on the board's command line. `name` includes the `=`.
    /// Everything after `run=` is a script for the monitor and not searched.
    pub fn option(&self, name: &str) -> Option<&'static str> {
        self.blob.options().find_map(|word| word.strip_prefix(name))
    }

    /// Spawns a thread of normal priority, on `core` or on any core.
    pub fn spawn(
        &'static self,
        name: &'static str,
        core: Option<CoreId>,
        entry: fn(usize),
        argument: usize,
    ) -> Result<ThreadId, SpawnError> {
        self.scheduler.spawn(name, PRIORITY_NORMAL, core, entry, argument)
    }

    /// Calibrates the local clock against the soc's, and adapts the deadlines of sleeping threads.
    pub fn calibrate_clock(&self) {
        self.soc.calibrate_clock();
        self.scheduler.clock_changed();
    }

    /// Writes the last `count` trace records as text.
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

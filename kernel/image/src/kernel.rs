//! Everything a running kernel is made of, in one place.

use crate::balloon::Balloons;
use crate::coherence::Coherence;
use crate::devices::{Devices, Out};
use crate::interrupts::core_kind;
use crate::memory;
use crate::peers::Peers;
use crate::processes::Processes;
use crate::services::Services;
use crate::soc::Soc;
use crate::symbols::Symbols;
use crate::twins::Others;
use abi::boot::{Blob, Domain};
use alloc::boxed::Box;
use alloc::vec::Vec;
use arch::lock::{Lock, Once};
use arch::shared::Window;
use base::id::{CoreId, DomainId, Epoch};
use base::port::Trace;
use core::fmt::{self, Write};
use core::sync::atomic::AtomicU64;
use kernel_mem::mapping::{Audit, Violation};
use kernel_msg::notify::Attendance;
use kernel_sched::trace::TraceLog;
use kernel_sched::{PRIORITY_NORMAL, Scheduler, SpawnError, ThreadId};

/// One kernel.
pub struct Kernel {
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
    /// Threads.
    pub scheduler: Scheduler,
    /// Other kernels.
    pub peers: Peers,
    /// Its balloon, where the board has memory for one.
    pub balloons: Option<Balloons>,
    /// Memory that it shares with other kernels, where the board has any.
    pub coherence: Option<Coherence>,
    /// Devices whose home is here.
    pub devices: Devices,
    /// What it does for programs, alone or with other kernels.
    pub services: Services,
    /// Processes that live here.
    pub processes: Box<Processes>,
    /// Images of other kernels.
    pub others: Others,
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

static KERNEL: Once<Kernel> = Once::new();
/// The way to the soc, which is there before the kernel is.
pub static SOC: Once<Soc> = Once::new();
/// The trace log of this kernel.
pub static TRACE: TraceLog = TraceLog::new();

/// The kernel, once it is assembled.
pub fn get() -> Option<&'static Kernel> {
    KERNEL.get()
}

/// Makes it known.
pub fn set(kernel: Kernel) -> Option<&'static Kernel> {
    KERNEL.set(kernel).ok()
}

impl Kernel {
    /// Wakes all that were stopped wherever they were: the caller waits for what one of them may
    /// have.
    pub fn rouse(&self) {
        self.peers.ids().for_each(|id| self.soc.rouse(id));
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

    /// The system console; writes nothing where another kernel has it.
    pub fn console(&'static self) -> Out {
        Out(self)
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

    /// A doorbell rang, and the code at `pc` was interrupted; interrupts are masked.
    pub fn doorbell(&self, vector: u32, pc: u64) {
        if vector == self.blob.vector_dsm {
            if let Some(coherence) = &self.coherence {
                coherence.heard(pc);
            }
            crate::monitor::pingpong::heard(self);
        } else if vector == self.blob.vector_msg {
            self.peers.poll(self);
        } else if vector == self.blob.vector_chip {
            self.chip_changed();
        } else {
            self.devices.interrupt(self, vector);
        }
    }

    fn chip_changed(&self) {
        self.peers.look_at_chip(self);
        if let Some(coherence) = &self.coherence {
            coherence.look_at_chip(self);
        }
        self.services.look_at_chip(self);
        if let Some(balloons) = &self.balloons {
            balloons.look_at_chip(self);
        }
        self.peers.poll(self);
        crate::power::look_at_clock(self);
        for domain in (0..self.blob.domains().len() as u8).map(DomainId) {
            if let Some(state) = self.soc.change(domain) {
                self.trace.event("chip", domain.0.into(), state);
            }
        }
    }

    /// All other cores halt: this kernel ends.
    pub fn stop_other_cores(&self) {
        let me = arch::cpu::core();
        let cores = (0..self.domain().cores as u8).map(CoreId).filter(|&core| core != me);
        cores.for_each(|core| arch::irq::send_core(core, core_kind::STOP));
    }

    /// The page-table invariant, as of now.
    pub fn audit(&self) -> Result<Audit, Violation> {
        let table = memory::TABLE.get().ok_or(Violation::NoSuchDomain)?;
        let balloons = self.balloons.as_ref();
        let mut blocks = balloons.map(|balloons| balloons.pure().local()).unwrap_or_default();
        let Some(coherence) = &self.coherence else {
            return kernel_mem::mapping::audit(&table.lock(), self.blob, self.me, &blocks);
        };
        // Cacheable of the shared block is what the protocol says that this kernel holds.
        blocks.insert(coherence.index());
        coherence.still(|held| {
            let table = table.lock();
            let mut result = kernel_mem::mapping::audit(&table, self.blob, self.me, &blocks);
            table.walk(&mut |leaf| {
                if result.is_ok() && !held(&leaf) {
                    result = Err(Violation::ForeignCached(leaf));
                }
            });
            result
        })
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

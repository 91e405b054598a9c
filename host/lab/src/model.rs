//! What the lab knows about a board: costs in units of the clock, powers, places in memory.
//! `pen` writes it as `lab.json` into the run folder; the plugin in each QEMU and the soc read it.

use crate::Ps;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the file in a run folder.
pub const FILE: &str = "lab.json";
/// Name of the shared page's file in a run folder.
pub const PAGE: &str = "lab.page";
/// Name of the file of the caches' state.
pub const CACHE: &str = "lab.cache";
/// Name of the file of what memory holds of lines that a cache has changed since.
pub const KEPT: &str = "lab.kept";
/// Name of the file of the sanitizer's reports.
pub const REPORTS: &str = "lab.reports";

/// What is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Chip time.
    Time,
    /// Time and energy.
    #[default]
    Energy,
    /// A model of the caches over all of RAM; time is the host's, and a domain may have any cores.
    Sanitizer,
    /// Time, energy and the caches.
    Full,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 4] = [Mode::Time, Mode::Energy, Mode::Sanitizer, Mode::Full];

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Time => "time",
            Mode::Energy => "energy",
            Mode::Sanitizer => "sanitizer",
            Mode::Full => "full",
        }
    }

    /// By name.
    pub fn named(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Do domains take turns? Time is exact then on boards with one core a domain.
    pub const fn takes_turns(self) -> bool {
        !matches!(self, Mode::Sanitizer)
    }

    /// Is energy told?
    pub const fn tells_energy(self) -> bool {
        matches!(self, Mode::Energy | Mode::Full)
    }

    /// Are the caches modelled?
    pub const fn watches_caches(self) -> bool {
        matches!(self, Mode::Sanitizer | Mode::Full)
    }
}

/// The lab of one board.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lab {
    /// How far a domain may run past another: doorbell latency at most; 0 is the slow reference.
    pub quantum_ps: Ps,
    /// How far a domain may run alone.
    pub most_ps: Ps,
    /// What is watched.
    pub mode: Mode,
    /// The soc's slot.
    pub soc: usize,
    /// Doorbell vectors of every slot.
    pub vectors: usize,
    /// Hash of the model: costs, powers and board.
    pub hash: String,
    /// Physical memory, as the sanitizer has to know it.
    pub memory: Memory,
    /// One a domain, in the board's order.
    pub domains: Vec<Domain>,
}

/// Physical memory. Ranges are first address and end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// First byte of RAM.
    pub base: u64,
    /// Bytes of RAM.
    pub bytes: u64,
    /// Virtual minus physical address of what the kernels map.
    pub offset: u64,
    /// So far behind a mapping lies the one by which kernels maintain its cache lines; 0: none.
    pub maintenance: u64,
    /// What kernels map uncached.
    pub uncached: Vec<(u64, u64)>,
    /// The hardware spinlock bank.
    pub spinlocks: (u64, u64),
    /// Devices by the address of their registers, and their names.
    pub devices: Vec<(u64, String)>,
}

impl Memory {
    /// Is it a byte of RAM?
    pub fn contains(&self, pa: u64) -> bool {
        pa.wrapping_sub(self.base) < self.bytes
    }

    /// Do kernels map it uncached?
    pub fn is_uncached(&self, pa: u64) -> bool {
        self.uncached.iter().any(|&(from, to)| (from..to).contains(&pa))
    }
}

/// One domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Its slot, which is its seat.
    pub slot: usize,
    /// Its instruction set, as QEMU names the target.
    pub isa: String,
    /// Its cores; 0 counts as 1. Time is exact where all domains have one.
    pub cores: u32,
    /// Frequency at boot.
    pub khz: u32,
    /// Virtual address of the word that its kernel asks for a frequency with (MHz); 0: none.
    pub frequency: u64,
    /// Virtual address of the word that says whether its clock is gated while it waits; 0: none.
    pub gate: u64,
    /// Cores of one cluster share a voltage: the highest that any of them needs. Empty: its own.
    pub cluster: String,
    /// Virtual addresses of the code that reaches across domains.
    pub xdomain: (u64, u64),
    /// Virtual addresses of its exception entries.
    pub vectors: (u64, u64),
    /// Virtual addresses of the uncached window.
    pub window: (u64, u64),
    /// Virtual addresses of the hardware spinlock bank.
    pub spinlocks: (u64, u64),
    /// Physical addresses that its emulator itself writes at every reset.
    pub loaded: Vec<(u64, u64)>,
    /// Costs.
    pub costs: Costs,
    /// Power table.
    pub powers: Powers,
}

/// Costs in [`crate::clock::UNITS`] of a cycle, unless they say picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Any instruction.
    pub instruction: u64,
    /// Cleaning a line.
    pub clean: u64,
    /// Invalidating a line, and the miss that follows.
    pub invalidate: u64,
    /// A barrier.
    pub barrier: u64,
    /// Invalidating a translation.
    pub tlb: u64,
    /// Entering an exception.
    pub entry: u64,
    /// Leaving one.
    pub exit: u64,
    /// Loading from uncached memory.
    pub load: u64,
    /// Storing to uncached memory.
    pub store: u64,
    /// An access to the hardware spinlock bank.
    pub spinlock: u64,
    /// From ringing to arriving, for rings by this domain and, of the soc, to it.
    pub mailbox_ps: Ps,
    /// From waiting with a gated clock to the first instruction.
    pub wake_gated_ps: Ps,
    /// From inactive to the first instruction.
    pub wake_inactive_ps: Ps,
    /// From off to the first instruction.
    pub wake_off_ps: Ps,
}

/// Powers in microwatt; at most [`crate::page::POINTS`] points.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Powers {
    /// One a frequency, in the order of the page's residency.
    pub points: Vec<Point>,
    /// Stopped, state kept.
    pub inactive_uw: u64,
    /// Off.
    pub off_uw: u64,
    /// Where the figures come from, and what was assumed.
    pub source: String,
}

/// Powers at one frequency, in microwatt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The frequency.
    pub khz: u32,
    /// The voltage in mV; 0 where it follows from the frequency and is not published.
    pub mv: u32,
    /// Executing.
    pub active_uw: u64,
    /// Waiting, clock running.
    pub idle_uw: u64,
    /// Waiting, clock gated.
    pub gated_uw: u64,
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// Its text.
    #[error("{0}: {1}")]
    Text(String, serde_json::Error),
}

impl Lab {
    /// Reads `folder`/lab.json.
    pub fn read(folder: &Path) -> Result<Lab, ModelError> {
        let path = folder.join(FILE);
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|e| ModelError::File(name.clone(), e))?;
        serde_json::from_str(&text).map_err(|e| ModelError::Text(name, e))
    }

    /// Writes it there.
    pub fn write(&self, folder: &Path) -> Result<(), ModelError> {
        let path = folder.join(FILE);
        let name = path.display().to_string();
        let text =
            serde_json::to_string_pretty(self).map_err(|e| ModelError::Text(name.clone(), e))?;
        std::fs::write(&path, text).map_err(|e| ModelError::File(name, e))
    }

    /// What two runs have to share to be comparable: the same words, the same number.
    pub fn fingerprint(&self) -> String {
        let text = format!("{:?} {:?}", self.domains, (self.quantum_ps, self.most_ps));
        // FNV-1a, 64 bits.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        format!("{hash:016x}")
    }

    /// Is a run one sequence of events, the same every time?
    pub fn is_exact(&self) -> bool {
        self.mode.takes_turns() && self.domains.iter().all(|domain| domain.cores() == 1)
    }

    /// The domain in `slot`.
    pub fn domain(&self, slot: usize) -> Option<&Domain> {
        self.domains.iter().find(|domain| domain.slot == slot)
    }

    /// The others that share `domain`'s voltage.
    pub fn cluster<'l>(&'l self, domain: &'l Domain) -> impl Iterator<Item = &'l Domain> {
        let shares = |other: &&Domain| {
            !domain.cluster.is_empty()
                && other.cluster == domain.cluster
                && other.slot != domain.slot
        };
        self.domains.iter().filter(shares)
    }

    /// Which of the domains, by the board's order, is in `slot`.
    pub fn index(&self, slot: usize) -> Option<usize> {
        self.domains.iter().position(|domain| domain.slot == slot)
    }

    /// Seats at the table.
    pub fn seats(&self) -> usize {
        self.domains.iter().map(|domain| domain.slot).max().unwrap_or(0).max(self.soc) + 1
    }
}

impl Domain {
    /// Its cores.
    pub fn cores(&self) -> u64 {
        u64::from(self.cores.max(1))
    }

    /// Where a frequency stands in the power table, at the lowest voltage that it works with.
    pub fn point(&self, khz: u32) -> Option<usize> {
        let points = self.powers.points.iter().enumerate();
        let of = points.filter(|(_, point)| point.khz == khz).min_by_key(|(_, point)| point.mv);
        of.map(|(index, _)| index)
    }

    /// The same at another voltage.
    pub fn point_at(&self, khz: u32, mv: u32) -> Option<usize> {
        self.powers.points.iter().position(|point| point.khz == khz && point.mv == mv)
    }

    /// The lowest voltage that a frequency works with.
    pub fn needs_mv(&self, khz: u32) -> u32 {
        self.point(khz).map_or(0, |index| self.powers.points[index].mv)
    }
}

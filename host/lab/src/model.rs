//! The lab's model of a board: costs in units of the clock, powers, memory layout. `pen` writes it
//! as `lab.json` into the run folder; the soc and the plugin in each QEMU read it.

use crate::Ps;
use crate::points::{self, CrashPoint, PointError};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the file in a run folder.
pub const FILE: &str = "lab.json";
/// Name of the shared page's file in a run folder.
pub const PAGE: &str = "lab.page";
/// Name of the file with the state of the caches.
pub const CACHE: &str = "lab.cache";
/// Name of the file with the memory contents of lines that a cache has changed since.
pub const KEPT: &str = "lab.kept";
/// Name of the file of the sanitizer's reports.
pub const REPORTS: &str = "lab.reports";

/// What the lab measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Chip time.
    Time,
    /// Time and energy.
    #[default]
    Energy,
    /// A model of the caches over all of RAM. Time is the host's, and a domain may have several
    /// cores.
    Sanitizer,
    /// Time, energy and the caches.
    Full,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 4] = [Mode::Time, Mode::Energy, Mode::Sanitizer, Mode::Full];

    /// Returns the name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Time => "time",
            Mode::Energy => "energy",
            Mode::Sanitizer => "sanitizer",
            Mode::Full => "full",
        }
    }

    /// Parses a name.
    pub fn named(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Returns whether domains take turns. Time is then exact on boards with one core per domain.
    pub const fn takes_turns(self) -> bool {
        !matches!(self, Mode::Sanitizer)
    }

    /// Returns whether energy is measured.
    pub const fn tells_energy(self) -> bool {
        matches!(self, Mode::Energy | Mode::Full)
    }

    /// Returns whether the caches are modelled.
    pub const fn watches_caches(self) -> bool {
        matches!(self, Mode::Sanitizer | Mode::Full)
    }
}

/// The model of one board.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lab {
    /// How far a domain may run past another, at most the doorbell latency; 0 is the slow
    /// reference.
    pub quantum_ps: Ps,
    /// How far a domain may run at a time.
    pub most_ps: Ps,
    /// What is measured.
    pub mode: Mode,
    /// The soc's slot.
    pub soc: usize,
    /// Number of doorbell vectors of every slot.
    pub vectors: usize,
    /// Hash of the model: costs, powers and board.
    pub hash: String,
    /// Physical memory, as the sanitizer needs it.
    pub memory: Memory,
    /// One per domain, in the board's order.
    pub domains: Vec<Domain>,
    /// Points of this run, at which a domain dies or is stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<CrashPoint>,
}

/// Physical memory. Ranges are first address and end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// First byte of RAM.
    pub base: u64,
    /// Size of RAM in bytes.
    pub bytes: u64,
    /// Virtual minus physical address of the kernels' linear mapping.
    pub offset: u64,
    /// Offset of the kernels' maintenance alias from the linear mapping; 0: there is none.
    pub maintenance: u64,
    /// The shared block; empty: there is none.
    #[serde(default)]
    pub shared: (u64, u64),
    /// Ranges that kernels map uncached.
    pub uncached: Vec<(u64, u64)>,
    /// Devices: address of the registers, and name.
    pub devices: Vec<(u64, String)>,
}

impl Memory {
    /// Returns whether `pa` is in RAM.
    pub fn contains(&self, pa: u64) -> bool {
        pa.wrapping_sub(self.base) < self.bytes
    }

    /// Returns the physical address of a kernel's code that runs at `at`, with paging or before.
    pub fn physical(&self, at: u64) -> u64 {
        if self.contains(at) { at } else { at.wrapping_sub(self.offset) }
    }

    /// Returns whether kernels map it uncached.
    pub fn is_uncached(&self, pa: u64) -> bool {
        self.uncached.iter().any(|&(from, to)| (from..to).contains(&pa))
    }
}

/// A domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Its slot, which is its seat.
    pub slot: usize,
    /// Instruction set, in QEMU's name of the target.
    pub isa: String,
    /// Number of cores; 0 counts as 1. Time is exact if all domains have one.
    pub cores: u32,
    /// Frequency at boot.
    pub khz: u32,
    /// Virtual address of the word in which its kernel requests a frequency (MHz); 0: none.
    pub frequency: u64,
    /// Virtual address of the word that gates its clock while it waits; 0: none.
    pub gate: u64,
    /// Name of its cluster, whose domains share the highest voltage that any of them needs. Empty:
    /// its own.
    pub cluster: String,
    /// Virtual addresses of the code that accesses memory between domains.
    pub xdomain: (u64, u64),
    /// Virtual addresses of its exception entries.
    pub vectors: (u64, u64),
    /// Virtual addresses of the uncached window.
    pub window: (u64, u64),
    /// Physical addresses at which this domain has RAM. Others are devices of its own.
    pub ram: (u64, u64),
    /// Physical addresses that its emulator writes at every reset.
    pub loaded: Vec<(u64, u64)>,
    /// Costs.
    pub costs: Costs,
    /// Power table.
    pub powers: Powers,
}

/// Costs in units ([`crate::clock::UNITS`] per cycle) unless the name says picoseconds.
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
    /// Exception entry.
    pub entry: u64,
    /// Exception return.
    pub exit: u64,
    /// Loading from uncached memory.
    pub load: u64,
    /// Storing to uncached memory.
    pub store: u64,
    /// Latency of a doorbell, for rings by this domain and for rings by the soc to it.
    pub mailbox_ps: Ps,
    /// Latency from waiting with a gated clock to the first instruction.
    pub wake_gated_ps: Ps,
    /// Latency from inactive to the first instruction.
    pub wake_inactive_ps: Ps,
    /// Latency from off to the first instruction.
    pub wake_off_ps: Ps,
}

/// Powers in microwatt; at most [`crate::page::POINTS`] points.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Powers {
    /// One per frequency and voltage, in the order of the page's residency.
    pub points: Vec<Point>,
    /// Stopped, state kept.
    pub inactive_uw: u64,
    /// Off.
    pub off_uw: u64,
    /// Source of the figures, and assumptions.
    pub source: String,
}

/// Powers at one frequency, in microwatt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The frequency.
    pub khz: u32,
    /// The voltage in mV; 0 if it follows from the frequency and is not published.
    pub mv: u32,
    /// Executing.
    pub active_uw: u64,
    /// Waiting, clock running.
    pub idle_uw: u64,
    /// Waiting, clock gated.
    pub gated_uw: u64,
}

/// Why the model could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file cannot be read or written.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// It cannot be parsed.
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

    /// Writes `folder`/lab.json.
    pub fn write(&self, folder: &Path) -> Result<(), ModelError> {
        let path = folder.join(FILE);
        let name = path.display().to_string();
        let text =
            serde_json::to_string_pretty(self).map_err(|e| ModelError::Text(name.clone(), e))?;
        std::fs::write(&path, text).map_err(|e| ModelError::File(name, e))
    }

    /// Returns a hash of the model: runs are comparable if it is equal.
    pub fn fingerprint(&self) -> String {
        let text = format!("{:?} {:?}", self.domains, (self.quantum_ps, self.most_ps));
        // FNV-1a, 64 bits.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        format!("{hash:016x}")
    }

    /// Returns whether a run is one sequence of events, the same every time.
    pub fn is_exact(&self) -> bool {
        self.mode.takes_turns() && self.domains.iter().all(|domain| domain.cores() == 1)
    }

    /// Sets the crash points of the run.
    pub fn set_points(&mut self, points: &[CrashPoint]) -> Result<(), PointError> {
        if points.len() > points::MOST {
            return Err(PointError::Many(points.len()));
        }
        if !points.is_empty() && !self.is_exact() {
            return Err(PointError::Statistical);
        }
        for CrashPoint { domain, .. } in points {
            if !self.domains.iter().any(|known| known.name == *domain) {
                let all: Vec<&str> = self.domains.iter().map(|d| d.name.as_str()).collect();
                return Err(PointError::Domain(domain.clone(), all.join(", ")));
            }
        }
        self.points = points.to_vec();
        Ok(())
    }

    /// Returns the domain in `slot`.
    pub fn domain(&self, slot: usize) -> Option<&Domain> {
        self.domains.iter().find(|domain| domain.slot == slot)
    }

    /// Returns the other domains that share `domain`'s voltage.
    pub fn cluster<'l>(&'l self, domain: &'l Domain) -> impl Iterator<Item = &'l Domain> {
        let shares = |other: &&Domain| {
            !domain.cluster.is_empty()
                && other.cluster == domain.cluster
                && other.slot != domain.slot
        };
        self.domains.iter().filter(shares)
    }

    /// Returns the index, in the board's order, of the domain in `slot`.
    pub fn index(&self, slot: usize) -> Option<usize> {
        self.domains.iter().position(|domain| domain.slot == slot)
    }

    /// Returns the number of seats.
    pub fn seats(&self) -> usize {
        self.domains.iter().map(|domain| domain.slot).max().unwrap_or(0).max(self.soc) + 1
    }
}

impl Domain {
    /// Returns its number of cores.
    pub fn cores(&self) -> u64 {
        u64::from(self.cores.max(1))
    }

    /// Returns the index of a frequency in the power table, at the lowest voltage that it works
    /// with.
    pub fn point(&self, khz: u32) -> Option<usize> {
        let points = self.powers.points.iter().enumerate();
        let of = points.filter(|(_, point)| point.khz == khz).min_by_key(|(_, point)| point.mv);
        of.map(|(index, _)| index)
    }

    /// Returns the index of a frequency at a given voltage.
    pub fn point_at(&self, khz: u32, mv: u32) -> Option<usize> {
        self.powers.points.iter().position(|point| point.khz == khz && point.mv == mv)
    }

    /// Returns the lowest voltage that a frequency works with.
    pub fn needs_mv(&self, khz: u32) -> u32 {
        self.point(khz).map_or(0, |index| self.powers.points[index].mv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(cores: u32) -> Lab {
        let domain =
            |slot, name: &str| Domain { slot, name: name.into(), cores, ..Domain::default() };
        Lab { domains: vec![domain(1, "main"), domain(2, "shadow")], ..Lab::default() }
    }

    #[test]
    fn a_board_takes_points_of_its_own_domains_in_exact_time() {
        let of = |name: &str| vec![CrashPoint { domain: name.into(), access: 1, kills: false }];
        assert_eq!(lab(1).set_points(&of("shadow")), Ok(()));
        assert!(matches!(lab(1).set_points(&of("umbra")), Err(PointError::Domain(..))));
        assert_eq!(lab(2).set_points(&of("main")), Err(PointError::Statistical));
        let mut unclocked = Lab { mode: Mode::Sanitizer, ..lab(1) };
        assert_eq!(unclocked.set_points(&of("main")), Err(PointError::Statistical));
        assert_eq!(unclocked.set_points(&[]), Ok(()));
        assert_eq!(lab(1).set_points(&vec![of("main").remove(0); 65]), Err(PointError::Many(65)));
    }
}

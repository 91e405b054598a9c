//! The sanitizer's reports, as stored in `lab.reports`: one JSON object per line; each process
//! reports a finding once.

use lab_cache::{Party, Site, Violation};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Stands for all devices together; other numbers are domains, in the board's order.
pub const DEVICES: u8 = Party::DEVICES.number();

/// A party and the place of its access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The domain in the board's order, or [`DEVICES`].
    pub party: u8,
    /// The instruction; for a fetch its physical address, for a device that of its registers.
    pub pc: u64,
}

/// Missing cache maintenance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// The party that should have done it.
    pub by: u8,
    /// The operation: clean or invalidate.
    pub operation: String,
}

/// A core that used, or may still use, an entry of its page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Translation {
    /// The core of the access.
    pub core: u8,
    /// The first address of the entry, or the address of the access.
    pub va: u64,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The kind of error.
    pub kind: String,
    /// Physical address of the line.
    pub line: u64,
    /// The kind of access.
    pub event: String,
    /// The party and place of the access.
    pub access: Place,
    /// The other party involved.
    pub other: u8,
    /// The maintenance that would have made it correct.
    pub missing: Option<Missing>,
    /// The last write.
    pub writer: Option<Place>,
    /// The party that last brought the line into a cache.
    pub reader: Option<Place>,
    /// For findings about TLBs. The last write is then that of the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translation: Option<Translation>,
}

/// Kind of a report that stands for all later findings of its process.
pub const MORE: &str = "more findings than are reported";

impl Report {
    /// There are more findings than a process remembers: later ones are not reported.
    pub fn more() -> Report {
        Report {
            kind: MORE.to_owned(),
            line: 0,
            event: String::new(),
            access: Place { party: DEVICES, pc: 0 },
            other: DEVICES,
            missing: None,
            writer: None,
            reader: None,
            translation: None,
        }
    }
}

impl From<Site> for Place {
    fn from(site: Site) -> Place {
        Place { party: site.party.number(), pc: site.pc }
    }
}

impl From<&Violation> for Report {
    fn from(it: &Violation) -> Report {
        let missing = it.missing.map(|missing| Missing {
            by: missing.by.number(),
            operation: missing.operation.name().to_owned(),
        });
        Report {
            kind: it.kind.name().to_owned(),
            line: it.line,
            event: it.event.verb().to_owned(),
            access: it.access.into(),
            other: it.other.number(),
            missing,
            writer: it.writer.map(Place::from),
            reader: it.reader.map(Place::from),
            translation: None,
        }
    }
}

/// Reads all findings of a run folder, each once; empty if the sanitizer was not active.
pub fn read(folder: &Path) -> std::io::Result<Vec<Report>> {
    let path = folder.join(crate::model::REPORTS);
    let text = match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let mut all = Vec::new();
    for line in text.lines() {
        let report: Report = serde_json::from_str(line)?;
        if !all.contains(&report) {
            all.push(report);
        }
    }
    Ok(all)
}

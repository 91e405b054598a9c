//! What the sanitizer found, as it stands in `lab.reports`: one JSON object a line, a finding once
//! a process.

use lab_cache::{Party, Site, Violation};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The number of all devices together, where others are domains by the board's order.
pub const DEVICES: u8 = Party::DEVICES.number();

/// Who did something, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The domain by the board's order, or [`DEVICES`].
    pub party: u8,
    /// The instruction; of a fetch the physical address, of a device that of its registers.
    pub pc: u64,
}

/// What nobody did.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// Who should have.
    pub by: u8,
    /// What: clean or invalidate.
    pub operation: String,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// What is wrong.
    pub kind: String,
    /// Physical address of the line.
    pub line: u64,
    /// What the access did.
    pub event: String,
    /// Who accessed.
    pub access: Place,
    /// Who is at the other side.
    pub other: u8,
    /// What would have made it right.
    pub missing: Option<Missing>,
    /// The last write.
    pub writer: Option<Place>,
    /// Who last brought the line into a cache.
    pub reader: Option<Place>,
}

/// The kind of a report that stands for all that follow in its process.
pub const MORE: &str = "more findings than are told";

impl Report {
    /// There are more findings than a process remembers: those that follow are not told.
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
        }
    }
}

/// All findings of a run folder, each once; none if its board was not watched.
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

//! The sanitizer's findings on a board, in readable form, with function names from the staged
//! images in the run folder.

use crate::symbols::Image;
use anyhow::Context;
use lab::model::{FILE, Lab, REPORTS};
use lab::report::{self, DEVICES, Place, Report, Translation};
use std::path::Path;

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of error.
    pub kind: String,
    /// The accessing party first, then the last writer, and the party with missing maintenance.
    pub parties: Vec<String>,
    /// Physical address of the line.
    pub line: u64,
    /// A sentence with all of it.
    pub text: String,
}

/// Reads the findings of the board in `folder`, each once; empty if the sanitizer was not active.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Finding>> {
    let reports =
        report::read(folder).with_context(|| folder.join(REPORTS).display().to_string())?;
    if reports.is_empty() || !folder.join(FILE).exists() {
        return Ok(Vec::new());
    }
    let names = Names::read(folder)?;
    Ok(reports.iter().map(|report| names.finding(report)).collect())
}

/// Prints the findings. Returns their number.
pub fn show(folder: &Path) -> anyhow::Result<usize> {
    let all = read(folder)?;
    for finding in &all {
        println!("sanitizer: {}", finding.text);
    }
    Ok(all.len())
}

/// Names of domains, devices, functions and memory areas.
struct Names {
    lab: Lab,
    images: Vec<Option<Image>>,
}

impl Names {
    fn read(folder: &Path) -> anyhow::Result<Names> {
        let lab = Lab::read(folder)?;
        let images = lab.domains.iter().map(|domain| Image::of(folder, &domain.name)).collect();
        Ok(Names { lab, images })
    }

    fn party(&self, party: u8) -> &str {
        match self.lab.domains.get(usize::from(party)) {
            Some(domain) => &domain.name,
            None => "devices",
        }
    }

    fn place(&self, Place { party, pc }: Place) -> String {
        if party == DEVICES {
            let mut devices = self.lab.memory.devices.iter();
            let name = devices.find(|(at, _)| *at == pc).map_or("soc", |(_, name)| name);
            return format!("device {name}");
        }
        let physical = self.lab.memory.physical(pc);
        let image = self.images.get(usize::from(party)).and_then(Option::as_ref);
        let function = image.and_then(|image| image.function(physical));
        let function = function.map(|(name, offset)| format!("{name}+{offset:#x}"));
        let function = function.unwrap_or_else(|| "its stub, or no function".to_owned());
        format!("{} at {pc:#x} ({function})", self.party(party))
    }

    fn finding(&self, it: &Report) -> Finding {
        let (kind, by, event) = (&it.kind, self.place(it.access), &it.event);
        let mut text = match it.translation {
            None => format!("{kind}: {by} {event} line {:#x}", it.line),
            Some(Translation { core, va }) => {
                format!("{kind}: core {core} of {by} {event} {va:#x} (line {:#x})", it.line)
            }
        };
        match &it.missing {
            Some(missing) => {
                let article = if missing.operation.starts_with('i') { "an" } else { "a" };
                let by = self.party(missing.by);
                text += &format!(" without {article} {} by {by}", missing.operation);
            }
            None => text += &format!(", shared with {}", self.party(it.other)),
        }
        let written = match it.translation {
            None => "last written by",
            Some(_) => "the entry was changed by",
        };
        let sides = [(written, it.writer), ("last brought into a cache by", it.reader)];
        for (what, side) in sides {
            text += &side.map_or(String::new(), |side| format!("; {what} {}", self.place(side)));
        }
        if it.kind == report::MORE {
            text = it.kind.clone();
        }
        let parties = [Some(it.access.party), it.writer.map(|writer| writer.party)];
        let parties = parties.into_iter().chain([it.missing.as_ref().map(|missing| missing.by)]);
        let parties = parties.flatten().map(|party| self.party(party).to_owned()).collect();
        Finding { kind: it.kind.clone(), parties, line: it.line, text }
    }
}

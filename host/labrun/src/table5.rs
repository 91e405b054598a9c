//! K2's table 5 on our kernels, in chip time: a fault on a page that the other kernel has just
//! written completely, with both protocols, while that kernel is idle, busy, or in an interrupt;
//! the cost of a request to a shadowed service with its pages here or there; and a call that
//! continues in a twin. `./pen bench k2.t5`, `./pen bench shadow`.

use super::kit::Kit;
use anyhow::{Context, ensure};
use records::said::Said;
use workbench::model::Choice;

const BOARD: &str = "duo-1x1";
/// Number of faults in a run.
const FAULTS: u32 = 40;

/// What the owner of the page does meanwhile, and the record's suffix.
const OWNERS: [(&str, &str); 3] =
    [("", ""), ("occupy program 20000", "_busy"), ("occupy interrupt 20000", "_interrupt")];

/// Returns all records of faults.
pub fn faults(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let mut all = Vec::new();
    for (protocol, two_state) in [("", true), ("_three", false)] {
        for (occupied, owner) in OWNERS {
            for sender in ["main", "shadow"] {
                let prefix = format!("k2.t5.{sender}{protocol}{owner}");
                all.extend(fault(kit, sender, occupied, two_state, &prefix)?);
            }
        }
    }
    Ok(all)
}

/// Maximum time of a fault in ns, two-state protocol, owner idle.
const MOST: f64 = 20_000.0;

/// `lab.table5`: a fault from either kernel takes no longer than [`MOST`].
pub fn within(kit: &Kit<'_>) -> anyhow::Result<()> {
    for sender in ["main", "shadow"] {
        let said = fault(kit, sender, "", true, sender)?;
        let name = format!("{sender}_total");
        let total = said.iter().find(|(other, ..)| *other == name).context("no total reported")?;
        ensure!(total.1 > 0.0 && total.1 <= MOST, "{name}: {} ns, at most {MOST}", total.1);
    }
    Ok(())
}

/// Runs `bench dsm` on one kernel, with its records under `prefix`.
fn fault(
    kit: &Kit<'_>,
    sender: &str,
    occupied: &str,
    two_state: bool,
    prefix: &str,
) -> anyhow::Result<Vec<Said>> {
    let (here, there) = match sender {
        "main" => ("", "on shadow "),
        _ => ("on shadow ", ""),
    };
    let aside = match occupied {
        "" => String::new(),
        work => format!("{there}aside {work}; "),
    };
    let run = format!("ping shadow 2; {aside}{here}bench dsm {FAULTS}");
    let first = if two_state { "dsm=two-state " } else { "" };
    let outcome = kit.run_with(BOARD, first, &run, Some(Choice::default()))?;
    ensure!(outcome.values.len() == 7, "records of a fault are missing: {:?}", outcome.values);
    let rename = |(name, value, unit): Said| {
        let part = name.strip_prefix("dsm.").unwrap_or(&name);
        (format!("{prefix}_{part}"), value, unit)
    };
    Ok(outcome.values.into_iter().map(rename).collect())
}

/// A request of the file service, from each kernel; main's is the record, shadow's is named after
/// shadow.
pub fn requests(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    both(kit, "", "bench op 50")
}

/// The additional cost of calling a function of the other kernel instead of one of this kernel.
pub fn dispatches(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    both(kit, "twins=on ", "bench twins 1000")
}

/// Returns the records of `command` on each kernel.
fn both(kit: &Kit<'_>, first: &str, command: &str) -> anyhow::Result<Vec<Said>> {
    let run = format!("ping shadow 2; {command}; on shadow {command}");
    let outcome = kit.run_with(BOARD, first, &run, Some(Choice::default()))?;
    let (main, shadow) = outcome.values.split_at(outcome.values.len() / 2);
    main.first().context("the kernels reported nothing")?;
    let of_shadow =
        shadow.iter().map(|(name, value, unit)| (format!("{name}.shadow"), *value, unit.clone()));
    Ok(main.iter().cloned().chain(of_shadow).collect())
}

//! K2's table 4 on our kernels, in chip time: allocating frames, claiming blocks, releasing them.
//! One run gives the records of `./pen bench k2.t4` and the check `lab.table4`.

use super::kit::Kit;
use anyhow::{Context, ensure};
use records::said::Said;
use workbench::model::Choice;

/// Allocations of each size; an eighth as many blocks, and at most 16.
const RUN: &str = "ping shadow 2; bench balloon-soc 1000; on shadow bench balloon-soc 1000";
/// MiB of a block, and ns of a ms.
const BLOCK_MIB: f64 = 16.0;
const MS: f64 = 1e6;

/// Maximum value of a record in ns, on main and on shadow.
struct Bar {
    what: &'static str,
    most: [f64; 2],
}

/// K2's allocation times.
const SIZES: [Bar; 3] = [
    Bar { what: "4k", most: [1e3, 12e3] },
    Bar { what: "256k", most: [5e3, 45e3] },
    Bar { what: "1m", most: [13e3, 146e3] },
];
/// For an empty block, and for each MiB of a block that is not empty.
const EMPTY: [f64; 2] = [MS, 2.0 * MS];
const MIB: [f64; 2] = [3.0 * MS, 6.0 * MS];

const KERNELS: [&str; 2] = ["main", "shadow"];

/// Returns every record with its limit.
pub fn bars() -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for (which, kernel) in KERNELS.into_iter().enumerate() {
        for Bar { what, most } in &SIZES {
            all.push((format!("k2.t4.{kernel}_{what}"), most[which]));
        }
        all.push((format!("k2.t4.deflate_{kernel}"), EMPTY[which]));
        for percent in [0, 25, 75] {
            let evacuated = BLOCK_MIB * f64::from(percent) / 100.0;
            let most = EMPTY[which] + MIB[which] * evacuated;
            all.push((format!("k2.t4.inflate{percent}_{kernel}"), most));
        }
    }
    all
}

/// Returns the records; the kernels have checked the contents of all pages that were moved.
pub fn records(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let outcome = kit.run("duo-1x1", RUN, Choice::default())?;
    outcome.values.first().context("the kernels reported nothing")?;
    Ok(outcome.values)
}

/// `lab.table4`: no record exceeds its limit, and none is missing.
pub fn within(kit: &Kit<'_>) -> anyhow::Result<()> {
    let said = records(kit)?;
    let mut over = Vec::new();
    for (name, most) in bars() {
        let found = said.iter().find(|(other, ..)| *other == name);
        let (_, value, unit) = found.with_context(|| format!("{name} was not reported"))?;
        ensure!(unit == "ns" && *value > 0.0, "{name}: {value} {unit}");
        if *value > most {
            over.push(format!("{name}: {value} ns, at most {most}"));
        }
    }
    ensure!(over.is_empty(), "{}", over.join("\n"));
    Ok(())
}

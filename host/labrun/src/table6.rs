//! K2's table 6 on our kernels, in chip time: the shadowed DMA driver, used by both kernels at full
//! speed at once, and by the main kernel alone. One run gives the records of `./pen bench k2.t6`
//! and the check `lab.table6`.

use super::kit::Kit;
use anyhow::{Context, ensure};
use records::said::Said;
use workbench::model::Choice;

const RUN: &str = "ping shadow 2; bench dma; bench dma-both";

/// Minimum throughput of both kernels together, and of each, in MB/s.
struct Bar {
    what: &'static str,
    /// Linux in the same lab, on the strong core alone.
    linux: f64,
    /// Main's part, of what it moves alone.
    main: f64,
    /// K2's shadow kernel.
    shadow: f64,
}

const BARS: [Bar; 4] = [
    Bar { what: "4k", linux: 35.49, main: 0.94, shadow: 0.1 },
    Bar { what: "128k", linux: 41.95, main: 0.7, shadow: 11.5 },
    Bar { what: "256k", linux: 42.08, main: 0.7, shadow: 11.9 },
    Bar { what: "1m", linux: 42.19, main: 0.7, shadow: 14.3 },
];
/// Minimum share of Linux's value.
const SHARE: f64 = 0.98;

/// Returns the records; the kernels have compared the last copy of each size with its source.
pub fn records(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let outcome = kit.run("duo-1x1", RUN, Choice::default())?;
    outcome.values.first().context("the kernels reported nothing")?;
    Ok(outcome.values)
}

/// `lab.table6`: no record is below its limit, and none is missing.
pub fn within(kit: &Kit<'_>) -> anyhow::Result<()> {
    let said = records(kit)?;
    let mut under = Vec::new();
    let value = |name: &str| {
        let found = said.iter().find(|(other, ..)| other == name);
        let (_, value, unit) = found.with_context(|| format!("{name} was not reported"))?;
        ensure!(unit == "MB/s", "{name}: {value} {unit}");
        Ok(*value)
    };
    for Bar { what, linux, main, shadow } in &BARS {
        let bars = [
            (format!("k2.t6.{what}"), linux * SHARE),
            (format!("k2.t6.{what}_main"), main * value(&format!("k2.t6.main_{what}"))?),
            (format!("k2.t6.{what}_shadow"), *shadow),
        ];
        for (name, least) in bars {
            let value = value(&name)?;
            if value < least {
                under.push(format!("{name}: {value} MB/s, at least {least:.2}"));
            }
        }
    }
    ensure!(under.is_empty(), "{}", under.join("\n"));
    Ok(())
}

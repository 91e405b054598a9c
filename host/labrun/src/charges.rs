//! Checks that each operation is charged what the board file says. Every sequence runs twice, with
//! costs and without. Without costs its cycles are its instructions, which are the same both times;
//! the difference must be the sum of the costs of its operations. On both ISAs, at both frequencies
//! of the strong core.

use super::kit::Kit;
use super::run::Outcome;
use anyhow::{Context, ensure};
use lab::clock::UNITS;
use lab::model::{Costs, Domain};
use lab::page::State;
use workbench::model::Choice;

/// The operations, besides instructions, of a sequence of the monitor's `sequence`.
struct Charge {
    name: &'static str,
    main: fn(&Costs) -> u64,
    shadow: fn(&Costs) -> u64,
}

/// Barriers are those of `arch`: AArch64 also has one before a clean, and around a TLB
/// invalidation. A lock is two stores of the own word, a load of the other's and a barrier; on RV64
/// that load and the second store have one more each.
const CHARGES: [Charge; 9] = [
    Charge { name: "plain", main: |_| 0, shadow: |_| 0 },
    Charge { name: "barrier", main: |c| c.barrier, shadow: |c| c.barrier },
    Charge { name: "clean", main: |c| c.clean + 2 * c.barrier, shadow: |c| c.clean + c.barrier },
    Charge {
        name: "invalidate",
        main: |c| c.invalidate + c.barrier,
        shadow: |c| c.invalidate + c.barrier,
    },
    Charge { name: "tlb", main: |c| c.tlb + 3 * c.barrier, shadow: |c| c.tlb },
    Charge {
        name: "exception",
        main: |c| c.entry + c.exit + 3 * c.barrier,
        shadow: |c| c.entry + c.exit,
    },
    Charge { name: "load", main: |c| c.load, shadow: |c| c.load },
    Charge { name: "store", main: |c| c.store, shadow: |c| c.store },
    Charge {
        name: "lock",
        main: |c| 2 * c.store + c.load + c.barrier,
        shadow: |c| 2 * c.store + c.load + 3 * c.barrier,
    },
];

/// Maximum difference of two measurements in ns: a tick of the weak core's counter, divided by
/// 1000.
const TICK_NS: f64 = 0.3;

/// `lab.costs`
pub fn costs(kit: &Kit<'_>) -> anyhow::Result<()> {
    let run = "sequence 1000; frequency 1200; sequence 1000; on shadow sequence 1000";
    let charged = kit.run("duo-1x1", run, Choice::default())?;
    let bare = kit.run("duo-1x1", run, Choice { no_costs: true, ..Choice::default() })?;
    let [main, shadow] = &charged.lab.domains[..] else {
        anyhow::bail!("duo-1x1 has two domains");
    };
    let parts = [(main, 350.0), (main, 1200.0), (shadow, 200.0)];
    for (part, (domain, mhz)) in parts.into_iter().enumerate() {
        for (index, charge) in CHARGES.iter().enumerate() {
            let at = part * CHARGES.len() + index;
            let [with, without] = [value(&charged, at, charge)?, value(&bare, at, charge)?];
            let wanted = expected(domain, mhz, charge, without);
            let (name, who) = (charge.name, &domain.name);
            ensure!(
                (with - wanted).abs() <= TICK_NS,
                "{name} on {who} at {mhz} MHz: {with} ns, {wanted:.2} by the board's file"
            );
        }
    }
    Ok(())
}

fn value(outcome: &Outcome, at: usize, charge: &Charge) -> anyhow::Result<f64> {
    let (name, value, _) = outcome.values.get(at).context("a record is missing")?;
    ensure!(name.ends_with(charge.name), "{name} stands where {} should", charge.name);
    Ok(*value)
}

fn expected(domain: &Domain, mhz: f64, charge: &Charge, bare_ns: f64) -> f64 {
    let units = |units: u64| units as f64 / UNITS as f64;
    let costs = &domain.costs;
    let own = if domain.isa == "aarch64" { (charge.main)(costs) } else { (charge.shadow)(costs) };
    bare_ns * units(costs.instruction) + units(own) * 1000.0 / mhz
}

/// `lab.weak-core`: kernel work takes the weak core at least as long as K2 reports, and not longer
/// than plausible: it does 20 to 70 % of what the strong one does at 350 MHz in the same time.
pub fn weak_core(kit: &Kit<'_>) -> anyhow::Result<()> {
    let share = weak_share(kit)?;
    ensure!((20.0..=70.0).contains(&share), "the weak core does {share:.1} % of the strong one");
    Ok(())
}

/// Returns the weak core's speed relative to the strong one, in percent: the geometric mean over
/// context switches, thread creation, and frame allocation.
pub fn weak_share(kit: &Kit<'_>) -> anyhow::Result<f64> {
    let run = "bench threads 200; bench frames 200; \
               on shadow bench threads 200; on shadow bench frames 200";
    let outcome = kit.run("duo-1x1", run, Choice::default())?;
    let (main, shadow) = outcome.values.split_at(outcome.values.len() / 2);
    ensure!(main.len() == 5 && shadow.len() == 5, "records are missing: {main:?} {shadow:?}");
    let ratios = main.iter().zip(shadow).map(|((_, strong, _), (_, weak, _))| strong / weak);
    Ok((ratios.map(f64::ln).sum::<f64>() / main.len() as f64).exp() * 100.0)
}

/// `lab.cluster`: two cores share a voltage, so the idle power of one depends on the needs of the
/// other; a gated clock leaves the leakage. Compared with the table of `rpx`, within one percent.
pub fn cluster(kit: &Kit<'_>) -> anyhow::Result<()> {
    let run = "frequency 81; idle gated; phase high; nap 1000; phase change; \
               on shadow frequency 81; phase low; nap 1000; phase alone; \
               domain inactive shadow; nap 1000; phase end";
    let outcome = kit.run("rpx", run, Choice::default())?;
    let main = outcome.lab.domains.first().context("a board without domains")?;
    let power = |mv: u32| {
        let point = main.point_at(81_000, mv).context("81 MHz is in the table")?;
        Ok::<_, anyhow::Error>(lab::energy::power_uw(main, State::Gated(point)) as f64 / 1e6)
    };
    for (name, mv) in [("high", 1300), ("low", 1100), ("alone", 1100)] {
        let found = outcome.phases.iter().find(|phase| phase.name == name);
        let phase = found.with_context(|| format!("no phase {name}: {:?}", outcome.phases))?;
        let watts = phase.energy_pj[0] as f64 / phase.time as f64;
        let wanted = power(mv)?;
        ensure!((watts / wanted - 1.0).abs() < 0.01, "{name}: {watts} W, by the table {wanted}");
    }
    Ok(())
}
